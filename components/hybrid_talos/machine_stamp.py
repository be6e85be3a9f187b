"""The hash of what a pool's machines are made of: a label of its nodes and a tag of the pool.

Nodes that bear another one are stale: their image, configuration or machine is not that of a new one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from .machine_config import merge_documents, node_labels
from .node_template import TEMPLATE_LABEL, NodeTemplate
from .talos_yaml import Document

PLACEHOLDER = "0" * 16
"""Stands for the hash while it is not known: it has the form and the length of one."""


def stamp_of(documents: Sequence[Document], image_id: str, machine: Mapping[str, Any]) -> str:
    """Return the hash of an image, a configuration, and whatever else only a new machine can have.

    Sixteen hexadecimal digits, which tell nothing of the secrets in the configuration.
    """
    # Azure writes the same id now in upper, now in lower case.
    parts = [documents, image_id.lower(), dict(machine)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[: len(PLACEHOLDER)]


def stamped_config(documents: Sequence[Document], stamp: str) -> list[Document]:
    """Return a configuration whose node bears the hash."""
    return merge_documents(documents, [node_labels({TEMPLATE_LABEL: stamp})])


def template_stamped(template: NodeTemplate) -> NodeTemplate:
    """Return a template with a place for the hash, to make tags of."""
    return template.stamped(PLACEHOLDER)


def stamped_tags(
    plain: Mapping[str, str], stamped: Mapping[str, str], stamp: pulumi.Output[str]
) -> dict[str, pulumi.Input[str]]:
    """Return tags with the hash in its place: ``stamped`` are those of a template that has one, ``plain`` without."""
    return {name: value if name in plain else stamp for name, value in stamped.items()}
