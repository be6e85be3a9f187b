"""The settings of the network around the machines: clocks, name servers, a proxy, registries."""

from typing import Annotated

from hybrid_talos.certificates import certificate
from hybrid_talos.registries import image_folder, image_reference
from hybrid_talos.site import direct, proxy_url
from pydantic import AfterValidator

from .settings_base import SECRET_IN_SETTINGS, Address, Host, Section, form


def _proxy(value: str) -> str:
    if "@" in value:
        raise ValueError(
            f"must not hold credentials: {SECRET_IN_SETTINGS} username here and hybrid-talos:proxyPassword"
        )
    return proxy_url(value)


_UserName = Annotated[str, form(r"[^\s:]+", "be a user name, without white space and colons")]


class Proxy(Section):
    """The proxy through which machines reach the outside."""

    url: Annotated[str, AfterValidator(_proxy)]
    """Address of the proxy, such as http://proxy.example.com:3128."""
    username: _UserName | None = None
    """Name to log in with; the password is hybrid-talos:proxyPassword."""
    no_proxy: tuple[Annotated[str, AfterValidator(direct)], ...] = ()
    """Further names, domains (.example.com), addresses and ranges that are reached directly."""


class Site(Section):
    """What the network around the machines that exist asks of them; pools of a cloud never get it."""

    nameservers: tuple[Address, ...] = ()
    """Addresses of the name servers; left out, what DHCP says."""
    search_domains: tuple[Host, ...] = ()
    """Domains in which short names are looked up."""
    ntp_servers: tuple[Host, ...] = ()
    """Time servers; left out, time.cloudflare.com. A machine that gets no time does not start."""
    proxy: Proxy | None = None
    """The proxy through which images are pulled."""


class Registry(Section):
    """How machines log in to a registry or mirror, and whose certificates they take from it."""

    username: _UserName | None = None
    """Name to log in with; the password stands under the same host in hybrid-talos:registryPasswords."""
    ca: Annotated[str, AfterValidator(certificate)] | None = None
    """Certificate (PEM) of the authority that signed the registry's own."""


class ComponentImages(Section):
    """Images of Kubernetes that another distribution of Talos, or a closed site, has under names of its own."""

    registry: Annotated[str, AfterValidator(image_folder)]
    """Registry and folder of the kubelet and of Kubernetes' own images, such as registry.example.com/k8s."""
    etcd: Annotated[str, AfterValidator(image_reference)] | None = None
    """Image of etcd, with its tag."""
    coredns: Annotated[str, AfterValidator(image_reference)] | None = None
    """Image of CoreDNS, with its tag."""
