"""What Pulumi keeps of a stack, secrets in clear: read over a pipe, and never written."""

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SECRETS = "talos:machine/secrets:Secrets"
CONTROL_PLANE = "hybrid-talos:index:HAControlPlane"
_STACK = "pulumi:pulumi:Stack"

# pulumi/pulumi sdk/go/common/resource/sig/sig.go
_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"

HOW = "pulumi stack export --show-secrets"


class StateError(Exception):
    """The state cannot be read or lacks something; the message says what to do."""


@dataclass(frozen=True)
class StackState:
    """The resources and outputs of a stack."""

    resources: tuple[Mapping[str, Any], ...] = field(repr=False)
    outputs: Mapping[str, Any] = field(repr=False)

    def of_type(self, token: str) -> list[Mapping[str, Any]]:
        """Return the resources of a type that are not about to be deleted."""
        return [resource for resource in self.resources if resource.get("type") == token and not resource.get("delete")]


def export_state(stack: str | None, environment: Mapping[str, str] | None = None) -> str:
    """Return the state of a stack, of the one that is selected if none is named, as pulumi prints it.

    Raises:
        StateError: pulumi is missing or refuses.
    """
    path = shutil.which("pulumi", path=None if environment is None else environment.get("PATH"))
    if path is None:
        raise StateError(
            f"pulumi is not on PATH. Next: install it, or give the state to this command: {HOW} | ... --state -"
        )
    words = [path, "stack", "export", "--show-secrets", *(["--stack", stack] if stack else [])]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        # pulumi's own words, of the stack and the backend: it prints the state to the other stream alone.
        raise StateError(f"`{HOW}` failed: {' '.join(done.stderr.split())[-400:]}")
    return done.stdout


def read_state(text: str) -> StackState:
    """Return a state that ``export_state`` returned.

    Raises:
        StateError: it is none, or its secrets are still encrypted.
    """
    try:
        loaded = json.loads(text)
        resources = [plain(resource) for resource in loaded["deployment"].get("resources") or []]
        found = [dict(resource) for resource in resources]
    except StateError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StateError(f"this is not the state of a stack. Next: give what `{HOW}` prints") from None
    outputs = next((resource.get("outputs") or {} for resource in found if resource.get("type") == _STACK), {})
    return StackState(tuple(found), outputs)


def plain(value: Any) -> Any:
    """Return a value of the state with its secrets in clear."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get(_SIGNATURE) == _SECRET:
        if "plaintext" not in value:
            raise StateError(f"the state's secrets are encrypted. Next: give what `{HOW}` prints")
        return plain(json.loads(value["plaintext"]))
    return {key: plain(item) for key, item in value.items()}


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for nested in value.values():
            yield from texts(nested)
    elif isinstance(value, list):
        for nested in value:
            yield from texts(nested)
