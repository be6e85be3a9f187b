import pytest
from hybrid_talos import machine_config as mc
from hybrid_talos._contract import BadInputs
from hybrid_talos.registries import mirror_documents
from hybrid_talos.talos_yaml import dump, load
from pool_recorder import generated_worker
from yaml import safe_load_all


def one(text):
    (document,) = load(text)
    return document


def test_mappings_merge_scalars_replace_and_lists_append():
    merged = mc.merge(
        "machine: {type: worker, a: 1, certSANs: [x]}", {"machine": {"a": 2, "b": 3, "certSANs": ["y", "x"]}}
    )
    assert one(merged) == {"machine": {"type": "worker", "a": 2, "b": 3, "certSANs": ["x", "y", "x"]}}


@pytest.mark.parametrize("value", [None, "", 0])
def test_nothing_and_zero_clear_nothing(value):
    assert one(mc.merge("machine: {a: kept}", {"machine": {"a": value}})) == {"machine": {"a": "kept"}}


def test_false_is_a_value():
    assert one(mc.merge("machine: {a: true}", {"machine": {"a": False}})) == {"machine": {"a": False}}


def test_lists_with_their_own_rule():
    base = """
cluster:
  network: {podSubnets: [10.244.0.0/16], serviceSubnets: [10.96.0.0/12]}
  apiServer:
    auditPolicy: {rules: [{level: Metadata}]}
    admissionControl: [{name: PodSecurity, configuration: {a: 1}}]
    extraArgs: {flag: [one], other: kept}
machine:
  network: {interfaces: [{interface: eth0, mtu: 1400, vlans: [{vlanId: 7, mtu: 1300}]}]}
"""
    patch = """
cluster:
  network: {podSubnets: [10.1.0.0/16]}
  apiServer:
    auditPolicy: {rules: []}
    admissionControl: [{name: PodSecurity, configuration: {b: 2}}, {name: Other}]
    extraArgs: {flag: [two]}
machine:
  network:
    interfaces:
      - {interface: eth0, dhcp: true, vlans: [{vlanId: 7, dhcp: false}, {vlanId: 8}]}
      - {interface: eth1}
"""
    merged = one(mc.merge(base, patch))
    assert merged["cluster"]["network"] == {"podSubnets": ["10.1.0.0/16"], "serviceSubnets": ["10.96.0.0/12"]}
    server = merged["cluster"]["apiServer"]
    assert server["auditPolicy"] == {"rules": []}
    assert server["admissionControl"] == [{"name": "PodSecurity", "configuration": {"a": 1, "b": 2}}, {"name": "Other"}]
    assert server["extraArgs"] == {"flag": ["two"], "other": "kept"}
    assert merged["machine"]["network"]["interfaces"] == [
        {
            "interface": "eth0",
            "mtu": 1400,
            "dhcp": True,
            "vlans": [{"vlanId": 7, "mtu": 1300, "dhcp": False}, {"vlanId": 8}],
        },
        {"interface": "eth1"},
    ]


def test_a_flag_may_change_from_text_to_list():
    merged = one(mc.merge("machine: {kubelet: {extraArgs: {f: a}}}", "machine: {kubelet: {extraArgs: {f: [b, c]}}}"))
    assert merged["machine"]["kubelet"]["extraArgs"] == {"f": ["b", "c"]}


def test_documents_are_matched_by_kind_and_name_and_new_ones_come_last():
    base = "machine: {}\n---\napiVersion: v1alpha1\nkind: RegistryMirrorConfig\nname: docker.io\nendpoints: [{url: 'https://a'}]\n"
    merged = load(
        mc.merge(
            base,
            [
                {"apiVersion": "v1alpha1", "kind": "RegistryMirrorConfig", "name": "ghcr.io", "skipFallback": True},
                {
                    "apiVersion": "v1alpha1",
                    "kind": "RegistryMirrorConfig",
                    "name": "docker.io",
                    "endpoints": [{"url": "https://b"}],
                },
            ],
        )
    )
    assert [document.get("name") for document in merged] == [None, "docker.io", "ghcr.io"]
    assert merged[1]["endpoints"] == [{"url": "https://a"}, {"url": "https://b"}]


def test_bytes_do_not_depend_on_the_order_of_keys_and_inputs_stay_as_they_are():
    patch = {"machine": {"nodeLabels": {"b": "1", "a": "2"}}}
    turned = {"machine": {"nodeLabels": {"a": "2", "b": "1"}}}
    base = generated_worker()
    assert mc.merge(base, patch) == mc.merge(base, turned)
    assert patch == {"machine": {"nodeLabels": {"b": "1", "a": "2"}}}
    assert mc.merge(mc.merge(base, patch)) == mc.merge(base, patch)


@pytest.mark.parametrize(
    "text",
    ["off", "on", "yes", "no", "y", "n", "true", "False", "null", "~", "1.30", "0644", "0o644", "0x1f", "1e3", "1:30",
     "2026-01-01", "", "<<", "=", ".inf", "- x", "a: b", "#x", "line\nline\n", "Ünïcode"],
)  # fmt: skip
def test_text_stays_text_for_readers_of_both_versions_of_yaml(text):
    written = dump([{"value": text, "nested": [text]}])
    assert load(written) == [{"value": text, "nested": [text]}]
    assert list(safe_load_all(written)) == [{"value": text, "nested": [text]}]


