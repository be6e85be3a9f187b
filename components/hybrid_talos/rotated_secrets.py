"""The secrets of a cluster through its rotations: a set of its own for each generation of each part.

Each set is made by the Talos provider, as the one of the birth is, so that no secret ever stands anywhere but in the
state. Of a later set only the parts that are rotated are used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pulumi
import pulumiverse_talos as talos

from . import control_plane_config as config
from . import rotation
from .cluster_patches import render
from .cluster_rotation import Rotating
from .rotation import STAGES, TALOS, TOKENS, RotationShape, Step

Known = pulumi.Output[Mapping[str, Any]]


@dataclass(frozen=True)
class _Set:
    machine: Known = field(repr=False)
    client: Known = field(repr=False)


def declared(name: str, contract: str, opts: pulumi.ResourceOptions) -> talos.machine.Secrets:
    """Declare one set of secrets, which no later change of settings or versions makes anew."""
    return talos.machine.Secrets(
        name,
        talos_version=contract,
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                # The contract at the birth of the set: the record of it stays whatever becomes of the settings.
                ignore_changes=["talos_version"],
                # The provider marks only some fields inside of these.
                additional_secret_outputs=["machine_secrets", "client_configuration"],
            ),
        ),
    )


class RotatedSecrets:
    """What is in use of a cluster's secrets, and how they are told to machines, in one stage of a rotation."""

    def __init__(
        self,
        name: str,
        birth: talos.machine.Secrets,
        shape: RotationShape,
        *,
        contract: str,
        protect: bool | None,
        parent: pulumi.Resource,
    ) -> None:
        self._shape = shape
        self._sets: dict[tuple[str, int], _Set] = {}
        for part in STAGES:
            step = shape.step(part)
            for generation in step.kept:
                made = birth
                if generation:
                    # What is in use is protected; what comes may be given up, and what goes is about to be dropped.
                    kept = pulumi.ResourceOptions(parent=parent, protect=protect if generation == step.issues else None)
                    made = declared(f"{name}-{part.replace('_', '-')}-{generation}", contract, kept)
                self._sets[part, generation] = _Set(_plain(made.machine_secrets), _plain(made.client_configuration))
        self._birth = _Set(_plain(birth.machine_secrets), _plain(birth.client_configuration))
        unfinished = [step for step in map(shape.step, STAGES) if step not in (Step(), Step(1, "accept"))]
        self.protect = protect if unfinished else None
        """Whether the record of the rotation must stay: not before anything of it is in use."""

    @property
    def machine_secrets(self) -> Known:
        """Return all secrets that are in use."""
        talos_, tokens = (
            self._sets[part, self._shape.step(part).issues].machine if self._shape.step(part).issues else None
            for part in (TALOS, TOKENS)
        )
        if talos_ is None and tokens is None:
            return self._birth.machine
        return cast(
            Known,
            pulumi.Output.all(birth=self._birth.machine, talos=talos_, tokens=tokens).apply(
                lambda known: rotation.with_rotated(known["birth"], known["talos"], known["tokens"])
            ),
        )

    @property
    def client(self) -> Known:
        """Return credentials that all machines take, before, amid and after the change to this stage."""
        step = self._shape.step(TALOS)
        return self._credentials(step.issues, step.kept)

    @property
    def check_client(self) -> Known:
        """Return credentials that machines take only once they have this stage."""
        step = self._shape.step(TALOS)
        # While the old authority issues, servers still show its certificates.
        return self._credentials(step.generation, step.kept if step.stage == "accept" else (step.generation,))

    def _credentials(self, own: int, trusted: tuple[int, ...]) -> Known:
        if len(trusted) == 1:
            return self._sets[TALOS, own].client
        return cast(
            Known,
            pulumi.Output.all(
                self._sets[TALOS, own].client, *(self._sets[TALOS, each].client for each in trusted)
            ).apply(
                lambda known: {
                    **known[0],
                    "caCertificate": rotation.joined_certificates([each["caCertificate"] for each in known[1:]]),
                }
            ),
        )

    @property
    def begun(self) -> bool:
        """Return whether there is or was a rotation."""
        return self._shape.begun

    def control_plane_patches(self) -> list[pulumi.Output[str]]:
        """Return what control planes accept beside the authority in use."""
        accepted = self._shape.step(TALOS).accepted
        return [] if accepted is None else [self._accepting(accepted)]

    def worker_patches(self) -> list[pulumi.Output[str]]:
        """Return what every worker accepts beside the authority in use.

        A worker trusts what it gets its certificate from; once the new authority issues on all control planes it needs
        no other. So machines of a pool that are made in that stage need not be made again after it.
        """
        step = self._shape.step(TALOS)
        return [self._accepting(step.generation)] if step.stage == "accept" else []

    def static_worker_patches(self) -> list[pulumi.Output[str]]:
        """Return what workers accept beyond that which are told of the next stage too.

        That makes them ask for a certificate once more in it, and with it comes whom they let in.
        """
        step = self._shape.step(TALOS)
        return [self._accepting(step.generation - 1)] if step.stage == "issue" else []

    def _accepting(self, generation: int) -> pulumi.Output[str]:
        # Certificates of authorities are no secrets: every client gets to see them.
        return pulumi.Output.unsecret(
            self._sets[TALOS, generation].machine.apply(
                lambda known: render(rotation.accepting(rotation.authority_certificate(known)))
            )
        )

    def gate_props(self) -> dict[str, Any]:
        """Return the properties of Rotation beyond those of the cluster."""
        return {
            "steps": self._shape.recorded,
            "authority": pulumi.Output.unsecret(self._newest(TALOS).apply(rotation.authority_certificate)),
            "token": pulumi.Output.unsecret(self._newest(TOKENS).apply(rotation.token_id)),
        }

    def rotating(self, shared: Mapping[str, Any]) -> Rotating | None:
        """Return what a RotationRecord needs; ``shared`` are the properties that all resources of the cluster have."""
        return Rotating({**shared, **self._record_props()}, self.protect) if self.begun else None

    def _record_props(self) -> dict[str, Any]:
        step = self._shape.step(TOKENS)
        old: pulumi.Input[str] = ""
        if step.stage == "issue":
            old = pulumi.Output.unsecret(self._sets[TOKENS, step.generation - 1].machine.apply(rotation.token_id))
        token = pulumi.Output.unsecret(self._newest(TOKENS).apply(rotation.token_id))
        return {
            "steps": self._shape.recorded,
            "token": token,
            "old_token": old,
            "check_configuration": pulumi.Output.secret(self.check_client),
        }

    def _newest(self, part: str) -> Known:
        return self._sets[part, self._shape.step(part).generation].machine


def _plain(value: Any) -> Known:
    return cast(Known, pulumi.Output.secret(value).apply(config.provider_form))
