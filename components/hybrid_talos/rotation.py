"""Rotation of the Talos authority and of the join tokens: its stages, and what machines are told in each.

Pure functions. The stages are those of siderolabs/talos `pkg/rotate/pki/talos/talos.go`: the new authority is accepted
everywhere before it issues, and the old one is accepted everywhere until all certificates are new. Tokens have no such
overlap in Talos (`internal/app/trustd`: one token), and one in Kubernetes, where each bootstrap token is a Secret of
its own.
"""

import base64
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import Field

from ._contract import BadInputs, Shape
from .talos_yaml import Document

TALOS = "talos_authority"
TOKENS = "join_tokens"

STAGES: Mapping[str, tuple[str, ...]] = {TALOS: ("accept", "issue", "finish"), TOKENS: ("issue", "finish")}
"""The stages of each part, in order."""


class AuthorityStage(StrEnum):
    """Stage of the rotation of an authority."""

    ACCEPT = "accept"
    """All machines trust the new one, and the old one still issues."""
    ISSUE = "issue"
    """The new one issues, and the old one is still trusted."""
    FINISH = "finish"
    """The old one is gone."""


class TokenStage(StrEnum):
    """Stage of the rotation of tokens."""

    ISSUE = "issue"
    """Machines have the new ones, and the old bootstrap token still lets machines into Kubernetes."""
    FINISH = "finish"
    """The old ones are gone."""


class AuthorityRotationArgs(TypedDict):
    """How far the rotation of the Talos authority is."""

    generation: int
    """Number of the authority, 1 for the first that is not the one of the cluster's birth, and one more each time."""
    stage: AuthorityStage
    """Stage of its rotation: one after the other, with a complete update in between."""


class TokenRotationArgs(TypedDict):
    """How far the rotation of the join tokens is."""

    generation: int
    """Number of the tokens, 1 for the first that are not those of the cluster's birth, and one more each time."""
    stage: TokenStage
    """Stage of their rotation: one after the other, with a complete update in between. For new ones machines reboot."""


class RotationArgs(TypedDict):
    """How far the rotations of a cluster's authority and tokens are; they stay here when they are finished."""

    talos_authority: NotRequired[AuthorityRotationArgs]
    """The authority of the Talos API."""
    join_tokens: NotRequired[TokenRotationArgs]
    """What lets a machine join: the tokens of Talos and of Kubernetes."""


class AuthorityRotationShape(Shape):
    """The checked form of AuthorityRotationArgs."""

    generation: Annotated[int, Field(ge=1, le=1000)]
    stage: AuthorityStage


class TokenRotationShape(Shape):
    """The checked form of TokenRotationArgs."""

    generation: Annotated[int, Field(ge=1, le=1000)]
    stage: TokenStage


@dataclass(frozen=True)
class Step:
    """How far the rotation of one part is."""

    generation: int = 0
    stage: str = "finish"

    @property
    def issues(self) -> int:
        """Return the generation that is in use."""
        return self.generation - 1 if self.stage == "accept" else self.generation

    @property
    def accepted(self) -> int | None:
        """Return the generation that is trusted beside it, or None."""
        return {"accept": self.generation, "issue": self.generation - 1}.get(self.stage)

    @property
    def kept(self) -> tuple[int, ...]:
        """Return the generations whose secrets are needed."""
        return (self.generation,) if self.stage == "finish" else (self.generation - 1, self.generation)

    def __str__(self) -> str:
        return f"generation {self.generation}, {self.stage}"


class RotationShape(Shape):
    """The checked form of RotationArgs."""

    talos_authority: AuthorityRotationShape | None = None
    join_tokens: TokenRotationShape | None = None

    def step(self, part: str) -> Step:
        """Return how far the rotation of a part is."""
        given = getattr(self, part)
        return Step() if given is None else Step(given.generation, str(given.stage))

    @property
    def begun(self) -> bool:
        """Return whether there is or was any."""
        return self.talos_authority is not None or self.join_tokens is not None

    @property
    def recorded(self) -> dict[str, dict[str, Any]]:
        """Return the steps as properties of a resource."""
        return {part: {"generation": self.step(part).generation, "stage": self.step(part).stage} for part in STAGES}


def steps_of(recorded: Any) -> dict[str, Step]:
    """Return the steps that a resource recorded; those of the birth where there is no record."""
    given = recorded if isinstance(recorded, Mapping) else {}
    return {
        # Numbers come back as floating point.
        part: Step(int(given[part]["generation"]), str(given[part]["stage"])) if part in given else Step()
        for part in STAGES
    }


