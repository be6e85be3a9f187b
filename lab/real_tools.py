"""The servers and the provider of the `real` tests, built from their Go modules: ``python3 -m lab.real_tools``.

They are always built, never taken from PATH: what the tests claim, they claim of these versions.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from .tool_builds import MODULES, TALOS_NODES, Build, Builder, ToolsMissing, built, pinned_version, watcher
from .tools import MINIMUM_GO, cache_folder, go_version, say_to_stderr

_PROVIDER = "github.com/pulumi/pulumi-kubernetes/provider/v4"


def _kubernetes(name: str, usually: str) -> Build:
    return Build(
        name=name,
        module="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        pin="k8s.io/kubernetes",
        usually=usually,
        # The linker sets what it says it is (kubernetes hack/lib/version.sh); clients look at it.
        ldflags="-s -w -X k8s.io/component-base/version.gitVersion={version}",
    )


KUBE_APISERVER = _kubernetes("kube-apiserver", "4 to 6 minutes")
# After the API server's, of whose packages they mostly are.
KUBE_CONTROLLER_MANAGER = _kubernetes("kube-controller-manager", "a minute")
KUBE_SCHEDULER = _kubernetes("kube-scheduler", "a few seconds")
ETCD = Build(
    name="etcd",
    module="kubernetes",
    package="go.etcd.io/etcd/server/v3",
    pin="go.etcd.io/etcd/server/v3",
    usually="half a minute",
)
KUBERNETES_PROVIDER = Build(
    name="pulumi-resource-kubernetes",
    module="kubernetes-provider",
    package=".",
    pin=_PROVIDER,
    usually="7 to 10 minutes",
    ldflags=f"-s -w -X {_PROVIDER}/pkg/version.Version={{version}}",
    embeds=(
        "cmd/pulumi-resource-kubernetes/schema.json",
        "cmd/pulumi-resource-kubernetes/terraform-mapping.json",
    ),
)
SOPS = Build(
    name="sops",
    module="sops",
    package="github.com/getsops/sops/v3/cmd/sops",
    pin="github.com/getsops/sops/v3",
    usually="1 to 2 minutes",
)
BUILDS = (KUBERNETES_PROVIDER, KUBE_APISERVER, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER, ETCD, TALOS_NODES, SOPS)


@dataclass(frozen=True)
class RealTools:
    """Where the provider and the servers of the `real` tests are, in the order of ``BUILDS``."""

    kubernetes_provider: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    etcd: Path
    talos_nodes: Path
    sops: Path


def provide(say: Callable[[str], None] = say_to_stderr, modules: Path = MODULES) -> RealTools:
    """Return the tools, building those that are not there.

    Raises:
        ToolsMissing: one was not built before, and cannot be built.
    """
    paths = find_or_build(BUILDS, say, modules)
    return RealTools(*(paths[build.name] for build in BUILDS))


def find_or_build(
    builds: Sequence[Build], say: Callable[[str], None] = say_to_stderr, modules: Path = MODULES
) -> dict[str, Path]:
    """Return where the tools of some builds are, by name, building those that are not there.

    Raises:
        ToolsMissing: one was not built before, and cannot be built.
    """
    cache = cache_folder()
    go = go_version(modules)
    paths = {b.name: path for b in builds if (path := built(b, go, cache, modules)) is not None}
    lacking = [build for build in builds if build.name not in paths]
    if lacking:
        if go is None:
            names = ", ".join(build.name for build in lacking)
            needed = ".".join(map(str, MINIMUM_GO))
            raise ToolsMissing(
                f"The lab and its tests need {names}, built with Go {needed} or newer: https://go.dev/dl/"
            )
        cache.mkdir(parents=True, exist_ok=True)
        for build in lacking:
            version = pinned_version(build, modules)
            say(f"building {build.name} {version} with {go}: usually {build.usually} on 2 cores, once")
        paths |= Builder(lacking, go, cache, modules, say).run(watcher())
    return paths


def main() -> int:
    """Find or build the tools and print their versions; return the exit status."""
    try:
        tools = provide()
    except ToolsMissing as error:
        say_to_stderr(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    for build, path in zip(BUILDS, astuple(tools), strict=True):
        print(f"{build.name} {pinned_version(build)} (built: {path})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
