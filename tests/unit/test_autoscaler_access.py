import json

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
from hybrid_talos.autoscaler_identity import AZURE_ACTIONS
from hybrid_talos.oidc_issuer import issuer_problem

ISSUER = "https://oidc.example.com/demo"
PRINT = "a" * 40
PROVIDER = "acs:ram::1234567890123456:oidc-provider/demo"


def without(args, *keys):
    return {key: value for key, value in args.items() if key not in keys}


def keyless_azure(**changes):
    return {**without(azure(), "client_id", "client_secret"), "workload_identity": {"issuer": ISSUER}, **changes}


def keyless_aliyun(**oidc):
    trust = {"issuer": ISSUER, **(oidc or {"fingerprints": [PRINT]})}
    return {**without(aliyun(), "access_key_id", "access_key_secret"), "oidc": trust}


def token(made):
    (volume,) = pod(made)["volumes"]
    (source,) = volume["projected"]["sources"]
    (mount,) = container(made)["volumeMounts"]
    assert mount["name"] == volume["name"]
    assert mount["readOnly"] is True
    found = source["serviceAccountToken"]
    return f"{mount['mountPath']}/{found['path']}", found["audience"]


# Azure


@pytest.mark.parametrize(
    ("cloud", "name", "audience"),
    [
        # The names as kubernetes-sigs/cloud-provider-azure `pkg/azclient/cloud.go` maps them, in capitals.
        ("china", "AZURECHINACLOUD", "api://AzureADTokenExchangeChina"),
        ("usgovernment", "AZUREUSGOVERNMENTCLOUD", "api://AzureADTokenExchangeUSGov"),
        ("public", None, "api://AzureADTokenExchange"),
    ],
)
def test_each_of_microsofts_clouds_is_asked_by_its_own_name(cloud, name, audience):
    with_secret = environment(on_azure(cloud=azure(environment=cloud)))
    keyless = on_azure(cloud=keyless_azure(environment=cloud))
    for found in (with_secret, environment(keyless)):
        assert found.get("ARM_CLOUD", "").upper() == (name or "")
    assert token(keyless)[1] == audience
    assert keyless.one("-cloud-identity-trust").inputs["audiences"] == [audience]


def test_the_package_names_the_cloud_too():
    made = on_azure(cloud=azure(environment="china"), deployment="cozystackPackage")
    package = opened(made.one("-package").inputs["spec"])
    values = package["components"]["cluster-autoscaler-azure"]["values"]["cluster-autoscaler"]
    assert values["extraEnv"]["ARM_CLOUD"] == "AzureChinaCloud"


def test_a_cloud_that_is_none_is_refused():
    message = refusal(azure=azure(environment="germany"))
    assert "azure.environment" in message
    assert "usgovernment" in message


def test_workload_identity_trusts_this_service_account_and_needs_no_secret():
    made = on_azure(cloud=keyless_azure())
    trust = made.one("-cloud-identity-trust").inputs
    account = made.one("-account").inputs["metadata"]
    assert trust["issuer"] == ISSUER
    assert trust["subject"] == f"system:serviceaccount:{account['namespace']}:{account['name']}"
    assert trust["audiences"] == ["api://AzureADTokenExchange"]
    file, audience = token(made)
    assert audience == trust["audiences"][0]
    seen = environment(made)
    assert seen["AZURE_FEDERATED_TOKEN_FILE"] == file
    assert seen["ARM_USE_WORKLOAD_IDENTITY_EXTENSION"] == "true"
    assert seen["ARM_CLIENT_ID"] == "autoscaler-cloud-identity-client"
    assert "ARM_CLIENT_SECRET" not in seen
    assert "kubernetes:core/v1:Secret" not in made.types()
    assert "hybrid-talos.dev/credentials" not in json.dumps(template(made))


def test_workload_identity_gets_the_role_and_comes_before_the_pod():
    made = on_azure(cloud=keyless_azure())
    role, assignment = made.one("-cloud-role").inputs, made.one("-cloud-role-assignment").inputs
    assert role["permissions"] == [{"actions": list(AZURE_ACTIONS), "notActions": []}]
    assert role["assignableScopes"] == [GROUP_ID]
    assert assignment["scope"] == GROUP_ID
    assert assignment["principalType"] == "ServicePrincipal"
    assert assignment["principalId"] == "autoscaler-cloud-identity-principal"
    needs = {urn.rsplit("::", 1)[1] for urn in made.one("-deployment").dependencies}
    assert {"autoscaler-cloud-identity-trust", "autoscaler-cloud-role-assignment"} <= needs
    assert made.values["command"] == ""