def _next(part: str, done: Step) -> Step:
    stages = STAGES[part]
    if done.stage == "finish":
        return Step(done.generation + 1, stages[0])
    return Step(done.generation, stages[stages.index(done.stage) + 1])


def step_problem(part: str, done: Step, wanted: Step) -> str | None:
    """Return why a part cannot go from what is ``done`` to what is ``wanted``, with the step to take, or None."""
    after = _next(part, done)
    if wanted in (done, after):
        return None
    if done.stage == "accept" and wanted == Step(done.generation - 1):
        # Nothing was issued by the new one yet.
        return None
    return (
        f"{part}: {wanted} does not follow {done}, which is what all machines have. Next: set {after} and run `pulumi "
        "up` to its end; a stage is complete only then"
    )


def step_plan(part: str, done: Step, wanted: Step) -> str:
    """Return what going to a step means, to be shown in a preview."""
    means = {
        (TALOS, "accept"): "every machine accepts the new authority, the old one issues",
        (TALOS, "issue"): "the new authority issues, every machine still accepts the old one",
        (TALOS, "finish"): "the old authority is dropped: credentials that it signed stop working",
        (TOKENS, "issue"): "machines get the new tokens one after the other, each with a reboot",
        (TOKENS, "finish"): "the old bootstrap token is deleted from Kubernetes",
    }
    return f"{part}: {done} -> {wanted}: {means[part, wanted.stage]}"


def joined_certificates(certificates: Sequence[str]) -> str:
    """Return one text (PEM in base64) of some, in their order and each once."""
    try:
        texts = [base64.b64decode(each, validate=True).decode().strip() for each in certificates]
    except ValueError:
        raise BadInputs("the Talos provider made an authority that cannot be read") from None
    if len(texts) == 1:
        return certificates[0]
    return base64.b64encode("".join(f"{text}\n" for text in dict.fromkeys(texts)).encode()).decode()


def with_rotated(
    secrets: Mapping[str, Any], talos: Mapping[str, Any] | None, tokens: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return a cluster's secrets (the provider's form) with the parts that were rotated out of later sets."""
    found: dict[str, Any] = copy.deepcopy(dict(secrets))
    try:
        if talos is not None:
            found["certs"]["os"] = dict(talos["certs"]["os"])
        if tokens is not None:
            found["trustdinfo"]["token"] = tokens["trustdinfo"]["token"]
            found["secrets"]["bootstrapToken"] = tokens["secrets"]["bootstrapToken"]
    except (KeyError, TypeError):
        # Without the cause, which would quote the secrets.
        raise BadInputs("the Talos provider made secrets without an authority or a token") from None
    return found


def authority_certificate(secrets: Mapping[str, Any]) -> str:
    """Return the certificate (PEM in base64) of the Talos authority out of secrets."""
    try:
        return str(secrets["certs"]["os"]["cert"])
    except (KeyError, TypeError):
        raise BadInputs("the Talos provider made secrets without a Talos authority") from None


def token_id(secrets: Mapping[str, Any]) -> str:
    """Return the public half of the bootstrap token out of secrets: the name of its Secret ends with it."""
    try:
        return str(secrets["secrets"]["bootstrapToken"]).partition(".")[0]
    except (KeyError, TypeError):
        raise BadInputs("the Talos provider made secrets without a bootstrap token") from None


def accepting(certificate: str) -> list[Document]:
    """Return the patch that makes a machine accept one more Talos authority."""
    return [{"machine": {"acceptedCAs": [{"crt": certificate}]}}]


def knows_authority(main: Mapping[str, Any], certificate: str) -> bool:
    """Return whether a machine's main document has an authority, as the one in use or as one that it accepts."""
    machine = main.get("machine") or {}
    known = [machine.get("ca"), *(machine.get("acceptedCAs") or ())]
    return any(_same(each.get("crt"), certificate) for each in known if isinstance(each, Mapping))


def _same(one: Any, other: str) -> bool:
    try:
        return base64.b64decode(str(one)).strip() == base64.b64decode(other).strip()
    except ValueError:
        return False


def uses_token(main: Mapping[str, Any], token: str) -> bool:
    """Return whether a machine's main document has the bootstrap token with this id."""
    return str((main.get("cluster") or {}).get("token") or "").partition(".")[0] == token
