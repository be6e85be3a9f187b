"""What the lab reads of a Pulumi command line, and what it does to a configuration: no engine needed."""

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cloud import find_action, summary
from lab.overlay import overlay, project_folder, project_name, stack_file
from lab.places import places
from lab.session import PASSPHRASE, Ports, environment, exclusive
from lab.tools import Tool, Tools
from lab.words import parse, short_name, stack_of_file

LAB_ADDRESSES: dict[str, Any] = {
    "factory_url": "http://f:1",
    "arm_url": "https://a:6",
    "blob_url": "https://b:2/{account}",
    "oss_url": "http://o:3",
    "rpc_url": "http://r:7",
    "kubernetes_url": "https://k:4",
    "nameserver": "127.0.0.1:5",
    "talos": {"192.0.2.11": "127.0.0.1:8"},
}


@pytest.mark.parametrize(
    ("line", "verb", "sub", "stack", "config_file", "rest"),
    [
        ("preview", "preview", "", None, None, "preview"),
        ("up --yes --stack prod", "up", "", "prod", None, "up --yes"),
        ("pre -s prod --json", "preview", "", "prod", None, "pre --json"),
        ("up -sprod", "up", "", "prod", None, "up"),
        ("up --stack=prod -y", "up", "", "prod", None, "up -y"),
        ("preview --config-file F --json", "preview", "", None, "F", "preview --json"),
        ("preview --config-file=F", "preview", "", None, "F", "preview"),
        ("stack output kubeconfig --show-secrets", "stack", "output", None, None, None),
        ("--color never -v 3 up --target x --unknown-flag", "up", "", None, None, None),
        ("-C examples dn", "destroy", "", None, None, None),
        ("config set a b -- --stack x -s y", "config", "set", None, None, None),
        ("", "", "", None, None, None),
        ("--version", "", "", None, None, None),
    ],
)
def test_a_command_line_is_taken_apart(
    line: str, verb: str, sub: str, stack: str | None, config_file: str | None, rest: str | None
) -> None:
    words = parse(line.split())
    assert (words.verb, words.sub, words.stack, words.config_file) == (verb, sub, stack, config_file)
    assert list(words.rest) == (line if rest is None else rest).split()


def test_words_with_spaces_and_empty_words_go_through() -> None:
    line = ["up", "--message", "two words", "", "--target", "urn:a b"]
    assert list(parse(line).rest) == line


@pytest.mark.parametrize("line", ["up --stack", "up -s", "preview --config-file", "up -C"])
def test_a_flag_without_its_value_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="needs a value"):
        parse(line.split())


@pytest.mark.parametrize(
    ("line", "engine"),
    [("up", True), ("update", True), ("dn", True), ("up --help", False), ("stack export", False), ("", False)],
)
def test_only_verbs_that_let_providers_work_need_the_clouds(line: str, engine: bool) -> None:
    assert parse(line.split()).engine is engine


def test_the_working_folder_is_found() -> None:
    assert parse(["-C", "a", "up"]).cwd == "a"
    assert parse(["up", "--cwd=b"]).cwd == "b"


def test_a_configuration_file_stands_for_a_stack() -> None:
    assert stack_of_file(Path("/x/Pulumi.prod.yaml")) == "prod"
    own = stack_of_file(Path("/x/bad name.yaml"))
    assert own.startswith("bad-name-")
    assert own != stack_of_file(Path("/y/bad name.yaml"))
    assert short_name("organization/hybrid-talos/dev") == "dev"


SETTINGS = """
encryptionsalt: v1:salt
config:
  hybrid-talos:stack: hybrid
  hybrid-talos:settings:
    cluster: {name: on, talosVersion: "1.14", created: 2026-01-01, big: 1_0, mode: off, octal: "0644"}
    image: {factoryUrl: https://factory.talos.dev, extensions: [a]}
    azure: {location: westeurope}
    aliyun: {endpoints: {oss: https://real, other: kept}}
  hybrid-talos:secret: {secure: v1:abc}
"""