def test_priorities_move_the_service_account_and_the_trust_with_it():
    made = on_azure(cloud=keyless_azure(), expander="priority", priorities={"workers": 1})
    account = made.one("-account").inputs["metadata"]
    assert account["namespace"] == "autoscaler-azure"
    assert made.one("-cloud-identity-trust").inputs["subject"] == (
        "system:serviceaccount:autoscaler-azure:autoscaler-azure"
    )


def test_a_managed_identity_of_the_machines_needs_no_secret_either():
    cloud = {**without(azure(), "client_id", "client_secret"), "managed_identity": {"client_id": "55555555"}}
    made = on_azure(cloud={**cloud, "principal_id": "66666666"})
    seen = environment(made)
    assert seen["ARM_USE_MANAGED_IDENTITY_EXTENSION"] == "true"
    assert seen["ARM_USER_ASSIGNED_IDENTITY_ID"] == "55555555"
    assert not {"ARM_CLIENT_SECRET", "ARM_CLIENT_ID", "ARM_USE_WORKLOAD_IDENTITY_EXTENSION"} & set(seen)
    assert made.one("-cloud-role-assignment").inputs["principalId"] == "66666666"
    assert "volumes" not in pod(made)
    assert "--assignee 55555555" in on_azure(cloud=cloud).values["command"]


def test_cozystack_takes_a_managed_identity():
    cloud = {**without(azure(), "client_id", "client_secret"), "managed_identity": {"client_id": "55555555"}}
    spec = opened(on_azure(cloud=cloud, deployment="cozystackPackage").one("-package").inputs["spec"])
    values = spec["components"]["cluster-autoscaler-azure"]["values"]["cluster-autoscaler"]
    assert values["azureUseManagedIdentityExtension"] is True
    assert values["azureUserAssignedIdentityID"] == "55555555"
    assert not {"azureClientSecret", "azureClientID"} & set(values)
    assert set(values["extraEnv"]) == {"AZURE_ENABLE_LABEL_PREDICTIONS_ON_TEMPLATE", "LOCATION"}


# Alibaba Cloud


def test_a_role_trusts_this_service_account_and_may_change_these_groups_alone():
    made = on_aliyun(cloud=keyless_aliyun(provider_arn=PROVIDER))
    role, policy = made.one("-cloud-role").inputs, made.one("-cloud-policy").inputs
    account = made.one("-account").inputs["metadata"]
    (trust,) = json.loads(role["assumeRolePolicyDocument"])["Statement"]
    assert trust["Action"] == "sts:AssumeRole"
    assert trust["Principal"] == {"Federated": [PROVIDER]}
    assert trust["Condition"]["StringEquals"] == {
        "oidc:iss": [ISSUER],
        "oidc:aud": ["sts.aliyuncs.com"],
        "oidc:sub": [f"system:serviceaccount:{account['namespace']}:{account['name']}"],
    }
    _, write = json.loads(policy["policyDocument"])["Statement"]
    assert write["Resource"] == ["acs:ess:cn-hangzhou:*:scalinggroup/asg-1"]
    attachment = made.one("-cloud-policy-attachment").inputs
    assert (attachment["roleName"], attachment["policyName"]) == (role["roleName"], policy["policyName"])
    assert "alicloud:ims/oidcProvider:OidcProvider" not in made.types()


def read_by(seen, *names):
    return next((seen[name] for name in names if seen.get(name)), "")


@pytest.mark.parametrize("new", [True, False])
def test_the_autoscalers_code_finds_all_that_it_needs_for_the_token(new):
    """`alicloud_cloud_config.go` isValid, as of 1.36.1 and of 1.28.7, which knows the older names alone."""
    made = on_aliyun(cloud=keyless_aliyun())
    seen = environment(made)
    file, audience = token(made)
    assert audience == "sts.aliyuncs.com"
    assert not read_by(seen, "ACCESS_KEY_ID")
    assert not read_by(seen, "ACCESS_KEY_SECRET")
    prefix = "ALIBABA_CLOUD" if new else "ALICLOUD"
    assert read_by(seen, "REGION_ID") == "cn-hangzhou"
    assert read_by(seen, f"{prefix}_OIDC_TOKEN_FILE" + ("" if new else "_PATH")) == file
    assert read_by(seen, f"{prefix}_OIDC_PROVIDER_ARN") == "autoscaler-cloud-issuer-arn"
    assert read_by(seen, f"{prefix}_ROLE_ARN") == "autoscaler-cloud-role-arn"
    assert read_by(seen, f"{prefix}_SESSION_NAME") == "autoscaler-aliyun"


