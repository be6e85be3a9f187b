"""Rotation of the Talos authority and the join tokens: what may follow what, what machines are told, who is asked."""

import base64
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import yaml
from hybrid_talos import life_props, rotation, rotation_gate, rotation_record
from hybrid_talos._contract import BadInputs
from hybrid_talos.cluster_work import Cluster
from hybrid_talos.ha_control_plane import HAControlPlane
from hybrid_talos.node_template import TEMPLATE_LABEL
from hybrid_talos.rotation import TALOS, TOKENS, Step, step_problem
from hybrid_talos.talos_calls import Machine, NotOfThisCluster, Unreachable
from hybrid_talos.work_provider import WorkError
from talos_recorder import PAIR, SECRETS, TYPES, Recorder, is_secret, plain, run

BIRTH = Step()


def pem(name: str) -> str:
    text = f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(name.encode()).decode()}\n-----END CERTIFICATE-----\n"
    return base64.b64encode(text.encode()).decode()


class TestSteps:
    @pytest.mark.parametrize(
        ("part", "steps"),
        [
            (TALOS, [BIRTH, Step(1, "accept"), Step(1, "issue"), Step(1), Step(2, "accept")]),
            (TOKENS, [BIRTH, Step(1, "issue"), Step(1), Step(2, "issue"), Step(2)]),
        ],
    )
    def test_each_stage_follows_the_one_before_and_no_other(self, part: str, steps: list[Step]) -> None:
        for number, done in enumerate(steps):
            allowed = {wanted for wanted in steps if step_problem(part, done, wanted) is None}
            back = {steps[number - 1]} if done.stage == "accept" else set()
            assert allowed == {done, *steps[number + 1 : number + 2], *back}

    def test_a_refusal_names_the_stage_to_take(self) -> None:
        said = step_problem(TALOS, Step(1, "accept"), Step(2, "accept"))
        assert said is not None
        assert "does not follow generation 1, accept" in said
        assert "Next: set generation 1, issue" in said

    @pytest.mark.parametrize("stage", ["accept", "issue", "finish"])
    def test_what_is_in_use_is_among_what_is_kept(self, stage: str) -> None:
        step = Step(3, stage)
        assert step.issues in step.kept
        assert step.accepted is None or step.accepted in step.kept
        assert step.accepted != step.issues


class TestSecrets:
    def test_only_what_is_rotated_comes_from_later_sets(self) -> None:
        birth = SECRETS["machineSecrets"]
        talos = {"certs": {"os": {"cert": "new", "key": "newer"}, "etcd": {"cert": "never"}}}
        tokens = {"trustdinfo": {"token": "t"}, "secrets": {"bootstrapToken": "a.b", "secretboxEncryptionSecret": "no"}}
        found = rotation.with_rotated(birth, talos, tokens)
        assert found["certs"] == {**birth["certs"], "os": {"cert": "new", "key": "newer"}}
        assert found["secrets"] == {"bootstrapToken": "a.b", "secretboxEncryptionSecret": "box"}
        assert (found["trustdinfo"], found["cluster"]) == ({"token": "t"}, birth["cluster"])
        assert birth["certs"]["os"] == PAIR

    def test_incomplete_sets_are_refused_without_their_text(self) -> None:
        with pytest.raises(BadInputs) as refused:
            rotation.with_rotated(SECRETS["machineSecrets"], {"certs": {"k8s": "hidden"}}, None)
        assert "hidden" not in str(refused.value)
        assert refused.value.__cause__ is None

    def test_certificates_are_joined_in_order_and_each_once(self) -> None:
        joined = base64.b64decode(rotation.joined_certificates([pem("a"), pem("b"), pem("a")])).decode()
        assert joined.count("BEGIN CERTIFICATE") == 2
        assert joined.index(base64.b64encode(b"a").decode()) < joined.index(base64.b64encode(b"b").decode())
        assert rotation.joined_certificates([pem("a")]) == pem("a")

    def test_the_lock_of_a_cluster_has_one_name_while_two_authorities_are_known(self) -> None:
        both = rotation.joined_certificates([pem("old"), pem("new")])
        assert life_props._oldest(both) == pem("old") == life_props._oldest(pem("old"))  # noqa: SLF001


