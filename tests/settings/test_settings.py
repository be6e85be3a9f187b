import json
import re
import subprocess
import sys
from copy import deepcopy
from dataclasses import FrozenInstanceError
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, get_args

import pulumi
import pytest
import yaml
from documents import BAD, GOOD, HERE, Document, change, expected_of, read_bad, read_good
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stacks.settings import Arch, Cni, Granularity, SettingsError, load
from stacks.settings_base import Section
from stacks.settings_errors import bare, is_section
from stacks.settings_tree import Tree

ROOT = HERE.parent.parent
PLANTED = "PLANTED-VALUE"


def hybrid(**changes: Any) -> Document:
    document = deepcopy(read_good(HERE / "good" / "hybrid.yaml"))
    for where, value in changes.items():
        change(document.settings, where.replace("__", "."), value)
    return document


def refused(document: Document) -> str:
    with pytest.raises(SettingsError) as caught:
        load(*document)
    return str(caught.value)


def message_of(document: Document) -> str:
    """Return the message of a refusal, or nothing; any other exception fails the test."""
    try:
        load(*document)
    except SettingsError as error:
        return str(error)
    return ""


def test_extensions_may_have_names_of_yesterday() -> None:
    """TalosImage brings them to today's, and says so."""
    assert message_of(hybrid(image__extensions=["siderolabs/i915-ucode", "siderolabs/drbd"])) == ""


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_settings_load(path: Path) -> None:
    document = read_good(path)
    loaded = load(*document)
    assert loaded.stack == document.stack
    assert loaded.cluster.name == document.settings["cluster"]["name"]


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_bad_settings_are_refused_with_the_words_that_the_file_names(path: Path) -> None:
    message = refused(read_bad(path))
    for words in expected_of(path):
        assert words in message
    assert PLANTED not in message
    count, *lines = message.splitlines()
    assert re.fullmatch(rf"{len(lines)} problems? in the settings of this stack:", count)
    for line in lines:
        assert re.match(r"  \S+: \S", line), "a path, then what is wrong there"


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_problem_is_found_beside_another_one_elsewhere(path: Path) -> None:
    document = read_bad(path)
    change(document.settings, "image.factoryCa", 5)
    message = refused(document)
    assert "image.factoryCa: must be text: put it in quotes" in message
    for words in expected_of(path):
        assert words in message


def test_there_are_files_to_test() -> None:
    assert len(GOOD) >= 10
    assert len(BAD) >= 45


def test_pulumi_prints_the_message_without_a_traceback() -> None:
    assert issubclass(SettingsError, pulumi.RunError)


