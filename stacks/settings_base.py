"""The base of every section of the settings, and the kinds of text that stand in them.

A validator here never puts the text it refuses into its message, unless that text has proved to be an
address, a range, a number or a name: somebody may have pasted a secret into the wrong key.
"""

import re
from collections.abc import Callable, Mapping
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

import yaml
from hybrid_talos.address_plan import parse_network
from hybrid_talos.versions import minor, normalise_version
from hybrid_talos.versions import text as minor_text
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

S = TypeVar("S")
T = TypeVar("T")

SECRET_IN_SETTINGS = (
    "a secret does not belong in hybrid-talos:settings, which can be read in the state: remove it here, "
    "treat it as known to others if this file was shared, and use"
)


class UnparsedError(Exception):
    """A field was asked for that did not parse; rules that need it have nothing to say."""


def part(whole: S, get: Callable[[S], T]) -> T | None:
    """Return what ``get`` finds in ``whole``, or None when it needs a field that did not parse."""
    try:
        return get(whole)
    except UnparsedError:
        return None


class Section(BaseModel):
    """One mapping of the settings: strict, frozen, with camelCase keys and no others."""

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    if not TYPE_CHECKING:
        # Of a file with problems, the fields that do parse are still checked against each other. The
        # error is no AttributeError, which a property would turn into one about the property itself.
        def __getattr__(self, name):
            if name in type(self).model_fields:
                raise UnparsedError(name)
            return super().__getattr__(name)


def trimmed(value: str) -> str:
    """Refuse text with white space around it, such as the line break that `echo` adds."""
    if value != value.strip():
        raise ValueError("has white space around it: remove the blank or line break")
    if not value:
        raise ValueError("must not be empty")
    return value


def form(pattern: str, expected: str, longest: int = 255) -> AfterValidator:
    """Return a validator for text of one form; ``expected`` completes the sentence that starts with `must`."""
    compiled = re.compile(pattern, re.ASCII)

    def check(value: str) -> str:
        if not compiled.fullmatch(trimmed(value)):
            raise ValueError(f"must {expected}")
        if len(value) > longest:
            raise ValueError(f"has {len(value)} characters: at most {longest} are possible")
        return value

    return AfterValidator(check)


def _quoted(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 - pydantic turns only ValueError into a problem
            "is a number here, because YAML drops the last zero of a version that is not in quotes "
            '(1.30 becomes 1.3): put the version in quotes, such as "1.30.4"'
        )
    return value


def _version(value: str) -> str:
    return normalise_version(trimmed(value))


def _contract(value: str) -> str:
    return minor_text(minor(trimmed(value)))


def _network(value: Any) -> Any:
    if isinstance(value, str):
        parse_network(trimmed(value))
    return value


def _address(value: Any) -> Any:
    if isinstance(value, str):
        try:
            IPv4Address(trimmed(value))
        except AddressValueError:
            raise ValueError("must be an IPv4 address such as 192.0.2.11, without a prefix length") from None
    return value


_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def host(value: str) -> str:
    """Return a bare host name or IPv4 address in lower case; ValueError says what there is too much."""
    if "://" in trimmed(value):
        raise ValueError("must be a bare host name or address, without a scheme such as https://")
    if "/" in value:
        raise ValueError("must be a bare host name or address, without a path")
    if ":" in value:
        raise ValueError("must be a bare IPv4 address or host name, without a port")
    labels = value.lower().split(".")
    if labels[-1].isdecimal():
        return str(_address(value))
    if len(value) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("must be a host name of letters, digits, hyphens and dots, or an IPv4 address")
    return value.lower()


def _host_port(value: str) -> str:
    name, colon, port = trimmed(value).partition(":")
    if colon and "://" not in value and not (port.isdecimal() and 1 <= int(port) <= 65535):
        raise ValueError("must be a host, or host:port with a port from 1 to 65535")
    return host(value if "://" in value else name) + colon + port