def test_the_labs_addresses_are_laid_over_the_settings() -> None:
    document = yaml.safe_load(overlay(SETTINGS, **LAB_ADDRESSES))
    settings = document["config"]["hybrid-talos:settings"]
    assert settings["image"] == {"factoryUrl": "http://f:1", "extensions": ["a"]}
    assert settings["cluster"]["endpoints"] == {
        "kubernetes": "https://k:4",
        "nameserver": "127.0.0.1:5",
        "talos": {"192.0.2.11": "127.0.0.1:8"},
    }
    assert settings["azure"]["endpoints"] == {"resourceManager": "https://a:6", "blob": "https://b:2/{account}"}
    assert settings["azure"]["location"] == "westeurope"
    assert settings["aliyun"]["endpoints"] == {
        "oss": "http://o:3",
        "ecs": "http://r:7",
        "ess": "http://r:7",
        "other": "kept",
    }
    assert document["encryptionsalt"] == "v1:salt"
    assert document["config"]["hybrid-talos:secret"] == {"secure": "v1:abc"}


def test_values_keep_their_types() -> None:
    cluster = yaml.safe_load(overlay(SETTINGS, **LAB_ADDRESSES))["config"]["hybrid-talos:settings"]["cluster"]
    assert cluster["name"] == "on"
    assert cluster["talosVersion"] == "1.14"
    assert cluster["created"] == "2026-01-01"
    assert cluster["mode"] == "off"
    assert cluster["octal"] == "0644"


def test_a_cloud_that_is_not_in_the_settings_is_not_added() -> None:
    text = "config: {hybrid-talos:settings: {autoscaler: {}}}"
    settings = yaml.safe_load(overlay(text, **LAB_ADDRESSES))["config"]["hybrid-talos:settings"]
    assert settings == {"autoscaler": {}, "image": {"factoryUrl": "http://f:1"}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "config: [",
        "config: {a: 1}",
        "config: {hybrid-talos:settings: text}",
        "config: {hybrid-talos:settings: {azure: {a: 1, a: 2}}}",
        "- a",
    ],
)
def test_what_is_no_configuration_of_ours_is_left_to_the_engine(text: str) -> None:
    assert overlay(text, **LAB_ADDRESSES) == text


def test_sections_of_a_wrong_type_are_left_to_the_program() -> None:
    text = "config: {hybrid-talos:settings: {image: [a], azure: 1, aliyun: {endpoints: x}}}"
    settings = yaml.safe_load(overlay(text, **LAB_ADDRESSES))["config"]["hybrid-talos:settings"]
    assert settings == {"image": ["a"], "azure": 1, "aliyun": {"endpoints": "x"}}


def test_the_project_is_found_from_below(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: demo\nruntime: python\n")
    (tmp_path / "Pulumi.dev.yaml").write_text("")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert project_folder(below) == tmp_path
    assert project_name(tmp_path) == "demo"
    assert stack_file(tmp_path, "dev") == tmp_path / "Pulumi.dev.yaml"
    assert stack_file(tmp_path, "prod") is None


def some_tools(folder: Path) -> Tools:
    return Tools(*(Tool(name, folder / name, "v1", "PATH") for name in ("pulumi", "host", "talosctl")))


def test_children_get_no_way_to_a_real_cloud(tmp_path: Path) -> None:
    given = {
        "PATH": "/usr/bin",
        "HOME": "/home/user",
        "ARM_CLIENT_SECRET": "x",
        "AZURE_CONFIG_DIR": "x",
        "ALIBABA_CLOUD_ACCESS_KEY_ID": "x",
        "ALICLOUD_ACCESS_KEY": "x",
        "KUBECONFIG": "/home/user/.kube/config",
        "TALOSCONFIG": "/home/user/.talos/config",
        "PULUMI_ACCESS_TOKEN": "x",
        "PULUMI_BACKEND_URL": "https://real",
    }
    env = environment(places({"HYBRID_TALOS_LAB": str(tmp_path)}), some_tools(tmp_path / "bin"), given)
    assert "x" not in env.values()
    assert not Path(env["KUBECONFIG"]).exists()
    assert not Path(env["TALOSCONFIG"]).exists()
    assert env["PULUMI_BACKEND_URL"] == f"file://{tmp_path}/state"
    assert env["HOME"] == "/home/user"
    path = env["PATH"].split(":")
    assert path[0] == str(Path(sys.executable).parent)
    assert path[1:] == [str(tmp_path / "bin"), "/usr/bin"]


def test_the_passphrase_is_the_labs_unless_set(tmp_path: Path) -> None:
    where, tools = places({"HYBRID_TALOS_LAB": str(tmp_path)}), some_tools(tmp_path)
    assert environment(where, tools, {})["PULUMI_CONFIG_PASSPHRASE"] == PASSPHRASE
    assert environment(where, tools, {"PULUMI_CONFIG_PASSPHRASE": ""})["PULUMI_CONFIG_PASSPHRASE"] == ""
    assert "PULUMI_CONFIG_PASSPHRASE" not in environment(where, tools, {"PULUMI_CONFIG_PASSPHRASE_FILE": "/f"})


def listen(port: int) -> socket.socket:
    found = socket.socket()
    try:
        found.bind(("127.0.0.1", port))
        found.listen()
    except OSError:
        found.close()
        raise
    return found


def test_ports_are_remembered_and_a_taken_one_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    opened: list[socket.socket] = []

    def start(port: int) -> None:
        opened.append(listen(port))

    first = Ports(tmp_path / "ports.json", said.append).bind("blob", start)
    opened.pop().close()
    assert Ports(tmp_path / "ports.json", said.append).bind("blob", start) == first
    assert said == []
    # Still open: now it is another program's.
    other = Ports(tmp_path / "ports.json", said.append).bind("blob", start)
    assert other != first
    assert [str(first) in line and "taken" in line for line in said] == [True]
    assert json.loads((tmp_path / "ports.json").read_text()) == {"blob": other}
    for one in opened:
        one.close()


@pytest.mark.parametrize("text", ["", "[", "[1]", '{"blob": "x"}'])
def test_a_damaged_memory_of_ports_is_no_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "ports.json").write_text(text)
    assert Ports(tmp_path / "ports.json").bind("blob", lambda port: None) > 0


