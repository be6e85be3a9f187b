"""Calls the real talosctl; secrets go to it through pipes, never in arguments or files."""

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml

from lab import tool_builds, tools

DEFAULT_TALOS_CONTRACT = "v1.13"
"""What terraform-provider-talos v0.11.0 falls back to: the release of the Talos library it embeds (its go.mod)."""

DEFAULT_KUBERNETES = "1.36.0"
"""``DefaultKubernetesVersion`` of siderolabs/talos v1.13.0 pkg/machinery/constants/constants.go."""

_INSTALL_DISK = "/dev/sda"
_INSTALL_IMAGE = "ghcr.io/siderolabs/installer:v1.13.0"
"""Baked into the real provider (siderolabs/terraform-provider-talos pkg/talos/util.go)."""

_SECONDS = 120
_CACHED = 256

_UNKNOWN_KEYS = "unknown keys found during decoding:"
_VALUE = re.compile(r"^(\s*(?:- )*)([\w./$-]+:)[ \t]+\S.*$", re.MULTILINE)
_QUOTED = re.compile(r"`[^`]*`")
_BLOB = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_TOKEN = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")
_PIPE = re.compile(r"/dev/fd/\d+")


class TalosctlError(Exception):
    """talosctl refused; the message is its own, with every value of a document taken out."""


@dataclass(frozen=True)
class Piped:
    """An argument that names a pipe with this text in it."""

    text: str
    prefix: str = ""
    """What comes before the name: ``@`` where talosctl wants it to tell a file from a text."""

    def __repr__(self) -> str:
        return "Piped(...)"


def scrub(message: str) -> str:
    """Return a message of talosctl without the values that it quotes from a document.

    talosctl prints the part of a config that it cannot read, secrets and all; the keys are enough to find the fault.
    """
    text, marker, quoted = message.strip().partition(_UNKNOWN_KEYS)
    text = _PIPE.sub("the configuration", text)
    text = _VALUE.sub(r"\1\2 …", text)
    text = _QUOTED.sub("`…`", text)
    text = _TOKEN.sub("…", text)
    text = _BLOB.sub("…", text)
    keys = f"{marker} {', '.join(_keys(quoted))}" if marker else ""
    return " ".join(f"{text}{keys}".split())


def _keys(document: str) -> list[str]:
    """Return the dotted names of the keys of a YAML text, and nothing when it cannot be read."""
    try:
        loaded = yaml.safe_load(document)
    except yaml.YAMLError:
        return []

    def walk(value: Any, path: str) -> list[str]:
        if isinstance(value, dict) and value:
            return [name for key, item in value.items() for name in walk(item, f"{path}.{key}" if path else str(key))]
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            return [name for item in value for name in walk(item, f"{path}[]")]
        return [path] if path else []

    return list(dict.fromkeys(walk(loaded, "")))


@functools.cache
def path() -> str:
    """Return where talosctl is: ``HYBRID_TALOS_TALOSCTL``, else on PATH, else as the lab built it before."""
    named = os.environ.get("HYBRID_TALOS_TALOSCTL") or shutil.which("talosctl")
    if named:
        return named
    built = tool_builds.built(tool_builds.TALOSCTL, tools.go_version(), tools.cache_folder())
    if built is None:
        raise TalosctlError("there is no talosctl on PATH; `python3 -m lab.tools` builds one")
    return str(built)


