"""`join`: what a stack that adds workers must know of a cluster that another stack built.

It carries the worker's machine config, which holds tokens, so it is a secret; it carries no private key of any
certificate authority.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pulumi
from hybrid_talos.mesh_location import MeshLocation

from .secrets import Secrets
from .settings import Location, Settings, SettingsError

SCHEMA = 1
"""Number of the form below; a reader refuses another one instead of guessing."""

_KEYS = {
    "schema", "clusterName", "clusterEndpoint", "talosVersion", "kubernetesVersion", "podCidr", "serviceCidr",
    "machineConfig", "locations",
}  # fmt: skip


def write_join(
    settings: Settings,
    cluster_endpoint: pulumi.Output[str],
    machine_config: pulumi.Output[str],
    locations: pulumi.Output[Mapping[str, MeshLocation]] | None,
) -> pulumi.Output[dict[str, Any]]:
    """Return the stack output for others to join the cluster."""
    own = settings.cluster.location
    return pulumi.Output.secret(
        {
            "schema": SCHEMA,
            "clusterName": settings.cluster.name,
            "clusterEndpoint": cluster_endpoint,
            "talosVersion": settings.cluster.talos_version,
            "kubernetesVersion": settings.cluster.kubernetes_version,
            "podCidr": str(settings.cluster.pod_cidr),
            "serviceCidr": str(settings.cluster.service_cidr),
            "machineConfig": machine_config,
            "locations": {own.name: _location(own)} if own is not None and locations is not None else {},
        }
    )


def _location(location: Location) -> dict[str, Any]:
    return {
        "cidrs": [str(cidr) for cidr in location.cidrs],
        "publicEndpoint": location.public_endpoint or "",
    }


class Existing(NamedTuple):
    """What a stack that joins a cluster takes of it; both are secret."""

    machine_config: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    checked: tuple[pulumi.Output[pulumi.Resource], ...]
    """Resolve when what the cluster's stack hands out has proved good: nothing may be made before."""


def read_join(settings: Settings, secrets: Secrets) -> Existing:
    """Return the worker machine config and the kubeconfig of the cluster to join.

    Both come from the stack that ``settings.cluster_stack`` names, or from secret configuration, and are held against
    the settings.

    Raises:
        SettingsError: secret configuration that is no `join`, or one of another cluster. What a stack hands out is
            known later; then the outputs raise it.
    """
    if settings.cluster_stack is None:
        assert secrets.join is not None
        assert secrets.kubeconfig is not None
        machine_config, kubeconfig = _Source("hybrid-talos:join", "hybrid-talos:kubeconfig", "the configuration").read(
            secrets.join, secrets.kubeconfig, settings
        )
        return Existing(pulumi.Output.secret(machine_config), pulumi.Output.secret(kubeconfig), ())
    source = _Source("clusterStack", "clusterStack", f"the stack {settings.cluster_stack}")
    # Named like the key of the settings, which so stands in the engine's own message about a stack that is not there.
    reference = pulumi.StackReference("clusterStack", stack_name=settings.cluster_stack)
    # Both at once, since what makes one of them unreadable mostly does so to both.
    handed = [pulumi.Output.secret(reference.get_output(name)) for name in ("join", "kubeconfig")]
    read = pulumi.Output.all(*handed).apply(lambda both: source.read(both[0], both[1], settings))
    checked: pulumi.Output[pulumi.Resource] = read.apply(lambda _: reference)
    return Existing(read.apply(lambda good: good[0]), read.apply(lambda good: good[1]), (checked,))


# What may stand in a message: text of the form that these values have, and nothing else of what is secret as a whole.
_FORMS = {
    "clusterName": r"[a-z][a-z0-9-]{0,31}",
    "clusterEndpoint": r"https://[a-z0-9.-]{1,253}:[0-9]{1,5}",
    "talosVersion": r"[0-9]+\.[0-9]+\.[0-9]+",
    "kubernetesVersion": r"[0-9]+\.[0-9]+\.[0-9]+",
    "podCidr": r"[0-9.]+/[0-9]+",
    "serviceCidr": r"[0-9.]+/[0-9]+",
}


