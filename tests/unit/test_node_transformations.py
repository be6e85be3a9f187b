import pytest
import yaml
from hybrid_talos._contract import BadInputs
from hybrid_talos.node_transformations import provider_id_problem
from hybrid_talos.talos_cloud_controller import TalosCloudController
from pool_recorder import run

METAL = [[{"key": "platform", "operator": "In", "values": ["metal"]}]]


def made(*transformations):
    args = {"kubernetes_version": "1.36.3", "transformations": list(transformations)}
    return run(lambda: TalosCloudController("cloud", args) and None)


def config(recorder):
    return yaml.safe_load(recorder.one("cloud-config").inputs["data"]["ccm-config.yaml"])


def annotations(recorder):
    return recorder.one("cloud-deployment").inputs["spec"]["template"]["metadata"].get("annotations", {})


def refusal(**changes):
    with pytest.raises(BadInputs) as caught:
        made({"name": "a", "selector": METAL, "labels": {"a": "b"}, **changes})
    return str(caught.value)


def test_they_are_written_as_the_controller_reads_them():
    recorder = made(
        {
            "name": "hangzhou",
            "selector": [
                [
                    {"key": "hostname", "operator": "Regexp", "values": ["^burst-.+$"]},
                    {"key": "spot", "operator": "Exists"},
                ],
                METAL[0],
            ],
            "labels": {"example.com/rack": "{{ .Zone }}"},
            "annotations": {"example.com/id": "{{ .InstanceID }}"},
            "platform_metadata": {"ProviderID": "cn-hangzhou.{{ .InstanceID }}", "Region": "cn-hangzhou"},
            "public_ip_discovery": True,
        }
    )
    assert config(recorder) == {
        "global": {},
        "transformations": [
            {
                "name": "hangzhou",
                "nodeSelector": [
                    {
                        "matchExpressions": [
                            {"key": "hostname", "operator": "Regexp", "values": ["^burst-.+$"]},
                            {"key": "spot", "operator": "Exists"},
                        ]
                    },
                    {"matchExpressions": METAL[0]},
                ],
                "annotations": {"example.com/id": "{{ .InstanceID }}"},
                "labels": {"example.com/rack": "{{ .Zone }}"},
                "platformMetadata": {"ProviderID": "cn-hangzhou.{{ .InstanceID }}", "Region": "cn-hangzhou"},
                "features": {"publicIPDiscovery": True},
            }
        ],
    }


def test_their_order_is_kept_and_a_change_makes_a_new_pod():
    one = {"name": "b", "selector": METAL, "labels": {"a": "1"}}
    two = {"name": "a", "selector": METAL, "labels": {"a": "2"}}
    assert [each["name"] for each in config(made(one, two))["transformations"]] == ["b", "a"]
    assert annotations(made(one)) != annotations(made(two))
    assert annotations(made(one)) == annotations(made(one))
    assert annotations(made()) == {}
    assert config(made()) == {"global": {}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"selector": []}, "selector"),
        ({"selector": [[]]}, "matches nothing"),
        ({"selector": [[{"key": "colour", "operator": "Exists"}]]}, "must be one of platform"),
        ({"selector": [[{"key": "zone", "operator": "Near", "values": ["a"]}]]}, "operator"),
        ({"selector": [[{"key": "zone", "operator": "In"}]]}, "needs at least one"),
        ({"selector": [[{"key": "zone", "operator": "Exists", "values": ["a"]}]]}, "takes none"),
        ({"selector": [[{"key": "zone", "operator": "Gt", "values": ["a"]}]]}, "one whole number"),
        ({"labels": {"a b": "c"}}, "labels.a b"),
        ({"labels": {"a": "{{ .Zone"}}, "not closed"),
        ({"labels": {}}, "changes nothing"),
        ({"platform_metadata": {"Hostname": "x"}}, "cannot be replaced"),
        ({"platform_metadata": {"providerID": "x"}}, "must be one of Region"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_the_controller_would_ignore_or_stop_at_is_refused(changes, words):
    assert words in refusal(**changes)


def test_a_name_stands_once():
    with pytest.raises(BadInputs, match="stands twice"):
        made(*[{"name": "a", "selector": METAL, "labels": {"a": "b"}}] * 2)


# facts of the Alibaba provider: it splits at the dot, and compares the whole with <region>.<instance id>.
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("hcloud://{{ .InstanceID }}", "has no dot"),
        ("k3s://{{ .Hostname }}", "has no dot"),
        ("talos://metal/{{ .InstanceID }}", "has no dot"),
        ("alicloud://cn-hangzhou.{{ .InstanceID }}", "with nothing before it"),
        ("cn-hangzhou.i-abc", "the same for every machine"),
        ("", "empty"),
        (" x.{{ .InstanceID }}", "white space"),
        ("a.{{ .InstanceID", "not closed"),
    ],
)
def test_case_43_a_provider_id_that_stops_an_autoscaler_is_refused(value, words):
    assert words in provider_id_problem(value)
    assert "platform_metadata.ProviderID" in refusal(platform_metadata={"ProviderID": value})


@pytest.mark.parametrize(
    "value", ["cn-hangzhou.{{ .InstanceID }}", "{{ .Region }}.{{ .InstanceID }}", "{{ .ProviderID }}"]
)
def test_provider_ids_that_the_autoscalers_can_read_are_taken(value):
    assert provider_id_problem(value) is None
