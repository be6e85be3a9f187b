"""Where machines pull images from: mirrors, credentials and certificates of registries, and images of components.

Documents of Talos 1.12 and later; the same in `machine.registries` for configurations of an older contract
(siderolabs/talos `pkg/machinery/config/types/cri/` and `v1alpha1/`).
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypedDict
from urllib.parse import urlsplit

import pulumi
from pydantic import AfterValidator, Field, model_validator

from ._contract import Shape
from .certificates import certificate
from .talos_yaml import Document


class RegistryArgs(TypedDict):
    """How machines log in to a registry or mirror, and whose certificates they take from it."""

    username: NotRequired[str]
    """Name to log in with; needs `password`."""
    password: NotRequired[pulumi.Input[str]]
    """Password or token to log in with. Treated as a secret; it is in the configuration of every machine."""
    ca: NotRequired[str]
    """Certificate (PEM) of the authority that signed the registry's own."""


class ComponentImagesArgs(TypedDict):
    """Images of Kubernetes that another distribution of Talos, or a closed site, has under names of its own."""

    registry: str
    """Registry and folder of kubelet, kube-apiserver, kube-controller-manager, kube-scheduler and kube-proxy, each
    with the tag `v<kubernetes_version>`, such as `registry.example.com/k8s`."""
    etcd: NotRequired[str]
    """Image of etcd, with its tag. Default: the one that Talos chooses."""
    coredns: NotRequired[str]
    """Image of CoreDNS, with its tag. Default: the one that Talos chooses."""


_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?", re.ASCII)
_IMAGE = re.compile(
    r"[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?",
    re.ASCII,
)


_UPGRADE_FLAGS = {
    "apiserver-image": "kube-apiserver",
    "controller-manager-image": "kube-controller-manager",
    "scheduler-image": "kube-scheduler",
    "proxy-image": "kube-proxy",
    "kubelet-image": "kubelet",
}


def registry_host(value: str) -> str:
    """Return the host of a registry, with its port if it has one; ValueError when it is none."""
    if not _HOST.fullmatch(value):
        raise ValueError("must be the host of a registry, such as registry.example.com:5000, without scheme and path")
    return value


def image_reference(value: str) -> str:
    """Return an image with a tag or digest; ValueError when it is none."""
    if not _IMAGE.fullmatch(value) or not ("@" in value or ":" in value.rpartition("/")[2]):
        raise ValueError("must be an image with its registry and a tag or digest, such as registry.example.com/etcd:v3")
    return value


def image_folder(value: str) -> str:
    """Return a registry with a folder in it, or the registry alone; ValueError when it is none."""
    name = value.rstrip("/")
    if "://" in value or not (_IMAGE.fullmatch(f"{name}/x") and "@" not in name):
        raise ValueError("must be a registry and the folder of its images, such as registry.example.com/k8s")
    return name


def mirror_url(value: str) -> str:
    """Return the address of a mirror; ValueError when it is none."""
    if not value.startswith(("http://", "https://")) or any(sign.isspace() for sign in value):
        raise ValueError("must be a URL that starts with http:// or https://")
    if "@" in urlsplit(value).netloc:
        raise ValueError("must not hold credentials: they belong into registries")
    return value


class RegistryShape(Shape):
    """The checked form of RegistryArgs."""

    username: str | None = Field(default=None, min_length=1)
    password: Any = None
    ca: Annotated[str, AfterValidator(certificate)] | None = None

    @model_validator(mode="after")
    def _complete(self) -> "RegistryShape":
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password go together: give both or none")
        if self.password == "":
            raise ValueError("password: is empty")
        if self.username is None and self.ca is None:
            raise ValueError("says nothing: give username and password, ca, or all")
        return self