def test_values_are_read_as_talos_reads_them():
    read = one("a: off\nb: yes\nc: 2026-01-01\nd: 1:30\ne: 0644\nf: 0o644\ng: 0x10\nh: true\ni: ~\nj: 1.5\nk:\n")
    assert read == {
        "a": "off", "b": "yes", "c": "2026-01-01", "d": "1:30", "e": 420, "f": 420, "g": 16, "h": True, "i": None,
        "j": 1.5, "k": None,
    }  # fmt: skip


def test_long_values_stay_on_one_line():
    assert dump([{"ca": "x y " * 500}]).count("\n") == 1


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("machine: {kubelet: {$patch: delete}}", r"\$patch"),
        ("machine:\n  files:\n    - {$patch: delete}", r"\$patch"),
        ("- {op: add, path: /machine, value: x}", "JSON patches"),
        ("just text", "must be a mapping"),
        ("machine: [", "not valid YAML"),
        ("machine: 1\nmachine: 2", "line 2: is not valid YAML: a key stands twice"),
        ("machine: {type: {a: b}}", "machine.type is of another type"),
        ("machine: {certSANs: text}", "machine.certSANs is of another type"),
        ("kind: A\n---\nkind: A", "two documents of one kind"),
    ],
)
def test_patches_that_cannot_be_merged_are_refused(patch, said):
    with pytest.raises(BadInputs, match=f"config patch 1.*{said}"):
        mc.merge(generated_worker(), patch)


@pytest.mark.parametrize(
    "text", ["machine: {token: hunter2", "a: !hunter2 x", "a: *hunter2", "hunter2", "%hunter2", "a: 'hunter2"]
)
def test_errors_repeat_nothing_of_the_text(text):
    with pytest.raises(BadInputs) as error:
        mc.merge(text)
    assert "hunter2" not in str(error.value)


def test_kubelet_identity_is_that_of_an_external_cloud_provider():
    assert mc.kubelet_identity() == {
        "machine": {"kubelet": {"extraArgs": {"cloud-provider": "external", "rotate-server-certificates": "true"}}}
    }
    assert "'true'" in mc.render(mc.kubelet_identity())


def test_taints_are_registered_by_the_kubelet_and_never_by_the_machine():
    patch = mc.register_with_taints([("dedicated", "batch", "NoSchedule"), ("bare", "", "NoExecute")])
    assert patch == {
        "machine": {
            "kubelet": {
                "extraConfig": {
                    "registerWithTaints": [
                        {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
                        {"key": "bare", "effect": "NoExecute"},
                    ]
                }
            }
        }
    }


@pytest.mark.parametrize("builder", [mc.node_ip, mc.node_labels, mc.node_annotations, mc.register_with_taints])
def test_nothing_asked_for_is_no_patch(builder):
    assert builder([] if builder in (mc.node_ip, mc.register_with_taints) else {}) == {}
    assert mc.render({}) == ""


@pytest.mark.parametrize(
    ("version", "off"),
    [
        ("1.10.0", False),
        ("1.11.5", False),
        ("1.12.0", False),
        ("1.12.8", False),
        ("1.12.9", True),
        ("1.13.0", False),
        ("1.13.2", False),
        ("1.13.3", True),
        ("1.13.4", True),
        ("1.14.0-alpha.0", False),
        ("1.14.0-alpha.1", True),
        ("1.14.0", True),
    ],
)
def test_hostname_off_only_where_talos_boots_with_it(version, off):
    patch = mc.hostname_from_platform(version)
    assert patch == ({"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off"} if off else {})
    if off:
        assert list(safe_load_all(mc.render(patch)))[0]["auto"] == "off"


def test_a_static_hostname_goes_where_the_contract_has_it():
    document = {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off", "hostname": "cp-1"}
    assert mc.static_hostname("cp-1", "1.12") == document
    assert mc.static_hostname("cp-1", "1.11") == {"machine": {"network": {"hostname": "cp-1"}}}


def test_registry_mirrors_are_documents_from_contract_1_12_on():
    mirrors = {"ghcr.io": ["https://g.example.com"], "docker.io": ["https://a.example.com", "https://b.example.com"]}
    documents = mirror_documents(mirrors, documents=True, fallback=True)
    assert [(document["kind"], document["name"]) for document in documents] == [
        ("RegistryMirrorConfig", "docker.io"),
        ("RegistryMirrorConfig", "ghcr.io"),
    ]
    assert documents[0]["endpoints"] == [{"url": "https://a.example.com"}, {"url": "https://b.example.com"}]
    (old,) = mirror_documents(mirrors, documents=False, fallback=True)
    assert old["machine"]["registries"]["mirrors"]["docker.io"] == {"endpoints": mirrors["docker.io"]}
    assert mirror_documents({}, documents=True, fallback=True) == []
