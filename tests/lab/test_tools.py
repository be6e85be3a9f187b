"""How the lab finds its tools, or builds them: with stand-ins for Go and the tools, nothing is compiled here."""

import os
import shutil
import stat
import threading
import time
from pathlib import Path

import pytest

from lab import real_tools, tool_builds, tools
from lab.real_tools import BUILDS, KUBERNETES_PROVIDER
from lab.tool_builds import LANGUAGE_HOST, MODULES, PULUMI, TALOS_NODES, TALOSCTL, ToolsMissing

GO = """#!/bin/sh
# A stand-in for Go: it writes down how it was called, and makes what it was asked for.
echo "$PWD $*" >> "$GO_LOG"
ls >> "$GO_LOG.files"
case "$1 $2" in
    "env GOVERSION") echo go1.26.8; exit 0 ;;
    "mod download") exit 0 ;;
    "list -mod=readonly") echo "$GO_SDK"; exit 0 ;;
esac
[ -z "${GO_FAILS:-}" ] || { echo "cannot find module providing package x" >&2; exit 1; }
sleep "${GO_SECONDS:-0}"
while [ $# -gt 1 ]; do
    if [ "$1" = -o ]; then printf '#!/bin/sh\\necho made\\n' > "$2"; chmod +x "$2"; fi
    shift
done
"""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


