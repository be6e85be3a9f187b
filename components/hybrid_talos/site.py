"""What the network around machines that exist asks of them: name servers, clocks, a proxy.

These are of one place, so machines of a cloud's pools never get them; a pool has patches of its own.
"""

import re
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address
from typing import Annotated, Any, NotRequired, TypedDict
from urllib.parse import quote, urlsplit

import pulumi
from pydantic import AfterValidator, Field, model_validator

from ._contract import Shape
from .cluster_endpoint import host_problem
from .talos_yaml import Document


class ProxyArgs(TypedDict):
    """The proxy through which machines reach the outside."""

    url: str
    """Address of the proxy, such as `http://proxy.example.com:3128`, without credentials."""
    username: NotRequired[str]
    """Name to log in with; needs `password`."""
    password: NotRequired[pulumi.Input[str]]
    """Password to log in with. Treated as a secret."""
    no_proxy: NotRequired[Sequence[str]]
    """Further names, domains (`.example.com`), addresses and ranges that are reached directly. The cluster's own are
    always among them: its endpoint, machines, pods and services."""


class SiteArgs(TypedDict):
    """What the network around the machines asks of them."""

    nameservers: NotRequired[Sequence[str]]
    """IPv4 addresses of the name servers. Left out: what DHCP says, else 1.1.1.1 and 8.8.8.8."""
    search_domains: NotRequired[Sequence[str]]
    """Domains in which short names are looked up."""
    ntp_servers: NotRequired[Sequence[str]]
    """Names or addresses of the time servers. Left out: time.cloudflare.com. A machine that gets no time does not
    start."""
    proxy: NotRequired[ProxyArgs]
    """The proxy through which images are pulled and the outside is reached."""


def proxy_url(value: str) -> str:
    """Return the address of a proxy; ValueError when it is none or holds credentials."""
    try:
        parts = urlsplit(value)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine or parts.path.rstrip("/") or parts.query or parts.fragment or any(sign.isspace() for sign in value):
        raise ValueError("must have the form http://host:port or https://host:port")
    if "@" in parts.netloc:
        raise ValueError("must not hold credentials: give username and password apart from it")
    return value.rstrip("/")


def _host(value: str) -> str:
    problem = host_problem(value)
    if problem:
        raise ValueError(problem)
    return value


def _address(value: str) -> str:
    try:
        return str(IPv4Address(value))
    except ValueError:
        raise ValueError("must be an IPv4 address, such as 192.0.2.53") from None


def direct(value: str) -> str:
    """Return an entry of no_proxy; ValueError when it is none."""
    if not re.fullmatch(r"\*|\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(:[0-9]{1,5})?(/[0-9]{1,2})?", value):
        raise ValueError("must be a name, a domain such as .example.com, an address or a range")
    return value


class ProxyShape(Shape):
    """The checked form of ProxyArgs."""

    url: Annotated[str, AfterValidator(proxy_url)]
    username: str | None = Field(default=None, min_length=1)
    password: Any = None
    no_proxy: tuple[Annotated[str, AfterValidator(direct)], ...] = ()

    @model_validator(mode="after")
    def _complete(self) -> "ProxyShape":
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password go together: give both or none")
        if self.password == "":
            raise ValueError("password: is empty")
        return self

    def variables(self, own: Iterable[str], password: str | None) -> dict[str, str]:
        """Return the environment of every service; ``own`` are the cluster's names and addresses."""
        url = self.url
        if self.username is not None:
            scheme, _, rest = url.partition("://")
            url = f"{scheme}://{quote(self.username, safe='')}:{quote(password or '', safe='')}@{rest}"
        direct_ones = ["localhost", "127.0.0.1", ".svc", ".cluster.local", *own, *self.no_proxy]
        return {"http_proxy": url, "https_proxy": url, "no_proxy": ",".join(dict.fromkeys(direct_ones))}


class SiteShape(Shape):
    """The checked form of SiteArgs."""

    nameservers: tuple[Annotated[str, AfterValidator(_address)], ...] = ()
    search_domains: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    ntp_servers: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    proxy: ProxyShape | None = None

    @property
    def password(self) -> Any:
        """Return the proxy's password, which may be an output, or None."""
        return None if self.proxy is None else self.proxy.password

    def documents(
        self, *, documents: bool, environment_document: bool, own: Iterable[str], password: str | None
    ) -> list[Document]:
        """Return the patch for machines of the site; it is a secret with a ``password`` in it.

        ``documents`` tells whether the configuration has documents of their own for networks and clocks (Talos 1.12),
        ``environment_document`` whether it has one for variables (1.13). ``own`` are the cluster's names and
        addresses.
        """
        found: list[Document] = []
        machine: dict[str, Any] = {}
        network: dict[str, Any] = {}
        if self.nameservers:
            network["nameservers"] = list(self.nameservers)
        if self.search_domains:
            network["searchDomains"] = list(self.search_domains)
        if documents:
            if network:
                found.append(_resolver(self.nameservers, self.search_domains))
            if self.ntp_servers:
                ntp = {"servers": list(self.ntp_servers)}
                found.append({"apiVersion": "v1alpha1", "kind": "TimeSyncConfig", "ntp": ntp})
        else:
            machine |= {"network": network} if network else {}
            machine |= {"time": {"servers": list(self.ntp_servers)}} if self.ntp_servers else {}
        if self.proxy is not None:
            variables = self.proxy.variables(own, password)
            if environment_document:
                found.append({"apiVersion": "v1alpha1", "kind": "EnvironmentConfig", "variables": variables})
            else:
                machine["env"] = variables
        return [*([{"machine": machine}] if machine else []), *found]


def secret_or_none(value: Any) -> Any:
    """Return a value as a secret, or None where there is none, which is no secret."""
    return None if value is None else pulumi.Output.secret(value)


def _resolver(nameservers: Sequence[str], search_domains: Sequence[str]) -> Document:
    document: Document = {"apiVersion": "v1alpha1", "kind": "ResolverConfig"}
    if nameservers:
        document["nameservers"] = [{"address": address} for address in nameservers]
    if search_domains:
        document["searchDomains"] = {"domains": list(search_domains)}
    return document
