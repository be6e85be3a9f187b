"""Schematics, what the Image Factory makes an image of: their canonical YAML and their ids.

Pure functions. The id of a schematic is the SHA-256 of its canonical YAML, so it is known before the
factory is ever asked (siderolabs/image-factory pkg/schematic/schematic.go).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

EXTENSION_PATTERN = r"^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$"

# siderolabs/image-factory internal/profile/profile.go, ExtensionNameAlias. The factory still serves the old
# names, but the id is a hash of the name as written.
RENAMED_EXTENSIONS = {
    "siderolabs/amdgpu-firmware": "siderolabs/amdgpu",
    "siderolabs/gasket": "siderolabs/gasket-driver",
    "siderolabs/i915-ucode": "siderolabs/i915",
    "siderolabs/nonfree-kmod-nvidia": "siderolabs/nonfree-kmod-nvidia-lts",
    "siderolabs/nvidia-container-toolkit": "siderolabs/nvidia-container-toolkit-lts",
    "siderolabs/nvidia-fabricmanager": "siderolabs/nvidia-fabricmanager-lts",
    "siderolabs/nvidia-open-gpu-kernel-modules": "siderolabs/nvidia-open-gpu-kernel-modules-lts",
    "siderolabs/talos-vmtoolsd": "siderolabs/vmtoolsd-guest-agent",
    "siderolabs/usb-modem": "siderolabs/usb-modem-drivers",
    "siderolabs/v4l-uvc": "siderolabs/v4l-uvc-drivers",
    "siderolabs/xe-guest-utilities": "siderolabs/xen-guest-agent",
}

# Words and numbers that go-yaml (its resolver) would read back as something else than a string, and therefore writes
# between double quotes.
_RESOLVED = re.compile(
    r"""^(
        | ~ | null | Null | NULL
        | true | True | TRUE | false | False | FALSE
        | ([-+]_*)?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9][0-9_]*)?
        | [-+]?\.(inf|Inf|INF) | \.(nan|NaN|NAN)
        | \d{4}-\d{1,2}-\d{1,2}([Tt\ ]\d.*)?
    )$""",
    re.VERBOSE,
)
# The same, for numbers; go-yaml takes `_` out of them first.
_WHOLE_NUMBER = re.compile(r"^[-+]?0([bB][01]{1,64}|[oO][0-7]{1,22}|[xX][0-9a-fA-F]{1,16})$")
# What YAML 1.1 took for truth values, for numbers to the base of 60, and for a merge: between quotes everywhere, but
# between other ones from one release of go-yaml to the next, and so of the factory.
_LEGACY = re.compile(
    r"^(y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF|<<|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)$"
)
# libyaml's emitter (yaml_emitter_analyze_scalar): what cannot stand without quotes in block context.
_NEEDS_QUOTES = re.compile(r"""^[\#,\[\]{}&*!|>'"%@`]|^[-?](\s|$)|^---|^\.\.\.|:(\s|$)|\s\#|^\s|\s$""")
_INDENT = 4


class MetaValue(NamedTuple):
    """One initial value of Talos' META partition."""

    key: int
    """Number of the key, 0 to 255; 10 is the metal platform's network configuration."""
    value: str
    """Value: printable ASCII, in one line or several."""


class Overlay(NamedTuple):
    """The overlay of a single-board computer."""

    name: str
    """Name of the overlay, such as `rpi_generic`."""
    image: str
    """Image that holds it, such as `siderolabs/sbc-raspberrypi`."""
    options: tuple[tuple[str, str], ...] = ()
    """Options of the overlay by name, such as `configTxtAppend`."""


def current_extensions(names: Iterable[str]) -> tuple[str, ...]:
    """Return the extensions under today's names, sorted, each once.

    The factory hashes the list as it is written: without one order and one spelling the id would change
    with the order of the input.
    """
    return tuple(sorted({RENAMED_EXTENSIONS.get(name, name) for name in names}))


def schematic_yaml(
    extensions: Iterable[str] = (),
    extra_kernel_args: Sequence[str] = (),
    *,
    meta: Sequence[MetaValue] = (),
    overlay: Overlay | None = None,
    enroll_keys: str = "",
    well_known_certificates: bool = False,
    sector_size: int | None = None,
) -> str:
    """Return the canonical YAML of a schematic, byte for byte as the factory writes it.

    Lists keep their order: give extensions through current_extensions(). Raises ValueError for text whose
    canonical form is not certain: anything but printable ASCII in whole lines.
    """
    lines: list[str] = []
    if overlay is not None:
        lines += ["overlay:", *_pair(1, "image", overlay.image), *_pair(1, "name", overlay.name)]
        if overlay.options:
            lines += [f"{_space(1)}options:", *_options(dict(overlay.options))]
    body: list[str] = []
    if extra_kernel_args:
        body += [f"{_space(1)}extraKernelArgs:", *(f"{_space(2)}- {_one_line(arg)}" for arg in extra_kernel_args)]
    if meta:
        body.append(f"{_space(1)}meta:")
        for key, value in meta:
            body += [f"{_space(2)}- key: {key}", *_pair(2, "value", value, margin="  ")]
    names = list(extensions)
    if names:
        body += [f"{_space(1)}systemExtensions:", f"{_space(2)}officialExtensions:"]
        body += [f"{_space(3)}- {_one_line(name)}" for name in names]
    if enroll_keys or well_known_certificates:
        body.append(f"{_space(1)}secureboot:")
        body += [f"{_space(2)}enrollKeys: {_one_line(enroll_keys)}"] if enroll_keys else []
        body += [f"{_space(2)}includeWellKnownCertificates: true"] if well_known_certificates else []
    if sector_size is not None:
        body += [f"{_space(1)}diskImage:", f"{_space(2)}sectorSize: {sector_size}"]
    lines += ["customization:", *body] if body else ["customization: {}"]
    return "\n".join(lines) + "\n"


def schematic_id(canonical_yaml: str) -> str:
    """Return the id that the factory gives to a schematic: 64 hexadecimal digits."""
    return hashlib.sha256(canonical_yaml.encode()).hexdigest()


def _space(level: int) -> str:
    return " " * (_INDENT * level)


def _options(options: Mapping[str, str]) -> list[str]:
    return [line for key in sorted(options) for line in _pair(2, _one_line(key), options[key])]


def _pair(level: int, key: str, value: str, margin: str = "") -> list[str]:
    """Return the lines of one key and its text; ``margin`` is what a list adds to the indentation."""
    before = _space(level) + margin
    if "\n" not in value:
        return [f"{before}{key}: {_one_line(value)}"]
    lines = value.removesuffix("\n").split("\n")
    for line in lines:
        if not (line.isascii() and (line.isprintable() or not line)) or line.endswith(" "):
            raise ValueError("must be printable ASCII; of several lines, none may end in white space")
    if not lines[0].strip() or lines[0].startswith(" ") or not lines[-1]:
        raise ValueError("must begin with its first line and end with its last: no white space around it")
    mark = "|" if value.endswith("\n") else "|-"
    inside = _space(level + 1)
    return [f"{before}{key}: {mark}", *(f"{inside}{line}" if line else "" for line in lines)]


def _one_line(text: str) -> str:
    if not (text.isascii() and (text.isprintable() or not text)):
        raise ValueError("must be one line of printable ASCII")
    if _LEGACY.match(text):
        raise ValueError(
            f"'{text}' alone is written differently by different releases of the factory; say it otherwise"
        )
    if _RESOLVED.match(text) or (text[:1] != "_" and _WHOLE_NUMBER.match(text.replace("_", ""))):
        return f'"{text}"'
    if _NEEDS_QUOTES.search(text):
        return "'" + text.replace("'", "''") + "'"
    return text