class Machine:
    """A PATH of its own, a stand-in Go, and a cache."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin = tmp_path / "bin"
        self.cache = tmp_path / "cache"
        self.log = tmp_path / "go.log"
        self.modules = tmp_path / "modules"
        self.said: list[str] = []
        self._env = monkeypatch
        sdk = tmp_path / "sdk"
        for name in LANGUAGE_HOST.scripts:
            script(sdk / name, "#!/bin/sh\n").chmod(0o444)
        for name in KUBERNETES_PROVIDER.embeds:
            script(sdk / name, "{}").chmod(0o444)
        for module in {b.module for b in (PULUMI, LANGUAGE_HOST, TALOSCTL, *BUILDS)}:
            shutil.copytree(MODULES / module, self.modules / module)
        self.bin.mkdir()
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")
        monkeypatch.setenv("HYBRID_TALOS_CACHE", str(self.cache))
        monkeypatch.setenv("GO_LOG", str(self.log))
        monkeypatch.setenv("GO_SDK", str(sdk))

    def with_go(self, text: str = GO) -> None:
        script(self.bin / "go", text)

    def setenv(self, **values: str) -> None:
        for name, value in values.items():
            self._env.setenv(name, value)

    def provide(self) -> tools.Tools:
        return tools.provide(self.said.append, self.modules)

    def provide_real(self) -> real_tools.RealTools:
        return real_tools.provide(self.said.append, self.modules)

    def builds(self) -> list[str]:
        if not self.log.exists():
            return []
        return sorted(line.split()[-1] for line in self.log.read_text().splitlines() if " build " in line)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def answers(text: str) -> str:
    return f"#!/bin/sh\necho '{text}'\n"


def put_pulumi(machine: Machine, version: str, *, scripts: bool = True) -> None:
    script(machine.bin / "pulumi", answers(version))
    script(machine.bin / "pulumi-language-python", answers(""))
    for name in LANGUAGE_HOST.scripts if scripts else ():
        script(machine.bin / Path(name).name, answers(""))


def test_tools_on_path_are_used_when_new_enough(machine: Machine) -> None:
    put_pulumi(machine, "v3.272.0")
    script(machine.bin / "talosctl", answers("Client:\n\tTag:         v1.13.0"))
    found = machine.provide()
    assert [tool.origin for tool in found.all] == ["PATH"] * 3
    assert found.talosctl.version == "v1.13.0"
    assert found.folders == (machine.bin,)
    assert machine.builds() == []


@pytest.mark.parametrize("version", ["v3.271.9", "", "v2.999.0"])
def test_an_old_pulumi_is_not_used(version: str, machine: Machine) -> None:
    machine.with_go()
    put_pulumi(machine, version)
    assert machine.provide().pulumi.origin == "built"


def test_a_pulumi_without_its_language_host_is_not_used(machine: Machine) -> None:
    machine.with_go()
    put_pulumi(machine, "v3.274.1", scripts=False)
    found = machine.provide()
    assert (found.pulumi.origin, found.language_host.origin) == ("built", "built")


def test_an_old_talosctl_is_not_used(machine: Machine) -> None:
    machine.with_go()
    script(machine.bin / "talosctl", answers("Tag: v1.12.9"))
    assert machine.provide().talosctl.origin == "built"


def test_what_is_missing_is_built_once(machine: Machine) -> None:
    machine.with_go()
    found = machine.provide()
    assert machine.builds() == sorted(b.package for b in (PULUMI, LANGUAGE_HOST, TALOSCTL, TALOS_NODES))
    assert all(os.access(tool.path, os.X_OK) for tool in found.all)
    for name in LANGUAGE_HOST.scripts:
        copy = found.language_host.path.parent / Path(name).name
        assert os.access(copy, os.X_OK | os.W_OK)
    assert any("building pulumi v3.274.1" in line and "minutes" in line for line in machine.said)
    assert found.pulumi.path.parent == found.language_host.path.parent
    machine.said.clear()
    again = machine.provide()
    assert [tool.path for tool in again.all] == [tool.path for tool in found.all]
    assert len(machine.builds()) == 4
    assert machine.said == []


def test_builds_use_the_pins_and_no_compiler_of_c(machine: Machine) -> None:
    machine.with_go(GO.replace('echo "$PWD $*"', 'echo "$PWD CGO=$CGO_ENABLED WORK=$GOWORK $*"'))
    machine.provide()
    lines = [line for line in machine.log.read_text().splitlines() if " build " in line]
    assert all("-mod=readonly" in line and "CGO=0 WORK=off" in line for line in lines)
    assert any("version.Version=v3.274.1" in line and line.endswith(PULUMI.package) for line in lines)


def test_a_changed_pin_is_built_anew_beside_the_old_one(machine: Machine) -> None:
    machine.with_go()
    before = machine.provide()
    with (machine.modules / TALOSCTL.module / "go.sum").open("a") as file:
        file.write("changed\n")
    after = machine.provide()
    assert after.talosctl.path != before.talosctl.path
    assert (after.pulumi.path, after.language_host.path) == (before.pulumi.path, before.language_host.path)
    assert before.talosctl.path.exists()


def test_another_go_builds_anew_but_without_go_what_is_there_is_used(machine: Machine) -> None:
    machine.with_go()
    before = machine.provide()
    machine.with_go(GO.replace("go1.26.8", "go1.27.0"))
    assert machine.provide().pulumi.path != before.pulumi.path
    (machine.bin / "go").unlink()
    machine.setenv(PATH=str(machine.bin))
    assert machine.provide().pulumi.path.exists()


def test_the_real_tools_are_built_apart_and_once(machine: Machine) -> None:
    machine.with_go()
    found = machine.provide_real()
    assert machine.builds() == sorted(build.package for build in BUILDS)
    assert [path.name for path in (found.kubernetes_provider, found.kube_apiserver, found.etcd)] == [
        "pulumi-resource-kubernetes",
        "kube-apiserver",
        "etcd",
    ]
    assert machine.provide_real() == found
    assert len(machine.builds()) == len(BUILDS)
    machine.provide()
    assert len(machine.builds()) == len(BUILDS) + 3


def test_tools_of_one_module_are_built_one_after_the_other(machine: Machine) -> None:
    machine.with_go(GO.replace('sleep "${GO_SECONDS:-0}"', 'sleep 0.2; echo "$PWD end ." >> "$GO_LOG"'))
    machine.provide_real()
    lines = [line.split() for line in machine.log.read_text().splitlines()]
    module = [words[1] for words in lines if words[0].endswith("/kubernetes") and words[1] in ("build", "end")]
    assert module == ["build", "end"] * 4


def test_what_a_tool_embeds_lies_beside_its_source_only_while_it_is_built(machine: Machine) -> None:
    machine.with_go()
    machine.provide_real()
    assert {"main.go", "schema.json", "terraform-mapping.json"} <= set(
        Path(f"{machine.log}.files").read_text().splitlines()
    )
    for folder in (machine.modules / KUBERNETES_PROVIDER.module, machine.cache):
        assert list(folder.rglob("*.json")) == []


def test_a_change_of_our_own_source_is_built_anew(machine: Machine) -> None:
    machine.with_go()
    before = machine.provide_real()
    with (machine.modules / KUBERNETES_PROVIDER.module / "main.go").open("a") as file:
        file.write("// changed\n")
    after = machine.provide_real()
    assert after.kubernetes_provider != before.kubernetes_provider
    assert (after.etcd, after.kube_apiserver) == (before.etcd, before.kube_apiserver)


def test_the_real_tools_cannot_be_built_without_go(machine: Machine) -> None:
    machine.setenv(PATH=str(machine.bin))
    with pytest.raises(ToolsMissing, match=r"need pulumi-resource-kubernetes, kube-apiserver, .*Go 1\.26\.6"):
        machine.provide_real()


@pytest.mark.parametrize("go", [None, "#!/bin/sh\necho go1.25.1\n", "#!/bin/sh\nexit 1\n"])
def test_without_go_and_tools_one_message_says_what_to_install(go: str | None, machine: Machine) -> None:
    if go is not None:
        machine.with_go(go)
    machine.setenv(PATH=f"{machine.bin}:/bin" if go else str(machine.bin))
    with pytest.raises(ToolsMissing) as caught:
        machine.provide()
    message = str(caught.value)
    for expected in ("pulumi", "pulumi-language-python", "talosctl", "Go 1.26.6", ">= 3.272.0", ">= 1.13.0"):
        assert expected in message
    assert ("no Go found" in message) == (go != "#!/bin/sh\necho go1.25.1\n")
    assert machine.said == []


def test_a_failed_build_says_why_and_leaves_nothing_behind(machine: Machine) -> None:
    machine.with_go()
    machine.setenv(GO_FAILS="1")
    with pytest.raises(ToolsMissing, match="cannot find module providing package x"):
        machine.provide()
    assert [path.name for path in machine.cache.iterdir() if not path.name.endswith(".lock")] == []


def test_two_at_once_build_each_tool_once(machine: Machine) -> None:
    machine.with_go()
    machine.setenv(GO_SECONDS="1")
    found: list[tools.Tools] = []
    threads = [threading.Thread(target=lambda: found.append(machine.provide())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(machine.builds()) == 4
    assert found[0] == found[1]


def test_an_interrupted_build_stops_go(machine: Machine) -> None:
    machine.with_go()
    machine.setenv(GO_SECONDS="600")

    def interrupt(builder: tool_builds.Builder) -> None:
        while len(builder.processes) < 1:
            time.sleep(0.01)
        raise KeyboardInterrupt

    builder = tool_builds.Builder([TALOSCTL], "go1.26.8", machine.cache, machine.modules, machine.said.append)
    machine.cache.mkdir()
    with pytest.raises(KeyboardInterrupt):
        builder.run(interrupt)
    assert builder.processes == set()
    assert tool_builds.built(TALOSCTL, None, machine.cache, machine.modules) is None


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"HYBRID_TALOS_CACHE": "/c/own", "XDG_CACHE_HOME": "/x"}, "/c/own"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/hybrid-talos"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/hybrid-talos"),
        ({"HOME": "/h"}, "/h/.cache/hybrid-talos"),
    ],
)
def test_the_cache_folder(env: dict[str, str], expected: str) -> None:
    assert tools.cache_folder(env) == Path(expected)


def test_the_modules_pin_what_the_library_needs() -> None:
    pulumi = tools.parse_version(tool_builds.pinned_version(PULUMI))
    talosctl = tools.parse_version(tool_builds.pinned_version(TALOSCTL))
    assert pulumi is not None
    assert talosctl is not None
    assert pulumi >= tools.MINIMUM_PULUMI
    assert talosctl >= tools.MINIMUM_TALOSCTL
    for build in (PULUMI, LANGUAGE_HOST, TALOSCTL, *BUILDS):
        text = (MODULES / build.module / "go.mod").read_text()
        assert f"\ngo {'.'.join(map(str, tools.MINIMUM_GO))}\n" in text