def _leaves(node: Any, path: str = "") -> list[str]:
    if isinstance(node, dict):
        return [leaf for key, value in node.items() for leaf in _leaves(value, f'{path}["{key}"]')]
    if isinstance(node, list):
        return [leaf for index, value in enumerate(node) for leaf in _leaves(value, f"{path}[{index}]")]
    return [path]


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_no_message_shows_a_value_that_somebody_put_into_the_wrong_key(path: Path) -> None:
    document = read_good(path)
    for leaf in _leaves(document.settings):
        for secret in (f"{PLANTED}/+=\n", f"https://{PLANTED}", f"{PLANTED}:1", {"a": PLANTED}, [PLANTED]):
            changed = deepcopy(document.settings)
            change(changed, leaf, secret)
            assert PLANTED not in message_of(Document(document.stack, changed)), leaf


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(
        ["10.0.0.0/8", "10.2.0.0/16", "1.14.0", "a", "0.0.0.0/0", "cn-hangzhou", "{", "https://[", "::1", "1.2.3.4"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def _places(node: Any, path: str = "") -> list[str]:
    inner = (
        [(f'["{key}"]', value) for key, value in node.items()]
        if isinstance(node, dict)
        else [(f"[{index}]", value) for index, value in enumerate(node)]
        if isinstance(node, list)
        else []
    )
    return [place for step, value in inner for place in (path + step, *_places(value, path + step))]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data())
def test_whatever_stands_in_the_file_the_answer_is_settings_or_a_settings_error(data: st.DataObject) -> None:
    document = read_good(data.draw(st.sampled_from(GOOD)))
    for _ in range(data.draw(st.integers(1, 3))):
        change(document.settings, data.draw(st.sampled_from(_places(document.settings))), data.draw(_JSON))
        if not _places(document.settings):
            break
    message_of(document)


@pytest.mark.parametrize("document", [None, [], "text", 5, {}])
def test_settings_that_are_no_mapping_are_refused(document: Any) -> None:
    assert "must be a mapping" in refused(Document("hybrid", document)) or document == {}
    assert refused(Document("hybrid", document))


@pytest.mark.parametrize("stack", [None, 5, "", "Hybrid", ["hybrid"], {}])
def test_a_stack_that_is_not_known_is_refused_along_with_the_rest(stack: Any) -> None:
    message = refused(Document(stack, hybrid(azure__vnetCidr="10.2.0.5/24").settings))
    assert "hybrid-talos:stack: must be one of cluster, azure-burst, aliyun-burst, hybrid" in message
    assert "azure.vnetCidr:" in message


def test_settings_cannot_be_changed_once_they_are_loaded() -> None:
    loaded = load(*hybrid())
    with pytest.raises(FrozenInstanceError):
        loaded.stack = "cluster"  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        loaded.cluster.name = "other"  # type: ignore[misc]


def test_what_is_left_out_gets_careful_defaults() -> None:
    loaded = load(*read_good(HERE / "good" / "hybrid-azure-only.yaml"))
    assert loaded.cluster.pod_cidr == IPv4Network("10.244.0.0/16")
    assert loaded.cluster.service_cidr == IPv4Network("10.96.0.0/12"), "Talos's own"
    assert loaded.cluster.endpoint.port == 6443
    assert loaded.cluster.config_contract == "1.12", "that of the Talos that runs"
    assert loaded.mesh is not None
    assert (loaded.mesh.cni, loaded.mesh.granularity) == (Cni.FLANNEL, Granularity.FULL)
    assert (loaded.mesh.persistent_keepalive, loaded.mesh.mtu) == (20, None)
    assert loaded.image.factory_url == "https://factory.talos.dev"
    assert loaded.autoscaler is None
    public = hybrid().settings
    del public["azure"]["pools"][0]["publicIps"]
    azure = load("hybrid", public).azure
    assert azure is not None
    assert not azure.pools[0].public_ips, "private unless somebody asks"


def test_the_contract_stops_at_what_the_provider_knows() -> None:
    document = hybrid()
    del document.settings["cluster"]["configContract"]
    assert load(*document).cluster.config_contract == "1.13"


@pytest.mark.parametrize(
    ("written", "meant"), [("1.30", "1.30.0"), ("1.30.4", "1.30.4"), ("v1.30.4", "1.30.4"), ("v1.30", "1.30.0")]
)
def test_versions_have_one_form(written: str, meant: str) -> None:
    document = read_good(HERE / "good" / "cluster-single-member.yaml")
    change(document.settings, "cluster.kubernetesVersion", written)
    assert load(*document).cluster.kubernetes_version == meant


def test_a_version_that_yaml_reads_as_a_number_is_refused_and_never_guessed() -> None:
    document = hybrid()
    document.settings["cluster"] |= yaml.safe_load("{kubernetesVersion: 1.30, talosVersion: 1.10}")
    message = refused(document)
    for key in ("cluster.kubernetesVersion", "cluster.talosVersion"):
        assert f"{key}: is a number here" in message
    assert "quotes" in message
    assert "not 1.3.0" not in message


def test_pools_of_one_region_and_range_share_a_network() -> None:
    azure = load(*read_good(HERE / "good" / "azure-burst.yaml")).azure
    assert azure is not None
    assert [(network.name, network.pools) for network in azure.networks()] == [
        ("azure-westeurope", ("general", "same")),
        ("azure-northeurope-10-5-0-0-16", ("north",)),
    ]
    assert azure.location == "westeurope", "West Europe in Azure's one form"
    aliyun = load(*read_good(HERE / "good" / "aliyun-burst.yaml")).aliyun
    assert aliyun is not None
    assert [network.name for network in aliyun.networks()] == [
        "aliyun-cn-hangzhou",
        "aliyun-ap-southeast-1-172-16-0-0-16",
    ]


def test_a_pool_has_the_architecture_of_the_images_unless_it_says_otherwise() -> None:
    loaded = load(*read_good(HERE / "good" / "azure-burst-arm64.yaml"))
    assert loaded.azure is not None
    assert [loaded.arch_of(pool) for pool in loaded.azure.pools] == [Arch.ARM64, Arch.AMD64]


def test_patches_are_text_however_they_were_written() -> None:
    first, second = load(*read_good(HERE / "good" / "cluster-vip.yaml")).cluster.config_patches
    assert yaml.safe_load(first) == {"machine": {"sysctls": {"net.core.somaxconn": "65535"}}}
    assert yaml.safe_load(second)["auto"] == "off"


def test_kubespan_runs_with_the_pod_network_of_talos() -> None:
    mesh = load(*read_good(HERE / "good" / "cluster-kubespan.yaml")).mesh
    assert mesh is not None
    assert mesh.cni is Cni.FLANNEL


def _config(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text())
    assert content["encryptionsalt"].startswith("v1:")
    config: dict[str, Any] = content["config"]
    return config


def test_the_stack_of_the_lab_is_the_example_that_is_tested_here() -> None:
    config = _config(ROOT / "Pulumi.dev.yaml")
    assert Document(config["hybrid-talos:stack"], config["hybrid-talos:settings"]) == hybrid()


@pytest.mark.parametrize("path", ["Pulumi.dev.yaml", "examples/azure-burst/Pulumi.burst.yaml"])
def test_files_for_people_load_and_hold_no_secret_in_clear(path: str) -> None:
    config = _config(ROOT / path)
    load(config.pop("hybrid-talos:stack"), config.pop("hybrid-talos:settings"))
    assert "hybrid-talos:azureClientSecret" in config
    for key, value in config.items():
        assert value.keys() == {"secure"}, key
        assert value["secure"].startswith("v1:"), key


def _sections(section: type[Section]) -> list[type[Section]]:
    found = [section]
    for field in section.model_fields.values():
        kinds = [bare(field.annotation), *(bare(part) for part in get_args(bare(field.annotation)))]
        found += [inner for kind in kinds if is_section(kind) for inner in _sections(kind)]
    return found


def test_every_key_is_described() -> None:
    for section in _sections(Tree):
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name}"


def test_loading_imports_no_sdk_of_a_cloud() -> None:
    script = "import json, sys, stacks.settings; print(json.dumps([name.split('.')[0] for name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    roots = set(json.loads(done.stdout))
    assert "pydantic" in roots
    assert not [name for name in roots if name.startswith(("pulumi_", "pulumiverse", "azure", "alibabacloud"))]