def test_without_a_provider_it_is_made():
    made = on_aliyun(cloud=keyless_aliyun())
    provider = made.one("-cloud-issuer").inputs
    assert provider["issuerUrl"] == ISSUER
    assert provider["clientIds"] == ["sts.aliyuncs.com"]
    assert provider["fingerprints"] == [PRINT]
    assert "kubernetes:core/v1:Secret" not in made.types()
    needs = {urn.rsplit("::", 1)[1] for urn in made.one("-deployment").dependencies}
    assert {"autoscaler-cloud-issuer", "autoscaler-cloud-role", "autoscaler-cloud-policy-attachment"} <= needs


# Refusals


@pytest.mark.parametrize(
    "issuer",
    [
        "",
        " https://oidc.example.com",
        "https://oidc.example.com\n",
        "http://oidc.example.com",
        "oidc.example.com",
        "https://",
        "https://kubernetes.default.svc",
        "https://kubernetes.default.svc.cluster.local",
        "https://10.0.0.1:6443",
        "https://127.0.0.1",
        "https://[fd00::1]",
        "https://192.168.1.1/x",
        "https://localhost",
        "https://cp-1",
        "https://k8s.corp.internal",
        "https://user@oidc.example.com",
        "https://oidc.example.com?x=1",
        "https://oidc.example.com:port",
    ],
)
def test_an_issuer_that_a_cloud_cannot_read_is_refused_with_the_way_out(issuer):
    for message in (
        refusal(azure=keyless_azure(workload_identity={"issuer": issuer})),
        refusal(azure=None, aliyun=keyless_aliyun(issuer=issuer, fingerprints=[PRINT]), node_groups={"w": ali()}),
    ):
        assert "issuer: " in message
        assert "Serve the cluster's discovery document" in message
        assert "or give the autoscaler a secret" in message


def ali():
    return group("asg-1", "aliyun")


@pytest.mark.parametrize(
    "issuer", [ISSUER, "https://oidc.example.com", "https://8.8.8.8/x", "https://a.example.com:8443"]
)
def test_a_public_issuer_is_taken(issuer):
    assert issuer_problem(issuer) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"azure": {**azure(), "workload_identity": {"issuer": ISSUER}}}, "exactly one of client_id"),
        ({"azure": without(azure(), "client_id", "client_secret")}, "exactly one of client_id"),
        ({"azure": without(azure(), "client_secret")}, "client_secret: required with client_id"),
        ({"azure": keyless_azure(principal_id="p")}, "its principal known: remove it"),
        ({"azure": keyless_azure(), "deployment": "cozystackPackage"}, "gives its pod no token"),
        ({"azure": keyless_azure(workload_identity={})}, "azure.workload_identity.issuer"),
    ],
)
def test_ways_in_that_cannot_work_on_azure_are_refused(changes, words):
    assert words in refusal(**changes)


@pytest.mark.parametrize(
    ("cloud", "words"),
    [
        ({**aliyun(), "oidc": {"issuer": ISSUER, "fingerprints": [PRINT]}}, "exactly one of access_key_id"),
        (without(aliyun(), "access_key_secret"), "access_key_secret: required"),
        ({**keyless_aliyun(), "user_name": "scaler"}, "no user is needed"),
        ({**keyless_aliyun(), "policy_name": "x" * 65}, "at most 64"),
        (keyless_aliyun(fingerprints=["zz"]), "fingerprints"),
        (keyless_aliyun(fingerprints=[]), "exactly one of fingerprints and provider_arn"),
        (keyless_aliyun(fingerprints=[PRINT], provider_arn=PROVIDER), "exactly one of fingerprints and provider_arn"),
    ],
)
def test_ways_in_that_cannot_work_on_alibaba_are_refused(cloud, words):
    assert words in refusal(azure=None, aliyun=cloud, node_groups={"w": ali()})


def test_no_way_in_prints_a_secret():
    message = refusal(azure={**azure(), "client_secret": pulumi.Output.secret(SECRET), "colour": "x"})
    assert SECRET not in message