class _Source(NamedTuple):
    """Where `join` and the kubeconfig come from."""

    join_key: str
    kubeconfig_key: str
    words: str

    def read(self, join: Any, kubeconfig: Any, settings: Settings) -> tuple[str, str]:
        """Return the machine config and the kubeconfig, or refuse them with every reason."""
        problems = [f"{self.join_key}: {problem}" for problem in self._unusable(join)]
        # With both gone, the reason is the same, and once is enough.
        why = "" if problems else _WHY_EMPTY
        if not problems:
            value = json.loads(join) if isinstance(join, str) else join
            problems += self._differences(value, settings)
            if not isinstance(value["machineConfig"], str) or not value["machineConfig"].strip():
                problems.append(f"{self.join_key}: {self.words} hands out an empty machineConfig")
        if not isinstance(kubeconfig, str) or not kubeconfig.strip():
            problems.append(f"{self.kubeconfig_key}: {self.words} hands out no `kubeconfig`, or an empty one{why}")
        if problems:
            raise SettingsError(problems)
        return value["machineConfig"], kubeconfig

    def _unusable(self, join: Any) -> Iterator[str]:
        value = join
        if isinstance(join, str) and join.strip():
            try:
                value = json.loads(join)
            except ValueError:
                yield (
                    "is not JSON; expected the whole output, as printed by "
                    "`pulumi stack output join --show-secrets --json`"
                )
                return
        if value is None or value in ("", {}, []):
            yield f"{self.words} hands out no `join`, or an empty one{_WHY_EMPTY}"
        elif not isinstance(value, Mapping) or not value.keys() >= _KEYS or value["schema"] != SCHEMA:
            found = value.get("schema") if isinstance(value, Mapping) else None
            number = str(found) if isinstance(found, int) and not isinstance(found, bool) else "unknown"
            yield (
                f"{self.words} hands out a `join` of schema {number}, expected {SCHEMA}: "
                "run `pulumi up` there with the same version of hybrid-talos"
            )

    def _differences(self, value: Mapping[str, Any], settings: Settings) -> Iterator[str]:
        cluster = settings.cluster
        expected = {
            "clusterName": ("cluster.name", cluster.name),
            "clusterEndpoint": ("cluster.endpoint", f"https://{cluster.endpoint.host}:{cluster.endpoint.port}"),
            "talosVersion": ("cluster.talosVersion", cluster.talos_version),
            "kubernetesVersion": ("cluster.kubernetesVersion", cluster.kubernetes_version),
            "podCidr": ("cluster.podCidr", str(cluster.pod_cidr)),
            "serviceCidr": ("cluster.serviceCidr", str(cluster.service_cidr)),
        }
        for name, (key, ours) in expected.items():
            if value[name] != ours:
                theirs = value[name] if re.fullmatch(_FORMS[name], str(value[name])) else "something else"
                yield f"{key}: {ours} here, {theirs} in the `join` of {self.words}; expected the same in both"
        if not value["locations"]:
            yield f"mesh: the cluster of {self.words} has no mesh that its workers elsewhere could join"
        elif cluster.location is not None and not _same(value["locations"], cluster.location):
            yield f"cluster.location: differs from that in the `join` of {self.words}; expected the same in both"


def _same(locations: Any, own: Location) -> bool:
    theirs = locations.get(own.name) if isinstance(locations, Mapping) else None
    ours = _location(own)
    return (
        isinstance(theirs, Mapping)
        and isinstance(theirs.get("cidrs"), list)
        and set(map(str, theirs["cidrs"])) == set(ours["cidrs"])
        and theirs.get("publicEndpoint") == ours["publicEndpoint"]
    )


_WHY_EMPTY = (
    ": it was not built by the `cluster` or `hybrid` stack of this version, or it was encrypted with another "
    "passphrase or key than this stack uses"
)
