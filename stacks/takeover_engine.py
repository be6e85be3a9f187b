"""The steps of taking over that Pulumi makes: the import of the secrets, and the plan of what the program would do."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hybrid_talos._contract import BadInputs
from hybrid_talos.secret_file import pipe_file
from hybrid_talos.talos_calls import Machine
from hybrid_talos.talos_yaml import dump, load

from . import pipes, stack_state
from .secrets_bundle import bundle_of, same_secrets
from .stack_state import SECRETS, StackState, StateError
from .takeover_machines import Planned
from .takeover_records import VARIABLE

APPLY = "talos:machine/configurationApply:ConfigurationApply"
_UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # pulumi/pulumi sdk/go/common/resource/plugin/rpc.go
_LINES = 25
_PROGRAM = Path(__file__).parent / "takeover_program"
_ROOT = Path(__file__).resolve().parents[1]

# What the first step makes, and what may therefore be in the stack when it is gone on with.
_OURS = ("pulumi:pulumi:Stack", "pulumi:providers:talos", "hybrid-talos:index:HAControlPlane", SECRETS)
_IMAGE = re.compile(r"::image-metal(-schematic)?$")


class EngineError(Exception):
    """Pulumi could not do a step; the message says why and what to do."""


@dataclass(frozen=True)
class Engine:
    """One stack and its configuration file."""

    stack: str
    config_file: Path

    def state(self) -> StackState:
        """Return what is in the stack; StateError when it cannot be read."""
        return stack_state.read_state(stack_state.export_state(self.stack))

    def is_taken(self, state: StackState, bundle: Mapping[str, Any]) -> bool:
        """Return whether the stack has the cluster's secrets already.

        Raises:
            EngineError: it has others, or anything else in it.
        """
        secrets = state.of_type(SECRETS)
        if secrets:
            there = bundle_of((secrets[0].get("outputs") or {}).get("machineSecrets") or {})
            if not same_secrets(there, bundle):
                raise EngineError(
                    f"stack {self.stack} has the secrets of another cluster. Next: take over into a new stack "
                    "(pulumi stack init)"
                )
            return True
        others = [
            str(resource.get("urn"))
            for resource in state.resources
            if resource.get("type") not in _OURS and not _IMAGE.search(str(resource.get("urn")))
        ]
        if others:
            raise EngineError(
                f"stack {self.stack} is not empty: {others[0].rpartition('::')[2]} and {len(others) - 1} more. Next: "
                "take over into a new stack (pulumi stack init)"
            )
        return False

    def put_secrets(self, bundle: Mapping[str, Any]) -> None:
        """Import the secrets: the Talos provider reads them through a pipe, and the engine encrypts them."""
        # JSON is YAML, and every text in it is one for Talos too.
        with pipe_file(json.dumps(bundle)) as file:
            self._run(
                ["up", "--yes", "--skip-preview", "--cwd", str(_PROGRAM)],
                "the secrets could not be put into the stack",
                {VARIABLE: file.path},
            )

    def plan(self, reached_at: Mapping[str, str]) -> list[Planned]:
        """Return the machines as the program would configure them.

        ``reached_at`` is where the Talos API of machines is reached, by their address, where it is elsewhere.

        Raises:
            EngineError: the preview fails, or a configuration is not known beforehand.
        """

        with tempfile.TemporaryDirectory(prefix="hybrid-talos-") as folder:
            # Secrets in it are encrypted, as in the file itself.
            looked_up = replace(self, config_file=Path(folder, self.config_file.name))
            looked_up.config_file.write_text(without_look_up(self.config_file))

            def preview(path: str) -> None:
                words = ["preview", "--save-plan", path, "--show-secrets", "--cwd", str(_ROOT)]
                looked_up._run(words, "the preview of the stack fails")

            _, written = pipes.received(preview)
        try:
            plans: Mapping[str, Any] = json.loads(written)["resourcePlans"]
        except (ValueError, KeyError, TypeError):
            raise EngineError("pulumi wrote a plan in a form that is not known here") from None
        found = sorted(_planned(plans, reached_at), key=lambda each: (not each.control_plane, each.machine.name))
        if not any(each.control_plane for each in found):
            raise EngineError(
                f"stack {self.stack} plans no machine to configure: it manages the cluster already, or its settings "
                "have no cluster.controlPlanes"
            )
        return found

    def _run(self, words: Sequence[str], what: str, environment: Mapping[str, str] | None = None) -> None:
        path = shutil.which("pulumi")
        if path is None:
            raise EngineError("pulumi is not on PATH. Next: install it (https://www.pulumi.com/docs/install/)")
        command = [path, *words, "--stack", self.stack, "--config-file", str(self.config_file.absolute())]
        done = subprocess.run(
            [*command, "--non-interactive", "--color", "never"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **(environment or {})},
        )
        if done.returncode:
            # Both hide secrets by themselves.
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            # What went wrong goes before the traces of what was ended for it.
            wrong = [line for line in lines if "error:" in line]
            raise EngineError(f"{what}:\n" + "\n".join((wrong or lines)[-_LINES:]))


def _planned(plans: Mapping[str, Any], reached_at: Mapping[str, str]) -> Iterator[Planned]:
    for urn, plan in plans.items():
        goal = plan.get("goal") or {}
        if goal.get("type") != APPLY:
            continue
        added = stack_state.plain((goal.get("inputDiff") or {}).get("adds") or {})
        if not added.get("node"):
            continue
        name = str(goal.get("name") or urn.rpartition("::")[2]).removesuffix("-config")
        base, patches = added.get("machineConfigurationInput"), added.get("configPatches") or []
        if _UNKNOWN in (base, patches, added["node"], *(patches if isinstance(patches, list) else ())):
            raise EngineError(
                f"{name}: its configuration is not known before the first `pulumi up`. Next: set what it waits for "
                "(such as a record or load balancer that the stack makes) to what is there already"
            )
        control_plane = name.startswith("control-plane-")
        yield Planned(
            Machine(
                name.removeprefix("control-plane-" if control_plane else "workers-"),
                str(added["node"]),
                reached_at.get(str(added["node"]), str(added.get("endpoint") or added["node"])),
            ),
            str(base),
            [str(patch) for patch in patches if patch],
            control_plane,
        )


def without_look_up(path: Path) -> str:
    """Return a configuration file in which the endpoint's name is not looked up.

    Until it is, nothing that the machines are told is known in a preview; and it is no part of what they are told.
    """
    (document,) = load(path.read_text(), str(path))
    document["config"]["hybrid-talos:settings"]["cluster"]["endpoint"]["checkDns"] = False
    return dump([document])


def read_settings(path: Path) -> tuple[str, Any]:
    """Return `hybrid-talos:stack` and `hybrid-talos:settings` of a configuration file.

    Raises:
        StateError: it cannot be read.
    """
    try:
        (document,) = load(path.read_text(), str(path))
        config = document.get("config") or {}
        return str(config.get("hybrid-talos:stack") or ""), config.get("hybrid-talos:settings") or {}
    except (OSError, BadInputs, ValueError, AttributeError):
        raise StateError(f"{path}: is no readable configuration of a stack, such as Pulumi.dev.yaml") from None