class ComponentImagesShape(Shape):
    """The checked form of ComponentImagesArgs."""

    registry: Annotated[str, AfterValidator(image_folder)]
    etcd: Annotated[str, AfterValidator(image_reference)] | None = None
    coredns: Annotated[str, AfterValidator(image_reference)] | None = None

    def every_machine(self, kubernetes_version: str) -> Document:
        """Return the patch for every machine."""
        return {"machine": {"kubelet": {"image": f"{self.registry}/kubelet:v{kubernetes_version}"}}}

    @property
    def upgrade_flags(self) -> dict[str, str]:
        """Return the flags by which `talosctl upgrade-k8s` takes the images, each with its image without a tag."""
        return {flag: f"{self.registry}/{image}" for flag, image in _UPGRADE_FLAGS.items()}

    def control_planes(self, kubernetes_version: str) -> Document:
        """Return the patch for control planes."""
        names = {
            "apiServer": "kube-apiserver",
            "controllerManager": "kube-controller-manager",
            "scheduler": "kube-scheduler",
            "proxy": "kube-proxy",
        }
        cluster: Document = {
            part: {"image": f"{self.registry}/{image}:v{kubernetes_version}"} for part, image in names.items()
        }
        if self.etcd is not None:
            cluster["etcd"] = {"image": self.etcd}
        if self.coredns is not None:
            cluster["coreDNS"] = {"image": self.coredns}
        return {"cluster": cluster}


RegistryHost = Annotated[str, AfterValidator(registry_host)]
"""The host of a registry, with its port if it has one."""
Mirrors = Mapping[str, Annotated[tuple[Annotated[str, AfterValidator(mirror_url)], ...], Field(min_length=1)]]
"""Addresses of mirrors by the host of the registry that they mirror."""


def mirror_documents(mirrors: Mapping[str, Sequence[str]], *, documents: bool, fallback: bool) -> list[Document]:
    """Return the patch that sends image pulls to mirrors, tried in order.

    ``documents`` tells whether the configuration has documents of its own for that; with ``fallback`` the registry
    itself is asked when no mirror has the image. A mirror whose address goes on after `/v2/`, as those of Harbor and
    Artifactory do, is used as it stands.
    """
    if not mirrors:
        return []
    rest = {} if fallback else {"skipFallback": True}
    if documents:
        return [
            {
                "apiVersion": "v1alpha1",
                "kind": "RegistryMirrorConfig",
                "name": registry,
                "endpoints": [{"url": url, **_override(url)} for url in mirrors[registry]],
                **rest,
            }
            for registry in sorted(mirrors)
        ]
    old = {
        registry: {"endpoints": list(urls), **(_override(*urls) if any(map(_override, urls)) else {}), **rest}
        for registry, urls in mirrors.items()
    }
    return [{"machine": {"registries": {"mirrors": old}}}]


def _override(*urls: str) -> dict[str, bool]:
    return {"overridePath": True} if all(urlsplit(url).path.startswith("/v2/") for url in urls) else {}


def mirror_problems(mirrors: Mapping[str, Sequence[str]], *, documents: bool) -> list[str]:
    """Return what is wrong with mirrors: those of one registry have one form where there is one switch for all."""
    return [
        f"{registry}: with a config contract below 1.12 either all mirrors of a registry go on after /v2/ or none does"
        for registry, urls in sorted(mirrors.items())
        if not documents and len({bool(_override(url)) for url in urls}) > 1
    ]


def login_documents(
    registries: Mapping[str, RegistryShape], passwords: Mapping[str, str], *, documents: bool
) -> list[Document]:
    """Return the patch with credentials and certificates of registries; it is a secret with any password in it."""
    if not registries:
        return []
    if not documents:
        return [{"machine": {"registries": {"config": _old_logins(registries, passwords)}}}]
    found: list[Document] = []
    for host, registry in sorted(registries.items()):
        named = {"apiVersion": "v1alpha1", "name": host}
        if registry.username is not None:
            login = {"username": registry.username, "password": passwords[host]}
            found.append({**named, "kind": "RegistryAuthConfig", **login})
        if registry.ca is not None:
            found.append({**named, "kind": "RegistryTLSConfig", "ca": registry.ca})
    return found


def _old_logins(registries: Mapping[str, RegistryShape], passwords: Mapping[str, str]) -> Document:
    found: Document = {}
    for host, registry in sorted(registries.items()):
        entry: Document = {}
        if registry.username is not None:
            entry["auth"] = {"username": registry.username, "password": passwords[host]}
        if registry.ca is not None:
            entry["tls"] = {"ca": base64.b64encode(registry.ca.encode()).decode()}
        found[host] = entry
    return found
