"""What the lab hands to the Pulumi CLI, and back: a stand-in writes down how it was called."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import tool_builds

PULUMI = f"""#!{sys.executable}
import json, os, signal, sys, time
if sys.argv[1:] == ["version"]:
    print("v3.999.0")
    sys.exit(0)
log = os.environ["CALLS"]
keep = ("PULUMI_", "ARM_", "ALIBABA_", "IDENTITY_", "KUBECONFIG", "REQUESTS_CA_BUNDLE")
env = {{name: value for name, value in os.environ.items() if name.startswith(keep)}}
call = {{"words": sys.argv[1:], "cwd": os.getcwd(), "env": env}}
if "--config-file" in sys.argv:
    call["config"] = open(sys.argv[sys.argv.index("--config-file") + 1]).read()
if sys.argv[1:3] == ["stack", "init"]:
    name = sys.argv[3]
    call["config"] = open(f"Pulumi.{{name}}.yaml").read()
    open(f"Pulumi.{{name}}.yaml", "a").write("encryptionsalt: written-by-the-engine\\n")
    folder = os.environ["PULUMI_BACKEND_URL"].removeprefix("file://") + "/.pulumi/stacks/demo"
    os.makedirs(folder)
    open(f"{{folder}}/{{name}}.json", "w").close()
if "--remove" in sys.argv:
    os.remove("Pulumi.dev.yaml")
with open(log, "a") as file:
    file.write(json.dumps(call) + "\\n")
if os.environ.get("WAIT") and "init" not in sys.argv:
    def stop(number, frame):
        open(log + ".signal", "a").write(f"{{number}}\\n")
        sys.exit(9)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    open(log + ".ready", "w").close()
    time.sleep(300)
if os.environ.get("DIES"):
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(os.environ.get("STATUS", "0")))
"""

CONFIG = """# kept as it is
encryptionsalt: v1:salt
config:
  hybrid-talos:settings:
    azure: {location: westeurope}
    aliyun: {region: cn-hangzhou}
"""


class Shell:
    """A project, a lab and a stand-in for every tool."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.lab = folder / "lab"
        self.calls_file = folder / "calls"
        tools = folder / "bin"
        for path in (self.project, tools):
            path.mkdir()
        (self.project / "Pulumi.yaml").write_text("name: demo\nruntime: python\n")
        self.config = self.project / "Pulumi.dev.yaml"
        self.config.write_text(CONFIG)
        others = [Path(name).name for name in tool_builds.LANGUAGE_HOST.scripts]
        texts = {"pulumi": PULUMI, "talosctl": "#!/bin/sh\necho Tag: v1.99.0\n"}
        for name in ("pulumi", "pulumi-language-python", "talosctl", *others):
            path = tools / name
            path.write_text(texts.get(name, "#!/bin/sh\n"))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.env = {
            "PATH": f"{tools}:/usr/bin:/bin",
            "HOME": str(folder),
            "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
            "HYBRID_TALOS_LAB": str(self.lab),
            "CALLS": str(self.calls_file),
        }

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "lab", *words],
            cwd=self.project,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, **env: str) -> tuple[int, str]:
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=120)
        assert "Traceback" not in err
        return process.returncode, out + err

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.calls_file.read_text().splitlines()]

    def wait_for(self, ending: str) -> None:
        path = Path(f"{self.calls_file}{ending}")
        for _ in range(1200):
            if path.exists():
                return
            time.sleep(0.1)
        raise AssertionError(f"{path} never came")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_plan_reads_a_copy_with_the_labs_addresses(shell: Shell) -> None:
    status, text = shell.run("preview", "--json", "--unknown", "two words")
    assert status == 0, text
    made, call = shell.calls()
    assert made["words"][:3] == ["stack", "init", "dev"]
    assert call["words"][:4] == ["preview", "--json", "--unknown", "two words"]
    assert call["words"][4:] == ["--config-file", str(shell.lab / "run" / "Pulumi.dev.yaml")]
    settings = yaml.safe_load(call["config"])["config"]["hybrid-talos:settings"]
    assert settings["image"]["factoryUrl"].startswith("http://127.0.0.1:")
    assert settings["azure"]["endpoints"]["blob"].startswith("https://127.0.0.1:")
    assert settings["azure"]["endpoints"]["blob"].endswith("/{account}")
    assert settings["aliyun"]["endpoints"]["oss"].startswith("http://127.0.0.1:")
    assert shell.config.read_text() == CONFIG
    assert "simulated" in text


