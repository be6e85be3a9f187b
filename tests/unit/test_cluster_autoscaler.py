import json
import re
import shlex

import pulumi
import pytest
from autoscaler_program import (
    GROUP_ID,
    SECRET,
    aliyun,
    azure,
    container,
    environment,
    group,
    on_aliyun,
    on_azure,
    opened,
    pod,
    refusal,
    template,
)
from hybrid_talos._contract import BadInputs
from hybrid_talos.autoscaler_identity import AZURE_ACTIONS
from hybrid_talos.autoscaler_manifests import fingerprint, read_group
from hybrid_talos.cluster_autoscaler import ClusterAutoscaler
from pool_recorder import is_secret, run

# What runs


@pytest.mark.parametrize(
    ("recorder", "stem", "provider", "nodes"),
    [
        (on_azure, "autoscaler-azure", "azure", "--nodes=0:10:workers-vmss"),
        (on_aliyun, "autoscaler-aliyun", "alicloud", "--nodes=0:5:asg-1"),
    ],
)
def test_flags_name_the_cloud_the_groups_and_an_own_lease(recorder, stem, provider, nodes):
    made = recorder()
    assert container(made)["command"] == ["./cluster-autoscaler"]
    assert container(made)["args"] == [
        f"--cloud-provider={provider}",
        "--namespace=kube-system",
        f"--leader-elect-resource-name={stem}",
        f"--status-config-map-name={stem}-status",
        "--enforce-node-group-min-size=true",
        "--max-node-provision-time=20m",
        "--v=4",
        nodes,
    ]
    assert container(made)["image"] == "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1"
    assert made.values["name"] == stem


def test_chosen_flags_are_written_as_the_autoscaler_reads_them():
    flags = container(
        on_azure(
            expander="most-pods",
            max_node_provision_minutes=30,
            scale_down_unneeded_minutes=5,
            scale_down_utilization_threshold=0.3,
            new_pod_scale_up_delay_seconds=120,
            balance_similar_node_groups=True,
            log_level=2,
        )
    )["args"]
    assert {
        "--expander=most-pods",
        "--max-node-provision-time=30m",
        "--scale-down-unneeded-time=5m",
        "--scale-down-utilization-threshold=0.3",
        "--new-pod-scale-up-delay=120s",
        "--balance-similar-node-groups=true",
        "--v=2",
    } <= set(flags)


def test_case_48_groups_come_one_flag_each_in_an_order_that_the_program_cannot_change():
    groups = {key: pulumi.Output.from_input(group(f"{key}-vmss", least=2, most=5)) for key in ("b", "a")}
    expected = ["--nodes=2:5:a-vmss", "--nodes=2:5:b-vmss"]
    for order in (groups, dict(reversed(groups.items()))):
        made = on_azure(groups=order)
        assert [flag for flag in container(made)["args"] if flag.startswith("--nodes")] == expected
        assert list(made.values["groups"]) == ["a", "b"]
    assert not any("auto-discovery" in flag for flag in container(on_aliyun())["args"])


def test_a_group_that_came_through_the_engine_is_read_too():
    wire = {"cloud": "azure", "name": "vmss", "minSize": 1.0, "maxSize": 3.0, "labels": {}, "taints": None}
    assert "--nodes=1:3:vmss" in container(on_azure(groups={"w": pulumi.Output.from_input(wire)}))["args"]


def unknown():
    """Return an output that a preview does not know yet."""

    async def that(value):
        return value

    return pulumi.Output(set(), that(None), that(False))