def url(value: str) -> str:
    """Return an http or https address of a server; ValueError when it is none or holds credentials."""
    try:
        parts = urlsplit(trimmed(value))
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or re.search(r"\s", value):
        raise ValueError("must be an address that starts with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"must not hold a user name or password: {SECRET_IN_SETTINGS} a key of its own")
    if parts.query or parts.fragment:
        raise ValueError("must end with the path: no ? and no #")
    return value.rstrip("/")


def _trusted_url(value: str) -> str:
    checked = url(value)
    name = urlsplit(checked).hostname or ""
    if checked.startswith("http://") and name != "localhost" and not name.startswith("127."):
        raise ValueError("must start with https://: what comes from there is not signed (http is for loopback only)")
    return checked


_SECRET_IN_PATCH = re.compile(r"(password|secret|token|auth|privatekey|identitytoken)$", re.ASCII)


def _secrets_of(node: Any) -> set[str]:
    """Return the keys anywhere in a patch that hold a secret by their name or by a PEM key as their value."""
    if isinstance(node, Mapping):
        own = {
            str(key)
            for key, value in node.items()
            if isinstance(value, str) and (_SECRET_IN_PATCH.search(str(key).lower()) or "PRIVATE KEY-----" in value)
        }
        return own.union(*(_secrets_of(value) for value in node.values()))
    if isinstance(node, list):
        return set().union(*(_secrets_of(item) for item in node))
    return set()


def _patch(value: Any) -> Any:
    if isinstance(value, Mapping):
        documents: list[Any] = [value]
        value = yaml.safe_dump(dict(value), sort_keys=False)
    elif isinstance(value, str):
        try:
            documents = [document for document in yaml.safe_load_all(value) if document is not None]
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f" at its line {mark.line + 1}" if mark else ""
            # Without the cause: a YAML error quotes the text around the fault.
            raise ValueError(f"must be a Talos patch in YAML, but does not parse{where}") from None
    else:
        return value
    if not documents or not all(isinstance(document, Mapping) for document in documents):
        raise ValueError(
            "must be a strategic-merge patch, which is a mapping such as {machine: {...}}: Talos refuses lists of "
            "JSON-patch operations for a config of several documents"
        )
    found = sorted(_secrets_of(documents))
    if found:
        raise ValueError(f"holds {', '.join(found)}: {SECRET_IN_SETTINGS} a patch from secret config in a program")
    return value


Version = Annotated[str, BeforeValidator(_quoted), AfterValidator(_version)]
"""A version in quotes, normalised to three numbers without a leading `v`."""
Contract = Annotated[str, BeforeValidator(_quoted), AfterValidator(_contract)]
"""A minor version in quotes, normalised to two numbers."""
Network = Annotated[IPv4Network, BeforeValidator(_network)]
"""An IPv4 range whose host bits are zero."""
Address = Annotated[IPv4Address, BeforeValidator(_address)]
"""An IPv4 address."""
Host = Annotated[str, AfterValidator(host)]
"""A bare host name or IPv4 address."""
HostPort = Annotated[str, AfterValidator(_host_port)]
"""A host name or IPv4 address, with a port if it differs from the default."""
Url = Annotated[str, AfterValidator(url)]
"""An http or https address without credentials."""
TrustedUrl = Annotated[str, AfterValidator(_trusted_url)]
"""An https address; http only on loopback."""
Patch = Annotated[str, BeforeValidator(_patch)]
"""A Talos strategic-merge patch, as text of YAML or as a mapping; always text afterwards."""
Name = Annotated[
    str,
    form(
        r"[a-z]([a-z0-9-]*[a-z0-9])?",
        "start with a lower-case letter, hold only lower-case letters, digits and hyphens, and not end with a hyphen",
        32,
    ),
]
"""A short name that goes into the names of resources and nodes."""
HostName = Annotated[
    str, form(_LABEL.pattern, "be a host name of lower-case letters, digits and hyphens, at most 63 long", 63)
]
"""The name of a machine, one label of RFC 1123."""
Uuid = Annotated[
    str,
    form(
        r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
        "be an id of the form 00000000-0000-0000-0000-000000000000",
    ),
]
"""An id of a subscription, tenant, application or principal."""