def test_the_engine_is_led_to_the_simulated_clouds(shell: Shell) -> None:
    shell.run("up", "--yes", ARM_CLIENT_SECRET="real", KUBECONFIG="/real")
    env = shell.calls()[-1]["env"]
    attached = dict(pair.split(":") for pair in env["PULUMI_DEBUG_PROVIDERS"].split(","))
    assert sorted(attached) == ["alicloud", "azure-native", "kubernetes", "talos"]
    assert "ARM_CLIENT_SECRET" not in env
    assert env["IDENTITY_ENDPOINT"].startswith("http://127.0.0.1:")
    assert not Path(env["KUBECONFIG"]).exists()
    assert Path(env["REQUESTS_CA_BUNDLE"]).exists()
    assert env["PULUMI_STACK"] == "dev"
    assert env["PULUMI_HOME"] == str(shell.lab / "home")


def test_addresses_are_the_same_in_every_run(shell: Shell) -> None:
    shell.run("preview")
    shell.run("preview")
    first, second = [call["config"] for call in shell.calls() if call["words"][0] == "preview"]
    assert first == second


def test_the_stack_is_made_once_and_the_users_file_is_not_written(shell: Shell) -> None:
    shell.run("preview")
    shell.run("up", "--yes")
    made = [call for call in shell.calls() if call["words"][:2] == ["stack", "init"]]
    assert [call["config"] for call in made] == [CONFIG]
    assert made[0]["cwd"] != str(shell.project)
    assert shell.config.read_text() == CONFIG


def test_without_a_configuration_file_no_stack_is_made(shell: Shell) -> None:
    shell.run("preview", "--stack", "prod")
    (call,) = shell.calls()
    assert call["words"] == ["preview", "--stack", "prod"]


def test_a_configuration_file_alone_names_the_stack(shell: Shell, tmp_path: Path) -> None:
    other = tmp_path / "Pulumi.test.yaml"
    other.write_text(CONFIG)
    shell.run("preview", "--config-file", str(other))
    made, call = shell.calls()
    assert made["words"][2] == call["env"]["PULUMI_STACK"] == "test"
    shell.run("stack", "export", "--config-file", str(other))
    export = shell.calls()[-1]
    assert export["words"] == ["stack", "export"]
    assert export["env"]["PULUMI_STACK"] == "test"
    assert "PULUMI_DEBUG_PROVIDERS" not in export["env"]


def test_config_works_on_the_users_own_file(shell: Shell) -> None:
    shell.run("config", "set", "a", "b", "--config-file", "Pulumi.dev.yaml")
    call = shell.calls()[-1]
    assert call["words"] == ["config", "set", "a", "b", "--config-file", str(shell.config)]
    shell.run("config", "set", "--stack", "dev", "a", "--", "-s")
    assert shell.calls()[-1]["words"] == ["config", "set", "a", "--stack", "dev", "--", "-s"]
    status, text = shell.run("config", "refresh")
    assert status == 2
    assert "would write the lab's addresses" in text


def test_removing_a_stack_keeps_its_configuration_file(shell: Shell) -> None:
    shell.run("stack", "rm", "dev", "--yes")
    assert shell.calls()[-1]["words"] == ["stack", "rm", "dev", "--yes", "--preserve-config"]
    shell.run("destroy", "--yes", "--remove")
    assert shell.config.read_text() == CONFIG


def test_a_missing_configuration_file_is_one_message(shell: Shell) -> None:
    status, text = shell.run("preview", "--config-file", "nowhere.yaml")
    assert (status, text) == (2, "lab: there is no configuration file nowhere.yaml\n")


@pytest.mark.parametrize("words", [["preview"], ["stack", "export"], ["version", "--verbose"]])
def test_the_exit_status_is_the_clis(words: list[str], shell: Shell) -> None:
    shell.run("preview")
    assert shell.run(*words, STATUS="7")[0] == 7
    assert shell.run(*words, DIES="1")[0] == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_go_to_the_cli_once(number: signal.Signals, shell: Shell) -> None:
    process = shell.start("preview", WAIT="1")
    shell.wait_for(".ready")
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 9
    assert "Traceback" not in err
    assert Path(f"{shell.calls_file}.signal").read_text() == f"{int(number)}\n"


def test_while_a_command_runs_the_clouds_can_be_seen_and_another_waits(shell: Shell) -> None:
    process = shell.start("up", "--yes", WAIT="1")
    shell.wait_for(".ready")
    assert shell.run("cloud", "ls", "--json") == (0, "[]\n")
    second = shell.start("preview")
    assert second.stderr is not None
    line = second.stderr.readline()
    assert "waiting for another command" in line
    assert "(up, process" in line
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    second.communicate(timeout=60)
    assert second.returncode == 0
