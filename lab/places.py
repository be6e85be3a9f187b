"""Where the lab keeps what it makes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""


@dataclass(frozen=True)
class Places:
    """The folders of one lab. All of it is disposable, and git ignores it."""

    lab: Path
    """The simulated clouds' state lies here directly."""

    @property
    def state(self) -> Path:
        """The stacks' state, as the engine's file backend keeps it."""
        return self.lab / "state"

    @property
    def home(self) -> Path:
        """The engine's own folder, so that a user's login and plugins are neither used nor changed."""
        return self.lab / "home"

    @property
    def run(self) -> Path:
        """Configuration files as the engine gets them."""
        return self.lab / "run"

    @property
    def factory(self) -> Path:
        """Schematics and images of the lab's factory."""
        return self.lab / "factory"

    @property
    def azurite(self) -> Path:
        """Page blobs, when Azurite keeps them in the lab's place: it does when this folder is there."""
        return self.lab / "azurite"

    @property
    def certificates(self) -> Path:
        """The lab's certificates, keys included."""
        return self.lab / "certificates"

    @property
    def ports(self) -> Path:
        """The ports of the servers whose addresses stand in plans and state."""
        return self.lab / "ports.json"

    @property
    def lock(self) -> Path:
        """Held while a command works on the clouds through the engine."""
        return self.lab / "lock"


def places(environ: Mapping[str, str] | None = None) -> Places:
    """Return the lab's folders: $HYBRID_TALOS_LAB, else ``.lab`` in the checkout."""
    env = os.environ if environ is None else environ
    own = env.get("HYBRID_TALOS_LAB")
    return Places(Path(own).expanduser().absolute() if own else ROOT / ".lab")