class Sets(Recorder):
    """A Talos provider whose sets of secrets differ."""

    def new_resource(self, args: Any) -> tuple[str | None, dict[str, Any]]:
        identity, outputs = super().new_resource(args)
        if args.typ == TYPES["secrets"] and not self.first_preview:
            pair = {"cert": pem(args.name), "key": f"key of {args.name}"}
            secrets = SECRETS["machineSecrets"]
            outputs["machineSecrets"] = {
                **secrets,
                "certs": {**secrets["certs"], "os": pair},
                "trustdinfo": {"token": f"trust of {args.name}"},
                "secrets": {**secrets["secrets"], "bootstrapToken": f"{args.name}.secret"},
            }
            outputs["clientConfiguration"] = {
                "caCertificate": pem(args.name),
                "clientCertificate": f"client of {args.name}",
                "clientKey": f"client key of {args.name}",
            }
        return identity, outputs


def built(steps: dict[str, Any] | None, *, first_preview: bool = False, **changes: Any) -> tuple[Sets, dict[str, Any]]:
    recorder = Sets(first_preview=first_preview)
    machines = [{"name": f"cp-{n}", "address": f"192.0.2.{n}", "install_disk": "/dev/vda"} for n in (1, 2, 3)]
    inputs: Any = {
        "cluster_name": "demo",
        "talos_version": "1.14.0",
        "kubernetes_version": "1.36.3",
        "endpoint": {"host": "k8s.demo.example.com", "kind": "dns"},
        "control_planes": machines,
        "installer_image": "factory.talos.dev/metal-installer/abc:v1.14.0",
        **({"rotation": steps} if steps is not None else {}),
        **changes,
    }
    kept: dict[str, Any] = {}

    def program() -> dict[str, Any]:
        component = HAControlPlane("cp", inputs, recorder.watch())
        kept["rotating"] = component.rotating
        outputs = {"secrets": component.machine_secrets, "client": component.client_configuration}
        return outputs | {f"static-{n}": patch for n, patch in enumerate(component.static_worker_patches)}

    found = run(recorder, program)
    return recorder, {**{key: value for key, (value, _) in found.items()}, **kept}


def authority(stage: str, generation: int = 1) -> dict[str, Any]:
    return {"talos_authority": {"generation": generation, "stage": stage}}


def accepted(recorder: Sets) -> list[str]:
    """Return what the first control plane is told to accept."""
    texts = plain(recorder.of_type("apply")["cp-cp-1-config"]["configPatches"])
    documents = [document for text in texts for document in yaml.safe_load_all(text)]
    return [
        entry["crt"] for document in documents for entry in (document.get("machine") or {}).get("acceptedCAs") or ()
    ]


def worker_accepts(recorder: Sets) -> list[str]:
    (call,) = [plain(c.args) for c in recorder.calls if plain(c.args).get("machineType") == "worker"]
    documents = [document for text in call["configPatches"] for document in yaml.safe_load_all(text)]
    return [
        entry["crt"] for document in documents for entry in (document.get("machine") or {}).get("acceptedCAs") or ()
    ]


OLD, NEW = pem("cp-secrets"), pem("cp-talos-authority-1")


@pytest.mark.parametrize(
    ("stage", "issues", "control_planes", "workers", "static", "client"),
    [
        ("accept", OLD, [NEW], [NEW], [], "client of cp-secrets"),
        ("issue", NEW, [OLD], [], [OLD], "client of cp-talos-authority-1"),
        ("finish", NEW, [], [], [], "client of cp-talos-authority-1"),
    ],
)
def test_machines_are_told_what_the_stage_says(
    stage: str, issues: str, control_planes: list[str], workers: list[str], static: list[str], client: str
) -> None:
    recorder, found = built(authority(stage))
    assert found["secrets"]["certs"]["os"]["cert"] == issues
    assert found["secrets"]["certs"]["etcd"] == PAIR
    assert accepted(recorder) == control_planes
    assert worker_accepts(recorder) == workers
    told = [
        entry["crt"]
        for n in range(len(static))
        for entry in yaml.safe_load(found[f"static-{n}"])["machine"]["acceptedCAs"]
    ]
    assert told == static
    assert found["client"]["clientCertificate"] == client
    trusted = base64.b64decode(found["client"]["caCertificate"]).decode().count("BEGIN")
    assert trusted == (1 if stage == "finish" else 2)


def test_without_a_rotation_nothing_is_added() -> None:
    recorder, found = built(None)
    assert list(recorder.of_type("secrets")) == ["cp-secrets"]
    assert "cp-rotation" not in recorder.resources
    assert found["rotating"] is None
    assert accepted(recorder) == []


