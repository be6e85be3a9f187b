"""StaticWorkerPool under mocks: what it registers and what it refuses."""

from typing import Any

import pulumi
import pytest
import yaml
from hybrid_talos import cluster_patches as patches
from hybrid_talos._contract import BadInputs
from hybrid_talos.machine import MachineShape
from hybrid_talos.static_worker_pool import StaticWorkerPool, has_hostname_document
from pulumi.provider.experimental.analyzer import Analyzer
from talos_recorder import CONTROL_PLANE, OLD_WORKER, SECRETS, WORKER, Recorder, is_secret, plain, run

LOCATION = {"config_patch": "machine: {nodeAnnotations: {kilo.squat.ai/location: rack}}"}


def machines(count: int = 2) -> list[dict[str, Any]]:
    return [{"name": f"worker-{n}", "address": f"192.0.2.{20 + n}"} for n in range(1, count + 1)]


def inputs(**changes: Any) -> Any:
    return {
        "workers": machines(),
        "machine_config": pulumi.Output.secret(WORKER),
        "client_configuration": pulumi.Output.secret(SECRETS["clientConfiguration"]),
        "installer_image": "factory.talos.dev/metal-installer/abc:v1.14.0",
        **changes,
    }


def built(recorder: Recorder | None = None, **changes: Any) -> tuple[Recorder, dict[str, tuple[Any, bool]]]:
    recorder = recorder or Recorder()

    def program() -> dict[str, Any]:
        return {"node_names": StaticWorkerPool("pool", inputs(**changes), recorder.watch()).node_names}

    return recorder, run(recorder, program)


def patches_of(recorder: Recorder, worker: str) -> list[Any]:
    texts = plain(recorder.of_type("apply")[f"pool-{worker}-config"]["configPatches"])
    return [document for text in texts for document in yaml.safe_load_all(text)]


def test_registers_one_apply_for_each_worker_by_its_name() -> None:
    recorder, outputs = built(workers=machines(3))
    own = {f"pool-worker-{n}-{role}" for n in (1, 2, 3) for role in ("member", "config")}
    assert set(recorder.resources) == {"pool", *own, "pool-health"}
    assert outputs["node_names"] == (["worker-1", "worker-2", "worker-3"], False)


def test_a_list_in_another_order_is_the_same_machines() -> None:
    first, _ = built(workers=machines(3))
    second, _ = built(workers=machines(3)[::-1])
    assert first.of_type("apply") == second.of_type("apply")


def test_applies_the_given_configuration_to_the_machine_as_a_secret() -> None:
    recorder, _ = built(machine_config=WORKER, client_configuration=SECRETS["clientConfiguration"])
    given = recorder.of_type("apply")["pool-worker-2-config"]
    assert (given["node"], given["endpoint"]) == ("192.0.2.22", "192.0.2.22")
    assert is_secret(given["machineConfigurationInput"])
    assert is_secret(given["clientConfiguration"])
    assert plain(given["machineConfigurationInput"]) == WORKER
    assert plain(given["clientConfiguration"]) == SECRETS["clientConfiguration"]
    assert not is_secret(given["configPatches"])


def test_credentials_may_come_with_pythons_names() -> None:
    python_names = {"ca_certificate": "Y2E=", "client_certificate": "Y2VydA==", "client_key": "a2V5"}
    recorder, _ = built(client_configuration=python_names)
    given = recorder.of_type("apply")["pool-worker-1-config"]
    assert plain(given["clientConfiguration"]) == SECRETS["clientConfiguration"]


def test_outputs_that_hold_credentials_are_marked() -> None:
    recorder, _ = built()
    for name in recorder.of_type("apply"):
        assert "client_configuration" in (recorder.options[name].additional_secret_outputs or ())