def test_nothing_of_an_unknown_input_is_looked_at_in_a_preview():
    def program():
        names = {"kubernetes_version": "1.36.3", "node_groups": {"w": unknown()}}
        later = azure(resource_group_name=unknown(), resource_group_id=unknown(), client_secret=unknown())
        ClusterAutoscaler("one", {**names, "azure": {**later, "principal_id": "p"}})
        ClusterAutoscaler("two", {**names, "azure": later})
        ClusterAutoscaler("three", {**names, "azure": later, "deployment": "cozystackPackage"})
        ClusterAutoscaler("four", {**names, "aliyun": aliyun(access_key_secret=unknown())})

    recorder = run(program, preview=True)
    flags = opened(recorder.one("four-deployment").raw["spec"])["template"]["spec"]["containers"][0]["args"]
    assert flags[-1] == pulumi.runtime.rpc.UNKNOWN
    assert "<pulumi" not in json.dumps([found.raw for found in recorder.found])
    assert "Output" not in json.dumps([found.raw for found in recorder.found])


def test_the_pod_is_restricted_and_never_sits_on_a_machine_that_it_may_take_away():
    made = on_azure()
    assert pod(made)["securityContext"]["runAsNonRoot"] is True
    assert pod(made)["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container(made)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "volumes" not in pod(made)
    (term,) = pod(made)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"][0]["key"] == "node-role.kubernetes.io/control-plane"
    assert pod(made)["tolerations"][0]["key"] == "node-role.kubernetes.io/control-plane"
    assert pod(made)["priorityClassName"] == "system-cluster-critical"
    assert container(made)["livenessProbe"]["httpGet"]["path"] == "/health-check"


def test_the_budget_lets_a_control_plane_be_drained():
    made = on_azure()
    budget = made.one("-budget").inputs["spec"]
    assert budget["maxUnavailable"] == 1
    assert "minAvailable" not in budget
    assert budget["selector"] == opened(made.one("-deployment").inputs["spec"])["selector"]


# Environment and credentials


def test_azure_environment_is_complete_and_its_secret_comes_from_the_secret():
    assert environment(on_azure()) == {
        "ARM_SUBSCRIPTION_ID": "11111111-1111-1111-1111-111111111111",
        "ARM_TENANT_ID": "22222222-2222-2222-2222-222222222222",
        "ARM_CLIENT_ID": "33333333-3333-3333-3333-333333333333",
        "ARM_RESOURCE_GROUP": "demo-workers",
        "ARM_VM_TYPE": "vmss",
        "LOCATION": "westeurope",
        "AZURE_ENABLE_LABEL_PREDICTIONS_ON_TEMPLATE": "false",
        "ARM_CLIENT_SECRET": ("autoscaler-azure", "ARM_CLIENT_SECRET"),
    }


def test_alibaba_environment_is_complete_and_its_key_comes_from_the_secret():
    assert environment(on_aliyun()) == {
        "REGION_ID": "cn-hangzhou",
        "ACCESS_KEY_ID": ("autoscaler-aliyun", "ACCESS_KEY_ID"),
        "ACCESS_KEY_SECRET": ("autoscaler-aliyun", "ACCESS_KEY_SECRET"),
    }


@pytest.mark.parametrize("made", [on_azure, on_aliyun])
def test_case_47_credentials_are_sent_as_text_and_once_and_always_as_a_secret(made):
    recorder = made()
    secret = recorder.one("-credentials")
    assert SECRET in opened(secret.inputs["stringData"]).values()
    assert "data" not in secret.inputs
    assert is_secret(secret.raw["stringData"]) or all(map(is_secret, secret.raw["stringData"].values()))
    for found in recorder.found:
        if found.name != secret.name:
            assert SECRET not in json.dumps(found.inputs), found.name


def mark(made):
    return template(made)["metadata"]["annotations"]["hybrid-talos.dev/credentials"]


def test_case_47_another_credential_rolls_the_pod_and_the_mark_of_it_is_a_secret():
    first, same, other = on_azure(), on_azure(), on_azure(cloud=azure(client_secret=pulumi.Output.secret("x" * 40)))
    assert mark(first) == mark(same)
    assert mark(first) != mark(other)
    raw = first.one("-deployment").raw
    assert is_secret(raw["spec"]) or is_secret(
        raw["spec"]["template"]["metadata"]["annotations"]["hybrid-talos.dev/credentials"]
    )


def test_the_mark_gives_no_hold_on_the_credential():
    assert re.fullmatch("[0-9a-f]{12}", fingerprint("a", [SECRET]))
    assert fingerprint("a", [SECRET]) != fingerprint("b", [SECRET])
    assert fingerprint("a", ["x", "y"]) != fingerprint("a", ["xy", ""])


@pytest.mark.parametrize("value", ["abc\n", " abc", "", "\t"])
def test_case_47_white_space_around_a_secret_is_refused_without_printing_it(value):
    for made in (
        lambda: on_azure(cloud=azure(client_secret=pulumi.Output.secret(value))),
        lambda: on_aliyun(cloud=aliyun(access_key_secret=pulumi.Output.secret(value))),
    ):
        with pytest.raises(BadInputs) as caught:
            made()
        assert "white space" in str(caught.value)
        assert "abc" not in str(caught.value)


def test_case_47_white_space_in_plain_values_is_refused():
    with pytest.raises(BadInputs, match=r"azure\.subscription_id"):
        on_azure(cloud=azure(subscription_id=" 0000"))
    with pytest.raises(BadInputs, match=r"azure\.resource_group_name"):
        on_azure(cloud=azure(resource_group_name="rg-a\n"))
    with pytest.raises(BadInputs, match=r"aliyun\.region"):
        on_aliyun(cloud=aliyun(region="cn-hangzhou\n"))


# Rights in the cluster


def granted(rules):
    return {
        (group, resource, verb, tuple(rule.get("resourceNames", ())))
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


READ = ("get", "list", "watch")


def test_cluster_rights_are_complete_and_no_more():
    expected = {
        ("", "events", "create"),
        ("", "events", "patch"),
        ("", "pods/eviction", "create"),
        ("", "pods/status", "update"),
        ("", "nodes", "update"),
        ("batch", "jobs", "patch"),
    }
    for kind, resources in {
        "": "nodes namespaces pods services replicationcontrollers persistentvolumeclaims persistentvolumes",
        "apps": "daemonsets replicasets statefulsets",
        "batch": "jobs cronjobs",
        "policy": "poddisruptionbudgets",
        "storage.k8s.io": "storageclasses csinodes csidrivers csistoragecapacities volumeattachments",
        "resource.k8s.io": "resourceslices deviceclasses resourceclaims",
    }.items():
        expected |= {(kind, resource, verb) for resource in resources.split() for verb in READ}
    rules = on_azure().one("-cluster-role").inputs["rules"]
    assert granted(rules) == {(*entry, ()) for entry in expected}


def test_rights_in_its_namespace_are_for_its_own_lease_and_status():
    made = on_azure()
    role = made.one("autoscaler-role").inputs
    assert role["metadata"]["namespace"] == "kube-system"
    lease, status = ("autoscaler-azure",), ("autoscaler-azure-status",)
    assert granted(role["rules"]) == {
        ("", "configmaps", "create", ()),
        ("", "configmaps", "list", ()),
        ("", "configmaps", "watch", ()),
        *(("", "configmaps", verb, status) for verb in ("delete", "get", "update")),
        ("coordination.k8s.io", "leases", "create", ()),
        *(("coordination.k8s.io", "leases", verb, lease) for verb in ("get", "update")),
    }


def test_the_deployment_waits_for_all_rights():
    for made, right in (
        (on_azure(cloud=azure(principal_id="p-1")), "-cloud-role-assignment"),
        (on_aliyun(), "-policy"),
    ):
        needs = {urn.rsplit("::", 1)[1] for urn in made.one("-deployment").dependencies}
        assert any(need.endswith(right) for need in needs)
        assert {"autoscaler-account", "autoscaler-cluster-binding", "autoscaler-binding"} <= needs


# Rights in the cloud


def test_azure_role_is_for_one_group_and_deletes_no_set():
    made = on_azure(cloud=azure(principal_id="44444444-4444-4444-4444-444444444444"))
    role = made.one("-cloud-role").inputs
    assert role["permissions"] == [{"actions": list(AZURE_ACTIONS), "notActions": []}]
    assert "Microsoft.Compute/virtualMachineScaleSets/delete" not in AZURE_ACTIONS
    assert not any("*" in action for action in AZURE_ACTIONS)
    assert role["scope"] == GROUP_ID
    assert role["assignableScopes"] == [GROUP_ID]
    assignment = made.one("-cloud-role-assignment").inputs
    assert assignment["principalType"] == "ServicePrincipal"
    assert assignment["roleDefinitionId"] == "autoscaler-cloud-role-id"
    assert assignment["scope"] == GROUP_ID
    assert made.values["command"] == ""


def test_azure_names_are_stable_and_differ_between_groups_and_components():
    def guid(**options):
        return on_azure(**options).one("-cloud-role").inputs["roleDefinitionId"]

    assert guid() == guid() == guid(cloud=azure(resource_group_id=GROUP_ID.lower()))
    assert guid() != guid(name="other")
    assert guid() != guid(cloud=azure(resource_group_id=f"{GROUP_ID}-2"))


def test_without_a_principal_the_command_says_how_to_assign_the_role():
    made = on_azure()
    assert "azure-native:authorization:RoleAssignment" not in made.types()
    assert shlex.split(made.values["command"]) == [
        *("az", "role", "assignment", "create", "--assignee", "33333333-3333-3333-3333-333333333333"),
        *("--role", "autoscaler-cloud-role-id", "--scope", GROUP_ID),
    ]


def test_alibaba_policy_changes_the_given_groups_alone():
    groups = {key: pulumi.Output.from_input(group(f"asg-{key}", "aliyun")) for key in ("b", "a")}
    made = on_aliyun(groups=groups, cloud=aliyun(user_name="scaler"))
    policy = made.one("-cloud-policy").inputs
    read, write = json.loads(policy["policyDocument"])["Statement"]
    assert read["Resource"] == ["*"]
    assert all(action.split(":")[1].startswith("Describe") for action in read["Action"])
    assert write["Action"] == ["ess:RemoveInstances", "ess:ScaleWithAdjustment"]
    assert write["Resource"] == [f"acs:ess:cn-hangzhou:*:scalinggroup/asg-{key}" for key in "ab"]
    assert policy["rotateStrategy"] == "DeleteOldestNonDefaultVersionWhenLimitExceeded"
    attachment = made.one("-cloud-policy-attachment").inputs
    assert attachment == {"policyName": "autoscaler-aliyun", "policyType": "Custom", "userName": "scaler"}
    assert made.values["command"] == ""


def test_without_a_user_the_command_says_how_to_attach_the_policy():
    made = on_aliyun(cloud=aliyun(policy_name="demo-scaler"))
    assert "alicloud:ram/userPolicyAttachment:UserPolicyAttachment" not in made.types()
    assert "--PolicyName demo-scaler" in made.values["command"]


# Side by side


def test_two_autoscalers_of_each_cloud_share_no_names():
    def program():
        for name in ("one", "two"):
            ClusterAutoscaler(
                f"{name}-azure",
                {
                    "kubernetes_version": "1.36.3",
                    "node_groups": {"w": pulumi.Output.from_input(group("vmss"))},
                    "azure": azure(),
                },
            )
            ClusterAutoscaler(
                name,
                {
                    "kubernetes_version": "1.36.3",
                    "node_groups": {"w": pulumi.Output.from_input(group("asg", "aliyun"))},
                    "aliyun": aliyun(),
                },
            )

    recorder = run(program)
    objects = [(found.type, found.inputs["metadata"]["name"]) for found in recorder.found if "metadata" in found.inputs]
    assert len(objects) == len(set(objects)) == 4 * 8
    for flag in ("--leader-elect-resource-name", "--status-config-map-name"):
        chosen = [
            one
            for found in recorder.found
            if found.type == "kubernetes:apps/v1:Deployment"
            for one in opened(found.inputs["spec"])["template"]["spec"]["containers"][0]["args"]
            if one.startswith(flag)
        ]
        assert len(set(chosen)) == 4
    assert all(found.parent for found in recorder.found if not found.type.startswith("hybrid-talos:"))


# Cozystack


def test_a_package_carries_the_charts_values_as_a_secret():
    made = on_azure(deployment="cozystackPackage")
    assert "kubernetes:apps/v1:Deployment" not in made.types()
    assert "kubernetes:core/v1:Secret" not in made.types()
    package = made.one("-package")
    assert package.type == "kubernetes:cozystack.io/v1alpha1:Package"
    assert package.inputs["metadata"] == {"name": "cozystack.cluster-autoscaler-azure"}
    assert is_secret(package.raw["spec"])
    assert "spec" in package.secret_outputs
    spec = opened(package.inputs["spec"])
    assert spec["variant"] == "default"
    values = spec["components"]["cluster-autoscaler-azure"]["values"]["cluster-autoscaler"]
    assert values["azureClientSecret"] == SECRET
    assert values["azureResourceGroup"] == "demo-workers"
    assert values["azureVMType"] == "vmss"
    assert values["autoscalingGroups"] == [{"name": "workers-vmss", "minSize": 0, "maxSize": 10}]
    assert values["image"] == {"repository": "registry.k8s.io/autoscaling/cluster-autoscaler", "tag": "v1.36.1"}
    assert values["extraEnv"] == {"AZURE_ENABLE_LABEL_PREDICTIONS_ON_TEMPLATE": "false", "LOCATION": "westeurope"}
    assert values["extraArgs"]["enforce-node-group-min-size"] == "true"
    assert values["tolerations"][1]["tolerationSeconds"] == 60
    assert values["securityContext"]["runAsNonRoot"] is True
    assert made.values["name"] == "cluster-autoscaler-azure-azure-cluster-autoscaler"


# Refusals


def test_inputs_that_cannot_work_are_refused():
    assert "exactly one" in refusal(azure=None)
    assert "exactly one" in refusal(aliyun=aliyun())
    assert "node_groups" in refusal(node_groups={})
    assert "no Cluster Autoscaler matches Kubernetes 1.37.0" in refusal(kubernetes_version="1.37.0")
    assert "no package for Alibaba" in refusal(azure=None, aliyun=aliyun(), deployment="cozystackPackage")
    assert "1.35 is not the minor version" in refusal(image="example.com:5000/scaler:v1.35.2")
    assert "no digest" in refusal(image="example.com/scaler@sha256:" + "a" * 64, deployment="cozystackPackage")
    assert "max_node_provision_minutes" in refusal(max_node_provision_minutes=5)
    assert "expander" in refusal(expander="cheapest")
    assert "azure.colour" in refusal(azure=azure(colour="red"))
    assert "client_secret: required" in refusal(azure={k: v for k, v in azure().items() if k != "client_secret"})
    assert "extra_arguments: no such input" in refusal(extra_arguments={})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"least": 6, "most": 5}, "sizes"),
        ({"least": -1}, "sizes"),
        ({"most": 0}, "sizes"),
        ({"cloud": "aliyun"}, "is a group of aliyun"),
        ({"name": ""}, "no name"),
    ],
)
def test_case_48_groups_that_are_none_of_its_own_are_refused(changes, said):
    with pytest.raises(BadInputs, match=f"node_groups.w.*{said}"):
        read_group("ClusterAutoscaler 'x'", "w", "azure", group(**{"name": "vmss", **changes}))
    assert "node_groups.w" in refusal(node_groups={"w": pulumi.Output.from_input(group(**{"name": "vmss", **changes}))})


def test_another_image_may_have_a_registry_with_a_port_or_a_digest():
    image = "registry.example.com:5000/autoscaling/cluster-autoscaler:v1.36.0"
    assert container(on_azure(image=image))["image"] == image
    assert container(on_azure(image=f"{image}@sha256:{'a' * 64}"))["image"].endswith("a" * 64)
