"""What every account of the lab has before any program runs: a RAM user, and the service roles of ECS and Auto Scaling.

These are no records, so that a destroyed stack leaves an empty cloud. ``without`` takes one away, as in an account in
which the role was never authorised (alibabacloud.com "Service-linked roles", "Import custom images").
"""

from ..world import World
from .bridge import ACCOUNT, PACKAGE

USERS = ("autoscaler",)
ROLES = ("AliyunECSImageImportDefaultRole", "AliyunESSDefaultRole")
_KIND, _ID = "account", ACCOUNT


def without(world: World, name: str) -> None:
    """Take a user or role away from the account."""
    missing = _missing(world) | {name}
    world.put(PACKAGE, _KIND, _ID, {"without": sorted(missing)})


def has_role(world: World, name: str) -> bool:
    """Say whether the account has a role: one of the services', or one that a program made."""
    return (name in ROLES and name not in _missing(world)) or world.get(PACKAGE, "Role", name) is not None


def has_user(world: World, name: str) -> bool:
    """Say whether the account has a RAM user: one that was there, or one that a program made."""
    return (name in USERS and name not in _missing(world)) or world.get(PACKAGE, "User", name) is not None


def _missing(world: World) -> set[str]:
    found = world.get(PACKAGE, _KIND, _ID)
    return set(found["without"]) if found else set()
