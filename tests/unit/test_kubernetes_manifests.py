"""Every manifest of ours against the models of the official Kubernetes client: field names, types, required fields."""

import re
from functools import partial

import pytest
from hybrid_talos._contract import BadInputs
from hybrid_talos.cluster_autoscaler import ClusterAutoscaler
from hybrid_talos.manifests import object_base
from hybrid_talos.network_mesh import NetworkMesh
from hybrid_talos.talos_cloud_controller import TalosCloudController
from kubernetes import client
from pool_recorder import is_secret, run
from test_cluster_autoscaler import aliyun, azure, group

# Kinds that come from custom resource definitions; the client has no model of them.
CUSTOM = {("talos.dev/v1alpha1", "ServiceAccount")}


def problems(value, kind, path):
    """Return what of ``value`` does not fit the client's model ``kind``."""
    if found := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        if not isinstance(value, list):
            return [f"{path}: no list"]
        return [line for n, item in enumerate(value) for line in problems(item, found[1], f"{path}[{n}]")]
    if found := re.fullmatch(r"[Dd]ict[\[(]str, (.+)[\])]", kind):
        if not isinstance(value, dict):
            return [f"{path}: no map"]
        return [line for key, item in value.items() for line in problems(item, found[1], f"{path}.{key}")]
    plain = {"str": str, "int": int, "bool": bool, "float": int, "object": object}
    if kind in plain:
        return [] if isinstance(value, plain[kind]) else [f"{path}: {value!r} is no {kind}"]
    model = getattr(client, kind)
    names = {wire: name for name, wire in model.attribute_map.items()}
    if not isinstance(value, dict):
        return [f"{path}: no {kind}"]
    lines = [f"{path}.{key}: {kind} has no such field" for key in value.keys() - names.keys()]
    for key in value.keys() & names.keys():
        lines += problems(value[key], model.openapi_types[names[key]], f"{path}.{key}")
    try:
        model(**{names[key]: item for key, item in value.items() if key in names})
    except ValueError as error:
        lines.append(f"{path}: {error}")
    return lines


def plain(value):
    """Return a recorded value without marks of secrets, its whole numbers as such."""
    if is_secret(value):
        return plain(value["value"])
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def rack(**changes):
    return {
        "kind": "kilo",
        "pod_cidr": "10.244.0.0/16",
        "service_cidr": "10.96.0.0/16",
        "locations": {"rack": {"cidrs": ["192.0.2.0/24"]}},
        **changes,
    }


PROGRAMS = {
    "mesh": lambda: NetworkMesh("mesh", rack()),
    "cilium": lambda: NetworkMesh("mesh", rack(cni="cilium", namespace="kube-system")),
    "controller": lambda: TalosCloudController("cloud", {"kubernetes_version": "1.36.3"}),
    "azure": lambda: ClusterAutoscaler(
        "scaler", {"kubernetes_version": "1.36.3", "node_groups": {"w": group("vmss")}, "azure": azure()}
    ),
    "aliyun": lambda: ClusterAutoscaler(
        "scaler", {"kubernetes_version": "1.36.3", "node_groups": {"w": group("asg", "aliyun")}, "aliyun": aliyun()}
    ),
}


def manifests(program):
    return [
        plain(found.inputs) for found in run(lambda: program() and None).found if found.type.startswith("kubernetes:")
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_manifest_fits_kubernetes(name):
    found = manifests(PROGRAMS[name])
    assert found
    for manifest in found:
        if (manifest["apiVersion"], manifest["kind"]) in CUSTOM:
            continue
        version = manifest["apiVersion"].rsplit("/")[-1]
        model = version.capitalize() + manifest["kind"]
        assert problems(manifest, model, f"{manifest['kind']} {manifest['metadata']['name']}") == []


def test_the_check_sees_what_is_wrong():
    check = partial(problems, kind="V1Container", path="c")
    assert check({"name": "a", "volume_mounts": []}) == ["c.volume_mounts: V1Container has no such field"]
    assert "c.name: 1 is no str" in check({"name": 1})
    assert "name" in check({"image": "a"})[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_pods_select_themselves_and_objects_belong_to_a_namespace_that_is_there(name):
    found = manifests(PROGRAMS[name])
    made = {one["metadata"]["name"] for one in found if one["kind"] == "Namespace"} | {"kube-system"}
    for manifest in found:
        assert manifest["metadata"].get("namespace", "kube-system") in made
        spec = manifest.get("spec", {})
        if manifest["kind"] in ("Deployment", "DaemonSet"):
            selector = spec["selector"]["matchLabels"]
            assert selector.items() <= spec["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("name", PROGRAMS)
def test_bindings_and_pods_name_objects_that_are_made(name):
    found = manifests(PROGRAMS[name])
    made = {(one["kind"], one["metadata"]["name"]) for one in found}
    # Kubernetes itself has this one.
    made.add(("Role", "extension-apiserver-authentication-reader"))
    for manifest in found:
        if manifest["kind"].endswith("Binding") and "roleRef" in manifest:
            assert (manifest["roleRef"]["kind"], manifest["roleRef"]["name"]) in made
            assert all((one["kind"], one["name"]) in made for one in manifest["subjects"])
        spec = manifest.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template:
            assert ("ServiceAccount", template["spec"]["serviceAccountName"]) in made
            for volume in template["spec"].get("volumes", []):
                if "configMap" in volume:
                    assert ("ConfigMap", volume["configMap"]["name"]) in made


@pytest.mark.parametrize("name", ["", "A", "1a", "a-", "a_b", "a" * 41])
def test_a_name_that_is_no_stem_of_object_names_is_refused(name):
    with pytest.raises(BadInputs, match="Kubernetes object names"):
        object_base("X", name)
    assert object_base("X", "a1-b") == "a1-b"
