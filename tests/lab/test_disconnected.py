"""The page about a site without the internet: its settings come up, and nothing in them asks for anything outside."""

import json
import re
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from lab_folder import ROOT, Lab

from lab import tools
from stacks.stack_state import StackState, read_state

pytestmark = pytest.mark.lab

(PAGE,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "disconnected.md").read_text(), re.DOTALL)
REGISTRY, LOGIN = "registry-password-MARKER", "proxy-password-MARKER"


class Proxy:
    """A forward proxy on loopback that remembers what it was asked for."""

    def __init__(self) -> None:
        asked = self.asked = list[str]()
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        class Handler(BaseHTTPRequestHandler):
            def _forward(self) -> None:
                asked.append(f"{self.command} {self.path}")
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                kept = {name: value for name, value in self.headers.items() if name.lower().startswith("content-t")}
                request = urllib.request.Request(self.path, body or None, kept, method=self.command)  # noqa: S310
                try:
                    answer = direct.open(request, timeout=60)
                except urllib.error.HTTPError as error:
                    answer = error
                with answer:
                    data = answer.read()
                    self.send_response(answer.status or 200)
                    self.send_header("Content-Type", answer.headers.get("Content-Type") or "text/plain")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            do_GET = do_POST = do_HEAD = _forward

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> "Proxy":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with Proxy() as running:
        yield running


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, proxy: Proxy) -> Lab:
    """The page's settings, up; only the proxy on the way to the factory is the test's own."""
    folder = tmp_path_factory.mktemp("disconnected")
    document = yaml.safe_load(PAGE)
    document["config"]["hybrid-talos:settings"]["image"]["proxy"] = proxy.url
    path = folder / "Pulumi.closed.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    lab = Lab(folder / "lab", "closed", path)
    where = 'hybrid-talos:registryPasswords["mirror.example.com"]'
    lab.run("config", "set", "--secret", "--path", where, REGISTRY)
    lab.run("config", "set", "--secret", "hybrid-talos:proxyPassword", LOGIN)
    lab.up()
    return lab


@pytest.fixture(scope="module")
def state(page: Lab) -> StackState:
    return read_state(page.run("stack", "export", "--show-secrets").out)


@pytest.fixture(scope="module")
def configs(state: StackState) -> list[list[dict[str, Any]]]:
    applied = state.of_type("talos:machine/configurationApply:ConfigurationApply")
    found = [list(yaml.safe_load_all(each["outputs"]["machineConfiguration"])) for each in applied]
    assert len(found) == 4
    return found


def images(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("image"), str):
            yield value["image"]
        for nested in value.values():
            yield from images(nested)
    elif isinstance(value, list):
        for nested in value:
            yield from images(nested)


def host_of(image: str) -> str:
    """Return the registry of an image, as containerd reads it."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first) else "docker.io"


def bundled() -> list[str]:
    """Return the images that Talos itself pulls, by the real talosctl."""
    talosctl = str(tools.provide().talosctl.path)
    done = subprocess.run([talosctl, "image", "k8s-bundle"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_every_image_comes_from_a_mirror_and_from_nowhere_else(
    state: StackState, configs: list[list[dict[str, Any]]], page: Lab
) -> None:
    pods = [image for resource in state.resources for image in images(resource.get("inputs") or {})]
    own = [image for config in configs for image in images(config)]
    assert {"squat/kilo", "talos-cloud-controller-manager"} <= {
        name for image in pods for name in ("squat/kilo", "talos-cloud-controller-manager") if name in image
    }
    assert any("/kubelet:" in image for image in own)
    assert any("metal-installer" in image for image in own)
    # In the lab, the factory has the lab's address.
    (factory,) = {
        urlsplit(resource["inputs"]["factory_url"]).netloc
        for resource in state.resources
        if "factory_url" in (resource.get("inputs") or {})
    }
    for config in configs:
        mirrors = {each["name"]: each for each in config if each.get("kind") == "RegistryMirrorConfig"}
        assert all(each["skipFallback"] is True for each in mirrors.values())
        for each in mirrors.values():
            assert [urlsplit(one["url"]).hostname for one in each["endpoints"]] == ["mirror.example.com"]
            assert all(one["overridePath"] for one in each["endpoints"])
        lacking = {host_of(image) for image in (*own, *pods, *bundled())} - mirrors.keys() - {factory}
        assert lacking == set()
        (login,) = (each for each in config if each.get("kind") == "RegistryAuthConfig")
        assert (login["name"], login["username"], login["password"]) == ("mirror.example.com", "robot", REGISTRY)


def test_machines_go_through_the_proxy_and_past_it_to_each_other(configs: list[list[dict[str, Any]]]) -> None:
    for config in configs:
        (variables,) = (each["variables"] for each in config if each.get("kind") == "EnvironmentConfig")
        assert variables["https_proxy"] == variables["http_proxy"] == f"http://site:{LOGIN}@proxy.example.com:3128"
        past = variables["no_proxy"].split(",")
        for name in ("192.0.2.100", "192.0.2.11", "192.0.2.21", "10.244.0.0/16", "10.96.0.0/12", ".example.com"):
            assert name in past
        (names,) = (each for each in config if each.get("kind") == "ResolverConfig")
        assert names["nameservers"] == [{"address": "192.0.2.53"}]
        (clock,) = (each for each in config if each.get("kind") == "TimeSyncConfig")
        assert clock["ntp"]["servers"] == ["192.0.2.54"]


def test_the_factory_is_asked_through_its_proxy(page: Lab, proxy: Proxy) -> None:
    assert any(re.fullmatch(r"POST http://127\.0\.0\.1:\d+/schematics", line) for line in proxy.asked), proxy.asked
    assert all(urlsplit(line.split()[1]).hostname == "127.0.0.1" for line in proxy.asked)


def test_a_second_preview_changes_nothing_and_shows_no_password(page: Lab) -> None:
    run = page.run("preview", "--json", "--diff")
    assert all(step["op"] in ("same", "refresh", "read") for step in json.loads(run.out)["steps"])
    exported = page.run("stack", "export").out
    for password in (REGISTRY, LOGIN):
        assert password not in run.text
        assert password not in exported
        assert password not in Path(str(page.config_file)).read_text()
