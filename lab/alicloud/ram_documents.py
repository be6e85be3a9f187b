"""What RAM takes for a policy document.

Source: alibabacloud.com "Policy structure and syntax".
"""

import json
import re
from typing import Any

from ..world import CloudError

_LONGEST = 6144


def verify_document(code: str, text: Any, trust: bool = False) -> None:
    """Refuse a policy document that RAM does not understand.

    Source: alibabacloud.com "Policy structure and syntax" (Version "1", Statement with Effect, Action, Resource; a
    trust policy
    has a Principal in the place of a Resource).
    """
    if len(str(text)) > _LONGEST:
        raise CloudError("InvalidParameter.PolicyDocument.Length", f"The document has more than {_LONGEST} characters.")
    try:
        document = json.loads(text)
    except (TypeError, ValueError):
        raise CloudError(code, "The policy document is no JSON.") from None
    if not isinstance(document, dict) or document.get("Version") != "1":
        raise CloudError(code, 'The policy document must have the Version "1".')
    statements = document.get("Statement")
    if not isinstance(statements, list) or not statements:
        raise CloudError(code, "The policy document must have a list of Statements.")
    for statement in statements:
        if not isinstance(statement, dict) or statement.get("Effect") not in ("Allow", "Deny"):
            raise CloudError(code, "Every statement must have the Effect Allow or Deny.")
        actions = statement.get("Action", statement.get("NotAction"))
        listed = [actions] if isinstance(actions, str) else actions
        if not isinstance(listed, list) or not listed:
            raise CloudError(code, "Every statement must have an Action.")
        for action in listed:
            if action != "*" and re.fullmatch(r"[a-z0-9-]+:[A-Za-z0-9*?]+", str(action)) is None:
                raise CloudError(code, f"The action '{action}' must have the form service:action.")
        if trust and not statement.get("Principal"):
            raise CloudError(code, "Every statement of a trust policy must have a Principal.")
        if not trust:
            _verify_resources(code, statement.get("Resource"))


def _verify_resources(code: str, resources: Any) -> None:
    listed = [resources] if isinstance(resources, str) else resources
    if not isinstance(listed, list) or not listed:
        raise CloudError(code, "Every statement must have a Resource.")
    for resource in listed:
        if resource != "*" and re.fullmatch(r"acs:[^:]+:[^:]*:[^:]*:.+", str(resource)) is None:
            raise CloudError(code, f"The resource '{resource}' must have the form acs:service:region:account:path.")