def run(*words: str | Piped) -> str:
    """Run talosctl and return what it prints.

    Raises:
        TalosctlError: it refused what it was given.
    """
    readers: list[int] = []
    writers: list[tuple[int, bytes]] = []
    command = [path()]
    try:
        for word in words:
            if isinstance(word, str):
                command.append(word)
                continue
            reader, writer = os.pipe()
            readers.append(reader)
            writers.append((writer, word.text.encode()))
            command.append(f"{word.prefix}/dev/fd/{reader}")
        environment = {k: v for k, v in os.environ.items() if k not in ("TALOSCONFIG", "KUBECONFIG")}
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=readers,
        )
    except BaseException:
        for descriptor in [*readers, *(writer for writer, _ in writers)]:
            os.close(descriptor)
        raise
    for reader in readers:
        # With the child's end the only one left, a writer is told when talosctl stops reading.
        os.close(reader)
    for writer, data in writers:
        threading.Thread(target=_feed, args=(writer, data), daemon=True).start()
    try:
        out, err = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise TalosctlError(f"talosctl did not answer within {_SECONDS} seconds") from None
    if process.returncode:
        raise TalosctlError(scrub(err.decode(errors="replace")) or f"talosctl ended with {process.returncode}")
    return out.decode()


def _feed(writer: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(writer, "wb") as pipe:
        pipe.write(data)


T = TypeVar("T")

_lock = threading.Lock()
_results: OrderedDict[str, Any] = OrderedDict()


def _remembered(make: Callable[[], T], *inputs: object) -> T:
    """Return what ``make`` returned for the same inputs, or make it: a start of talosctl costs some 100 ms."""
    key = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
    with _lock:
        if key in _results:
            _results.move_to_end(key)
            return _results[key]  # type: ignore[no-any-return]
    made = make()
    with _lock:
        _results[key] = made
        while len(_results) > _CACHED:
            _results.popitem(last=False)
    return made


def gen_secrets(contract: str) -> dict[str, Any]:
    """Return a new secrets bundle, as ``talosctl gen secrets`` writes it."""
    loaded: dict[str, Any] = yaml.safe_load(run("gen", "secrets", "--talos-version", contract, "-o", "-"))
    return loaded


def gen_config(
    *,
    cluster: str,
    endpoint: str,
    secrets: dict[str, Any],
    role: str,
    contract: str,
    kubernetes: str,
    patches: Sequence[str] = (),
    docs: bool = False,
    examples: bool = False,
) -> str:
    """Return the machine config of a role; the same inputs give the same bytes."""
    flag = "--config-patch-control-plane" if role == "controlplane" else "--config-patch-worker"

    def make() -> str:
        patching: list[str | Piped] = []
        for patch in patches:
            patching += [flag, Piped(patch, "@")]
        return run(
            *("gen", "config", cluster, endpoint),
            *("--with-secrets", Piped(yaml.safe_dump(secrets))),
            *("--output-types", role, "--output", "-"),
            *("--talos-version", contract, "--kubernetes-version", kubernetes.removeprefix("v")),
            *("--install-disk", _INSTALL_DISK, "--install-image", _INSTALL_IMAGE),
            *(f"--with-docs={str(docs).lower()}", f"--with-examples={str(examples).lower()}"),
            *patching,
        )

    return _remembered(
        make, "config", cluster, endpoint, secrets, role, contract, kubernetes, list(patches), docs, examples
    )


def gen_client(secrets: dict[str, Any]) -> dict[str, str]:
    """Return a new client certificate of the bundle's Talos API authority: ``ca``, ``crt`` and ``key`` in base64."""
    text = run(
        *("gen", "config", "lab", "https://lab.invalid:6443", "--with-secrets", Piped(yaml.safe_dump(secrets))),
        *("--output-types", "talosconfig", "--output", "-"),
    )
    context = yaml.safe_load(text)["contexts"]["lab"]
    return {name: context[name] for name in ("ca", "crt", "key")}


def patch_config(config: str, patches: Sequence[str]) -> str:
    """Return a machine config with patches applied; without patches it comes back as it is."""
    if not patches:
        return config

    def make() -> str:
        patching: list[str | Piped] = []
        for patch in patches:
            patching += ["--patch", Piped(patch, "@")]
        return run("machineconfig", "patch", Piped(config), *patching)

    return _remembered(make, "patch", config, list(patches))


def validate(config: str) -> None:
    """Check a machine config as a machine of the metal platform does before it takes it."""
    _remembered(lambda: run("validate", "--config", Piped(config), "--mode", "metal"), "validate", config)
