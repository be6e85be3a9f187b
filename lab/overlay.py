"""A copy of a stack's configuration in which the services of the lab stand in the place of the real ones."""

from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import yaml

from .talos.hardware import disk_for

SETTINGS = "hybrid-talos:settings"


class _Loader(yaml.SafeLoader):
    """Reads scalars as the engine does (YAML 1.2), and refuses keys that stand twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value} stands twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Writes text in quotes where YAML 1.1 or 1.2 could take it for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_KEPT = ("null", "int", "float", "bool", "merge")
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.rsplit(":", 1)[-1] in _KEPT and not (tag.endswith(":bool") and first not in "tTfF")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _settings(text: str) -> tuple[Any, dict[str, Any] | None]:
    """Return a configuration and the settings in it, or None for what is none of this program's or does not parse."""
    try:
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
        settings = document["config"][SETTINGS]
    except (yaml.YAMLError, KeyError, TypeError):
        return None, None
    return document, settings if isinstance(settings, dict) else None


def machines_of(text: str) -> dict[str, dict[str, Any] | None]:
    """Return the machines in a configuration's settings: by address, the disk that its settings ask for."""
    try:
        cluster = (_settings(text)[1] or {})["cluster"]
        machines = [*(cluster.get("controlPlanes") or ()), *(cluster.get("workers") or ())]
        return {str(IPv4Address(machine["address"])): disk_for(machine) for machine in machines}
    except (KeyError, TypeError, AttributeError, ValueError):
        return {}


def names_to_make(text: str) -> dict[str, list[str]]:
    """Return the DNS records that a person is told to make for a configuration: the cluster's name and its members."""
    try:
        cluster = (_settings(text)[1] or {})["cluster"]
        endpoint = cluster["endpoint"]
        if endpoint["kind"] != "dns" or "record" in endpoint:
            return {}
        members = [str(member.get("publicAddress") or member["address"]) for member in cluster["controlPlanes"]]
        return {str(endpoint["host"]).lower(): members}
    except (KeyError, TypeError, AttributeError):
        return {}


def overlay(
    text: str,
    *,
    factory_url: str,
    arm_url: str,
    blob_url: str,
    oss_url: str,
    rpc_url: str,
    kubernetes_url: str,
    nameserver: str,
    talos: Mapping[str, str],
) -> str:
    """Return a stack's configuration with the lab's addresses in its settings.

    What is not a configuration of this program, or does not parse, comes back as it is: the engine and the
    program have the better messages.
    """
    document, settings = _settings(text)
    if settings is None:
        return text
    _put(settings, ("image",), "factoryUrl", factory_url, make=True)
    _put(settings, ("cluster", "endpoints"), "kubernetes", kubernetes_url)
    _put(settings, ("cluster", "endpoints"), "nameserver", nameserver)
    if talos:
        _put(settings, ("cluster", "endpoints"), "talos", dict(talos))
    _put(settings, ("azure", "endpoints"), "resourceManager", arm_url)
    _put(settings, ("azure", "endpoints"), "blob", blob_url)
    _put(settings, ("aliyun", "endpoints"), "oss", oss_url)
    for service in ("ecs", "ess"):
        _put(settings, ("aliyun", "endpoints"), service, rpc_url)
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31)


def _put(settings: dict[str, Any], path: tuple[str, ...], key: str, value: Any, *, make: bool = False) -> None:
    """Set one value, unless the section is not there or is no mapping; the last section of a path is made."""
    section: Any = settings
    for depth, name in enumerate(path):
        if name not in section and (make or depth > 0):
            section[name] = {}
        section = section.get(name)
        if not isinstance(section, dict):
            return
    section[key] = value


def project_name(folder: Path) -> str | None:
    """Return the name of the Pulumi project in a folder, or None when there is none that can be read."""
    for name in ("Pulumi.yaml", "Pulumi.yml"):
        try:
            document = yaml.safe_load((folder / name).read_text())
        except (OSError, yaml.YAMLError):
            continue
        if isinstance(document, Mapping) and isinstance(document.get("name"), str):
            return str(document["name"])
    return None


def project_folder(start: Path) -> Path | None:
    """Return the folder of the Pulumi project that a command in ``start`` works on."""
    for folder in (start, *start.parents):
        if (folder / "Pulumi.yaml").exists() or (folder / "Pulumi.yml").exists():
            return folder
    return None


def stack_file(folder: Path, stack: str) -> Path | None:
    """Return a stack's configuration file in its project, or None."""
    for ending in ("yaml", "yml"):
        if (path := folder / f"Pulumi.{stack}.{ending}").exists():
            return path
    return None
