"""Snapshots of etcd before risky steps: where they go, and how they get there."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyrage

from .snapshot_store import Store, name_of
from .talos_calls import Machine, Talos


@dataclass(frozen=True)
class Target:
    """Where snapshots go."""

    cluster: str
    store: Store
    recipients: Sequence[str]
    """Public keys (age) of those who may read them."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Target":
        """Return the target that properties of a resource describe."""
        from .snapshot_place import store_at  # noqa: PLC0415 - loads the clients of both clouds

        store = store_at(str(given["directory"]), given.get("oss_region"), given.get("oss_endpoint"))
        return cls(str(given["cluster"]), store, list(given["recipients"]))


def recipient_problem(recipient: str) -> str | None:
    """Return why a text is no public key of age, or None."""
    try:
        pyrage.x25519.Recipient.from_str(recipient)
    except pyrage.RecipientError:
        return "must be a public key of age, such as `age-keygen` prints it (age1...)"
    return None


def take(talos: Talos, machine: Machine, target: Target) -> str:
    """Take a snapshot from a member of etcd, keep it encrypted, and return its name; nothing half is left."""
    name = name_of(target.cluster)
    with closing(talos.snapshot(machine, target.recipients)) as content:
        target.store.put(name, content)
    return name