def test_what_is_in_use_is_protected_and_what_comes_or_goes_is_not() -> None:
    expected = {
        ("accept", 1): {"cp-secrets": True, "cp-talos-authority-1": None},
        ("issue", 2): {"cp-secrets": True, "cp-talos-authority-1": None, "cp-talos-authority-2": True},
        ("finish", 2): {"cp-secrets": True, "cp-talos-authority-2": True},
    }
    for (stage, generation), protects in expected.items():
        recorder, found = built(authority(stage, generation))
        assert {name: recorder.options[name].protect for name in recorder.of_type("secrets")} == protects
        assert found["rotating"].protect is (None if stage == "accept" else True)


def test_the_gate_stands_before_the_membership_with_public_things_and_secret_credentials() -> None:
    recorder, _ = built({**authority("issue"), "join_tokens": {"generation": 1, "stage": "issue"}})
    assert recorder.depends_on("cp-membership") == ["cp-rotation"]
    inputs = recorder.resources["cp-rotation"].inputs
    assert inputs["authority"] == NEW
    assert inputs["token"] == "cp-join-tokens-1"
    assert is_secret(inputs["client_configuration"])
    assert "client_configuration" in (recorder.options["cp-rotation"].additional_secret_outputs or [])


def test_new_tokens_are_all_that_a_rotation_of_tokens_changes() -> None:
    _, found = built({"join_tokens": {"generation": 1, "stage": "issue"}})
    assert found["secrets"]["trustdinfo"]["token"] == "trust of cp-join-tokens-1"
    assert found["secrets"]["secrets"]["bootstrapToken"] == "cp-join-tokens-1.secret"
    assert found["secrets"]["certs"]["os"]["cert"] == OLD
    assert found["client"]["caCertificate"] == OLD


def test_a_stage_that_is_none_is_refused_with_those_that_are() -> None:
    with pytest.raises(BadInputs, match="rotation.join_tokens.stage.*'issue' or 'finish'"):
        built({"join_tokens": {"generation": 1, "stage": "accept"}})
    with pytest.raises(BadInputs, match="rotation.talos_authority.generation"):
        built(authority("accept", 0))


def test_nothing_of_a_rotation_needs_a_value_in_the_preview() -> None:
    built(authority("accept"), first_preview=True)


PLANES = [Machine(f"cp-{n}", f"192.0.2.{n}", f"192.0.2.{n}") for n in (1, 2, 3)]


def config(*authorities: str, token: str = "old") -> str:
    machine = {"ca": {"crt": authorities[0]}, "acceptedCAs": [{"crt": each} for each in authorities[1:]]}
    return yaml.safe_dump({"machine": machine, "cluster": {"token": f"{token}.secret"}})


@dataclass
class Machines:
    """The machines of a cluster, as talosctl and the Kubernetes API show them."""

    configs: dict[str, str | None]
    """By address; None where nothing answers."""
    nodes_: list[tuple[str, str, bool]]
    """Name, address, and whether it is of a pool."""
    forgotten: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    silent: int = 0
    """How often a machine does not answer yet."""

    def configuration(self, machine: Machine) -> str:
        found = self.configs[machine.address]
        if found is None:
            raise Unreachable("code = Unavailable")
        return found

    def version(self, machine: Machine) -> str:
        if machine.name == "cp-2" and self.silent > 0:
            self.silent -= 1
            raise NotOfThisCluster("x509: certificate signed by unknown authority")
        return "1.14.0"

    def listed(self) -> list[dict[str, Any]]:
        return [
            {
                "metadata": {"name": name, "labels": {TEMPLATE_LABEL: "abc"} if pool else {}},
                "status": {
                    "addresses": [
                        {"type": "Hostname", "address": name},
                        {"type": "InternalIP", "address": address},
                    ]
                },
            }
            for name, address, pool in self.nodes_
        ]

    def forget_token(self, token_id: str) -> None:
        self.forgotten.append(token_id)

    def cluster(self) -> Cluster:
        made: Any = Cluster
        now = iter(range(0, 10**6, 10))
        return cast(
            Cluster,
            made(
                self,
                PLANES,
                lambda: nullcontext(self),
                None,
                lambda _: None,
                self.warned.append,
                clock=lambda: next(now),
                sleep=lambda _: None,
            ),
        )