def test_each_worker_gets_name_disk_image_and_subnets() -> None:
    workers = machines()
    workers[0] |= {"install_disk": "/dev/nvme0n1", "labels": {"example.com/row": "1"}}
    recorder, _ = built(workers=workers, node_subnets=["192.0.2.0/24"])
    documents = patches_of(recorder, "worker-1")
    assert documents == [
        {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off", "hostname": "worker-1"},
        {
            "machine": {
                "install": {"disk": "/dev/nvme0n1", "image": "factory.talos.dev/metal-installer/abc:v1.14.0"},
                "kubelet": {"nodeIP": {"validSubnets": ["192.0.2.0/24"]}},
                "nodeLabels": {"example.com/row": "1"},
            }
        },
    ]


def test_before_112_the_name_stands_in_the_network_section() -> None:
    recorder, _ = built(machine_config=OLD_WORKER)
    (document,) = patches_of(recorder, "worker-1")
    assert document["machine"]["network"] == {"hostname": "worker-1"}


def test_given_patches_come_first_so_that_typed_inputs_win() -> None:
    workers = machines()
    workers[1]["config_patches"] = ["machine: {sysctls: {a: own}}"]
    recorder, _ = built(
        workers=workers,
        location=pulumi.Output.from_input(LOCATION),
        config_patches=["machine: {sysctls: {a: all}}"],
    )
    own = plain(recorder.of_type("apply")["pool-worker-2-config"]["configPatches"])
    assert own[:3] == ["machine: {sysctls: {a: all}}", "machine: {sysctls: {a: own}}", LOCATION["config_patch"]]
    assert "worker-2" in own[3]
    assert len(plain(recorder.of_type("apply")["pool-worker-1-config"]["configPatches"])) == 3
    # The wire of mocks marks a list as a whole as soon as one of its entries is marked.
    assert is_secret(recorder.of_type("apply")["pool-worker-1-config"]["configPatches"])


def test_no_worker_ever_gets_an_address_or_api_of_control_planes() -> None:
    recorder, _ = built()
    text = str(patches_of(recorder, "worker-1"))
    assert "VIP" not in text
    assert "certSANs" not in text
    assert "kubernetesTalosAPIAccess" not in text


@pytest.mark.parametrize("graceful", [True, False])
def test_a_removed_worker_is_reset_and_drained_unless_told_not_to(graceful: bool) -> None:
    recorder, _ = built(**({} if graceful else {"graceful_removal": False}))
    assert all("onDestroy" not in given for given in recorder.of_type("apply").values())
    for given in recorder.of_type("member").values():
        assert plain(given["teardown"]) is not graceful
        assert plain(given["role"]) == "worker"


def test_workers_are_upgraded_as_many_at_once_as_asked_for_and_before_their_configurations() -> None:
    recorder, _ = built(
        workers=machines(4),
        talos_version="v1.14.0",
        kubernetes_version="1.36.3",
        control_planes=[{"name": "cp-1", "address": "192.0.2.11", "endpoint": "127.0.0.1:50001"}],
        endpoints={"talos": {"192.0.2.22": "127.0.0.1:50002"}, "kubernetes": "https://10.0.0.1:8443"},
        upgrade={"parallelism": 2},
    )
    assert [recorder.depends_on(f"pool-worker-{n}-talos") for n in (1, 2, 3, 4)] == [
        [],
        [],
        ["pool-worker-1-talos"],
        ["pool-worker-2-talos"],
    ]
    given = plain(recorder.of_type("talos")["pool-worker-2-talos"])
    assert (given["version"], given["endpoint"], given["role"]) == ("1.14.0", "127.0.0.1:50002", "worker")
    assert given["members"] == [{"name": "cp-1", "address": "192.0.2.11", "endpoint": "127.0.0.1:50001"}]
    assert given["kubernetes_server"] == "https://10.0.0.1:8443"
    for n in (1, 2, 3, 4):
        assert {"pool-worker-3-talos", "pool-worker-4-talos"} <= set(recorder.depends_on(f"pool-worker-{n}-config"))
    assert "pool-worker-1-config" in recorder.depends_on("pool-worker-3-config")
    assert "pool-worker-1-config" not in recorder.depends_on("pool-worker-2-config")
    assert not recorder.of_type("membership")
    assert not recorder.of_type("kubernetes")


def test_two_instances_do_not_collide() -> None:
    recorder = Recorder()

    def program() -> None:
        StaticWorkerPool("a", inputs())
        StaticWorkerPool("b", inputs(workers=[{"name": "worker-9", "address": "192.0.2.29"}]))

    run(recorder, program)
    assert set(recorder.of_type("apply")) == {"a-worker-1-config", "a-worker-2-config", "b-worker-9-config"}


def test_nothing_needs_a_value_in_the_first_preview() -> None:
    recorder = Recorder(first_preview=True)

    def program() -> dict[str, Any]:
        secrets = pulumi.Output.from_input(pulumi.UNKNOWN)
        pool = StaticWorkerPool("pool", inputs(machine_config=secrets, client_configuration=secrets))
        return {"node_names": pool.node_names}

    outputs = run(recorder, program)
    assert len(recorder.of_type("apply")) == 2
    assert outputs["node_names"] == (["worker-1", "worker-2"], False)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"workers": []}, "workers"),
    ({"workers": [*machines(), {"name": "worker-1", "address": "192.0.2.30"}]}, "worker-1 stands twice"),
    ({"workers": [*machines(), {"name": "w", "address": "192.0.2.21"}]}, "w and worker-1 have the same address"),
    ({"workers": [{"name": "worker.1", "address": "192.0.2.21"}]}, "workers.0.name"),
    ({"workers": [{"name": "w", "address": "192.0.2"}]}, "workers.0.address: must be an IPv4 address"),
    ({"workers": [{"name": "w"}]}, "workers.0.address"),
    ({"node_subnets": ["10.0.0.0/8"]}, "worker-1 has the address 192.0.2.21, which is in none of node_subnets"),
    ({"node_subnets": ["10.0.0.1/8"]}, "node_subnets.0"),
    ({"talos_version": "1.14.0"}, "kubernetes_version: required with talos_version"),
    ({"upgrade": {"parallelism": 0}}, "upgrade.parallelism"),
    ({"control_planes": [{"name": "cp-1", "endpoint": "192.0.2.11"}]}, "control_planes.0.address"),
    (
        {"workers": [{**machines()[0], "labels": {"node-role.kubernetes.io/worker": ""}}]},
        "worker-1: labels.node-role.kubernetes.io/worker",
    ),
    ({"workers": [{**machines()[0], "labels": {"example.com/tier": "x" * 64}}]}, "labels.example.com/tier"),
    ({"count": 3}, "count: no such input"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_refuses_bad_inputs_before_anything_is_registered(changes: dict[str, Any], message: str) -> None:
    recorder = Recorder()

    def program() -> None:
        with pytest.raises(BadInputs) as refusal:
            StaticWorkerPool("pool", inputs(**changes))
        assert message in str(refusal.value)
        assert str(refusal.value).startswith("StaticWorkerPool 'pool': ")

    run(recorder, program)
    assert not recorder.resources


@pytest.mark.parametrize("text", [CONTROL_PLANE, "", "machine: {}", WORKER + "---\n" + WORKER])
def test_refuses_what_is_no_workers_configuration_without_its_text(text: str) -> None:
    with pytest.raises(BadInputs, match="machine_config: is not the configuration of a worker") as refusal:
        has_hostname_document(text)
    assert "machine.token" not in str(refusal.value)


def test_sees_where_a_configuration_carries_the_name() -> None:
    assert has_hostname_document(WORKER)
    assert not has_hostname_document(OLD_WORKER)


def test_refuses_an_empty_installer_image() -> None:
    with pytest.raises(BadInputs, match="installer_image: is empty"):
        patches.one_machine(MachineShape(name="w", address="192.0.2.1"), hostname_document=True, installer_image="")


def test_schema_describes_every_input_and_output() -> None:
    found = Analyzer("hybrid-talos").analyze([StaticWorkerPool])
    component = found["component_definitions"]["StaticWorkerPool"]
    described = [*component.inputs.values(), *component.outputs.values()]
    for definition in found["type_definitions"].values():
        described += definition.properties.values()
    assert all(prop.description for prop in described)
    assert set(component.outputs_mapping.values()) == {"node_names"}