def test_one_command_at_a_time_works_on_a_lab(tmp_path: Path) -> None:
    where = places({"HYBRID_TALOS_LAB": str(tmp_path)})
    said: list[str] = []
    entered, waiting = threading.Event(), threading.Event()

    def say(line: str) -> None:
        said.append(line)
        waiting.set()

    def second() -> None:
        with exclusive(where, "preview", say):
            entered.set()

    with exclusive(where, "up"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        assert not entered.is_set()
    thread.join()
    assert entered.is_set()
    assert "up, process" in said[0]


def test_actions_are_told_apart_by_their_cloud() -> None:
    assert callable(find_action("azure:scale"))
    assert callable(find_action("power-off"))
    with pytest.raises(KeyError, match=r"alicloud:scale or azure:scale"):
        find_action("scale")
    with pytest.raises(KeyError, match="no action melt"):
        find_action("melt")


def test_a_summary_shows_no_documents() -> None:
    doc = {"name": "a", "sku": {"capacity": 3}, "customData": "secret", "kubeconfig": "secret", "status": {"x": 1}}
    assert summary(doc) == "name=a capacity=3"


def lab(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", *words],
        env={"PATH": "/usr/bin:/bin", "HYBRID_TALOS_LAB": str(folder), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_faults_are_planned_and_the_clouds_emptied_from_the_shell(tmp_path: Path) -> None:
    planned = lab(tmp_path, "cloud", "fail", "create", "VirtualMachineScaleSet", "--nth", "2", "--action", "slow")
    assert planned.returncode == 0, planned.stderr
    (fault,) = json.loads(lab(tmp_path, "cloud", "ls", "--faults", "--json").stdout)
    assert (fault["op"], fault["nth"], fault["action"]) == ("create", 2, "slow")
    assert lab(tmp_path, "cloud", "reset").returncode == 0
    assert json.loads(lab(tmp_path, "cloud", "ls", "--faults", "--json").stdout) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cloud", "fail", "melt", "X"], "no operation melt"),
        (["cloud", "fail", "create", "X", "--nth", "0"], "counts from 1"),
        (["cloud", "set", "melt"], "no action melt"),
        (["cloud", "set", "azure:scale", "no-such-set", "3"], "no-such-set"),
        (["cloud", "set", "azure:delete", "no-such-image"], "0 things are called no-such-image"),
    ],
)
def test_what_cannot_be_done_to_the_clouds_is_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    done = lab(tmp_path, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_needs_no_tools(tmp_path: Path) -> None:
    done = lab(tmp_path, "--help")
    assert done.returncode == 0
    assert "python -m lab cloud" in done.stdout