def site(**changes: str | None) -> Machines:
    """Return a cluster that has accepted the new authority, with these machines in another state."""
    named = {"cp_1": 1, "cp_2": 2, "cp_3": 3, "worker": 4, "pool": 5}
    configs: dict[str, str | None] = {f"192.0.2.{number}": config(OLD, NEW) for number in named.values()}
    configs |= {f"192.0.2.{named[name]}": given for name, given in changes.items()}
    return Machines(
        configs,
        [(name.replace("_", "-"), f"192.0.2.{number}", name == "pool") for name, number in named.items()],
    )


def begin(machines: Machines, part: str, stage: str) -> None:
    rotation_gate.ready(machines.cluster(), {part: Step(1, stage)}, authority=NEW, token="new")


class TestGate:
    def test_goes_on_when_every_machine_knows_the_new_authority(self) -> None:
        begin(site(), TALOS, "issue")
        begin(site(**{name: config(NEW, OLD) for name in ("cp_1", "cp_2", "cp_3")}), TALOS, "finish")

    @pytest.mark.parametrize("name", ["cp_2", "worker"])
    def test_stops_before_a_machine_that_does_not_know_it(self, name: str) -> None:
        with pytest.raises(WorkError) as held:
            begin(site(**{name: config(OLD)}), TALOS, "issue")
        assert f"{name.replace('_', '-')} does not know the new Talos authority yet" in str(held.value)
        assert "no machine was changed" in str(held.value)

    @pytest.mark.parametrize("part", [TALOS, TOKENS])
    def test_stops_before_a_machine_that_does_not_answer(self, part: str) -> None:
        with pytest.raises(WorkError, match="worker does not show its configuration"):
            begin(site(worker=None), part, "issue")

    def test_a_pools_machine_may_be_old_until_the_end_and_not_longer(self) -> None:
        old = {"pool": config(OLD)}
        begin(site(**old), TALOS, "issue")
        with pytest.raises(WorkError, match="pool does not know .* replace it"):
            begin(site(**old), TALOS, "finish")

    def test_a_pools_machine_that_is_not_reached_is_named_and_holds_nothing(self) -> None:
        machines = site(pool=None)
        begin(machines, TALOS, "finish")
        assert len(machines.warned) == 1
        assert "pool, a machine of a pool, does not show" in machines.warned[0]

    def test_old_tokens_hold_the_end_of_their_rotation(self) -> None:
        new = {name: config(OLD, NEW, token="new") for name in ("cp_1", "cp_2", "cp_3", "worker")}
        with pytest.raises(WorkError, match="pool has the old join tokens: replace it"):
            begin(site(**new), TOKENS, "finish")
        begin(site(**new, pool=config(OLD, NEW, token="new")), TOKENS, "finish")

    def test_says_nothing_of_a_configuration_that_it_cannot_read(self) -> None:
        with pytest.raises(WorkError) as held:
            begin(site(worker="token: hidden: ["), TALOS, "issue")
        assert "hidden" not in str(held.value)

    def test_the_preview_says_what_the_stage_means_and_refuses_one_out_of_turn(self) -> None:
        began = {"steps": {TALOS: {"generation": 1.0, "stage": "issue"}}}
        news, problems = rotation_gate.planned(began, {"steps": {TALOS: {"generation": 1, "stage": "finish"}}})
        assert problems == {}
        assert news["plan"][0].startswith(f"{TALOS}: generation 1, issue -> generation 1, finish: the old authority")
        _, problems = rotation_gate.planned(began, {"steps": {TALOS: {"generation": 1, "stage": "accept"}}})
        assert "does not follow generation 1, issue" in problems["rotation"]


class TestRecord:
    def test_waits_until_all_machines_answer_the_new_credentials(self) -> None:
        machines = site()
        machines.silent = 3
        talos: Any = machines
        rotation_record.taken(machines.cluster(), talos, PLANES)
        assert machines.silent == 0

    def test_names_the_machine_that_does_not(self) -> None:
        machines = site()
        machines.silent = 10**6
        talos: Any = machines
        with pytest.raises(WorkError, match="cp-2 does not answer the new credentials"):
            rotation_record.taken(machines.cluster(), talos, PLANES)

    def test_the_old_bootstrap_token_is_deleted_and_never_the_new_one(self) -> None:
        machines = site()
        rotation_record.forget_token(machines.cluster(), "old", "new")
        rotation_record.forget_token(machines.cluster(), "new", "new")
        assert machines.forgotten == ["old"]

    def test_a_stage_that_was_never_complete_lets_no_other_follow(self) -> None:
        _, problems = rotation_record.planned({}, {"steps": {TALOS: {"generation": 1, "stage": "issue"}}})
        assert "Next: set generation 1, accept" in problems["rotation"]
