"""Resources as the bridged provider of Alibaba Cloud treats them, whatever their type.

Sources: aliyun/terraform-provider-alicloud alicloud/resource_alicloud_<type>.go (which inputs replace, defaults,
ranges),
pulumi/pulumi-terraform-bridge pkg/tfbridge/provider.go, schema.go and names.go (Check fills in defaults and generated
names, Create and Update in a preview, refresh). A resource belongs to the region of the provider instance that made it.
"""

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .. import sdk_schema
from ..provider import Call, Kind
from ..sdk_schema import UNKNOWN, Problem
from ..world import CloudError, Record, World

PACKAGE = "alicloud"
ACCOUNT = "1234567890123456"
"""The id of the lab's only Alibaba Cloud account."""

Doc = dict[str, Any]


@dataclass(frozen=True)
class Attr:
    """What the provider's schema says of one input."""

    replaces: bool = False
    """``ForceNew``: another value is another resource."""
    computed: bool = False
    """The cloud fills it in when the program does not."""
    default: Any = None
    choices: tuple[Any, ...] = ()
    between: tuple[int, int] | None = None
    length: tuple[int, int] | None = None
    pattern: str = ""
    hint: str = ""
    conflicts: tuple[str, ...] = ()
    is_json: bool = False
    is_set: bool = False
    """The order of the elements says nothing."""
    most: int | None = None
    nested: Mapping[str, "Attr"] = field(default_factory=dict)
    """The schema of each element of a list of blocks, or of a single block."""

    def problems(self, path: str, value: Any) -> Iterator[Problem]:
        """Yield what the provider's own validation finds; unknown values pass."""
        if value is UNKNOWN or value is None:
            return
        yield from self._scalar(path, value)
        if isinstance(value, list):
            if self.most is not None and len(value) > self.most:
                yield Problem(path, f"Too many items: no more than {self.most} are supported, got {len(value)}")
            for index, item in enumerate(value):
                yield from self._block(f"{path}[{index}]", item)
        else:
            yield from self._block(path, value)

    def _scalar(self, path: str, value: Any) -> Iterator[Problem]:
        if isinstance(value, list | Mapping):
            return
        if self.choices and value not in self.choices:
            yield Problem(path, f"expected {path} to be one of {list(self.choices)}, got {value}")
        if self.between is not None and not self.between[0] <= int(value) <= self.between[1]:
            yield Problem(
                path, f"expected {path} to be in the range ({self.between[0]} - {self.between[1]}), got {value}"
            )
        if self.length is not None and not self.length[0] <= len(str(value)) <= self.length[1]:
            yield Problem(
                path, f"expected length of {path} to be in the range ({self.length[0]} - {self.length[1]}), got {value}"
            )
        if self.pattern and not re.search(self.pattern, str(value)):
            yield Problem(path, f"invalid value for {path} ({self.hint})")
        if self.is_json and not is_json(value):
            yield Problem(path, f'"{path}" contains an invalid JSON')

    def _block(self, path: str, item: Any) -> Iterator[Problem]:
        if isinstance(item, Mapping):
            for name, attr in self.nested.items():
                yield from attr.problems(f"{path}.{name}", item.get(name))


PLAIN = Attr()
"""An input that may change in place and that nothing but its type is known of."""
FIXED = Attr(replaces=True)
FILLED = Attr(computed=True)


def one_of(*choices: Any, **more: Any) -> Attr:
    """Return an input with a fixed list of values."""
    return Attr(choices=choices, **more)


def whole(first: int, last: int, **more: Any) -> Attr:
    """Return an input that is a whole number in a range."""
    return Attr(between=(first, last), **more)


def is_json(text: Any) -> bool:
    """Say whether a text is JSON."""
    try:
        json.loads(text)
    except (TypeError, ValueError):
        return False
    return True


def region_of(call: Call) -> str:
    """Return the region that the provider instance of a call works in."""
    region = call.config.get("region")
    if not isinstance(region, str) or not region:
        raise CloudError("MissingRegionId", "The provider has no region: set the input 'region' of alicloud.Provider.")
    return region


def outputs(doc: Mapping[str, Any]) -> Doc:
    """Return what the cloud answers about a record: all but the lab's own notes."""
    return {key: value for key, value in doc.items() if not key.startswith("_")}


def lookup(world: World, kind: str, id: Any, region: str | None = None) -> Record | None:
    """Return the record with an id, or None when there is none or it lies in another region."""
    if not isinstance(id, str):
        return None
    doc = world.get(PACKAGE, kind, id)
    if doc is None or (region is not None and doc.get("_region") not in (None, region)):
        return None
    return Record(PACKAGE, kind, id, doc)


def find(world: World, kind: str, **where: Any) -> list[Record]:
    """Return the records of a kind whose documents hold all of ``where``."""
    return world.find(PACKAGE, kind, **where)


def not_found(code: str, what: str, id: Any) -> CloudError:
    """Return the refusal of something that is not there, or not in this region."""
    return CloudError(code, f"The specified {what} does not exist: {id}.")


class BridgedKind(Kind):
    """A resource type of the bridged provider. Subclasses give its schema and say what the cloud does."""

    attrs: ClassVar[Mapping[str, Attr]]
    prefix: ClassVar[str] = ""
    """What ids of this type begin with."""
    generated_name: ClassVar[str] = ""
    """The input that the bridge fills with a name of its own when the program gives none."""
    exactly_one: ClassVar[tuple[tuple[str, ...], ...]] = ()
    at_least_one: ClassVar[tuple[tuple[str, ...], ...]] = ()
    global_: ClassVar[bool] = False
    """Whether the resource belongs to the account and not to a region."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Read what replaces from the schema."""
        super().__init_subclass__(**more)
        if "attrs" in cls.__dict__:
            cls.replace_on = frozenset(name for name, attr in cls.attrs.items() if attr.replaces)

    @property
    def kind(self) -> str:
        """The records' kind: the type's short name."""
        return self.token.rsplit(":", 1)[-1]

    # -- before the cloud is asked ----------------------------------------------------------------------------

    def defaults(self, call: Call, inputs: Doc, old: Mapping[str, Any]) -> Doc:
        """Fill in the schema's defaults, also those in blocks, and a generated name."""
        filled: Doc = {}
        for name, attr in self.attrs.items():
            if inputs.get(name) is None:
                if attr.default is not None and not any(inputs.get(other) is not None for other in attr.conflicts):
                    filled[name] = attr.default
            elif attr.nested and isinstance(inputs[name], list):
                filled[name] = [_with_defaults(item, attr.nested) for item in inputs[name]]
        name = self.generated_name
        if name and inputs.get(name) is None:
            filled[name] = old.get(name) or f"{call.name}-{secrets.token_hex(4)[:7]}"
        return filled

    def check(self, call: Call, inputs: Doc) -> Iterable[Problem]:
        """Check what the provider checks itself."""
        for name, attr in self.attrs.items():
            value = inputs.get(name)
            yield from attr.problems(name, value)
            for other in attr.conflicts:
                if value is not None and inputs.get(other) is not None:
                    yield Problem(name, f'Conflicting configuration arguments: "{name}": conflicts with {other}')
        for group in self.exactly_one:
            given = [name for name in group if inputs.get(name) is not None]
            if len(given) != 1:
                yield Problem(group[0], f"exactly one of {', '.join(group)} must be specified, got {len(given)}")
        for group in self.at_least_one:
            if all(inputs.get(name) is None for name in group):
                yield Problem(group[0], f"one of {', '.join(group)} must be specified")

    def comparable(self, call: Call, inputs: Doc) -> Doc:
        """Put the elements of sets in one order."""
        result = dict(inputs)
        for name, attr in self.attrs.items():
            value = inputs.get(name)
            if attr.is_set and isinstance(value, list):
                result[name] = sorted(value, key=repr)
        return result

    def preview(self, call: Call, inputs: Doc, outputs: frozenset[str]) -> Doc:
        """Return the inputs; what the cloud fills in is unknown, other inputs that are not given have no value."""
        schema = sdk_schema.resource(self.token)
        known = schema.inputs if schema else {}
        unknown = {
            name: UNKNOWN for name in outputs if name not in known or (name in self.attrs and self.attrs[name].computed)
        }
        return unknown | {key: value for key, value in inputs.items() if value is not None}

    def preview_update(self, call: Call, state: Doc, inputs: Doc) -> Doc:
        """Return the new inputs and what the cloud filled in before, which stays."""
        return self._kept(state) | {key: value for key, value in inputs.items() if value is not None}

    def _kept(self, state: Mapping[str, Any]) -> Doc:
        schema = sdk_schema.resource(self.token)
        known = schema.inputs if schema else {}
        return {
            key: value
            for key, value in state.items()
            if key not in known or (key in self.attrs and self.attrs[key].computed)
        }

    # -- the cloud --------------------------------------------------------------------------------------------

    def create(self, call: Call, inputs: Doc) -> tuple[str, Doc]:
        """Make the resource in the provider's region."""
        with call.world.transaction():
            doc = {key: value for key, value in inputs.items() if value is not None and not key.startswith("__")}
            if not self.global_:
                doc["_region"] = region_of(call)
            id = self._id(call, doc)
            self._rules(call, id, doc, None)
            call.world.put(PACKAGE, self.kind, id, doc)
            self._done(call, id, doc, None)
        return id, self._answer(call, id, doc)

    def read(self, call: Call, id: str, state: Doc) -> Doc | None:
        """Return the resource as it is now."""
        record = self._record(call, id)
        return None if record is None else self._answer(call, id, record.doc)

    def update(self, call: Call, id: str, state: Doc, inputs: Doc) -> Doc:
        """Change the resource; what the cloud filled in stays as it is."""
        with call.world.transaction():
            record = self._record(call, id)
            if record is None:
                raise not_found(f"Invalid{self.kind}.NotFound", self.kind, id)
            notes = {key: value for key, value in record.doc.items() if key.startswith("_")}
            given = {key: value for key, value in inputs.items() if value is not None and not key.startswith("__")}
            doc = self._kept(record.doc) | notes | given
            self._rules(call, id, doc, record.doc)
            call.world.put(PACKAGE, self.kind, id, doc)
            self._done(call, id, doc, record.doc)
        return self._answer(call, id, doc)

    def delete(self, call: Call, id: str, state: Doc) -> None:
        """Remove the resource, unless something uses it."""
        with call.world.transaction():
            record = self._record(call, id)
            if record is not None:
                self._before_delete(call, record)
                call.world.remove(PACKAGE, self.kind, id)

    def _record(self, call: Call, id: str) -> Record | None:
        return lookup(call.world, self.kind, id, None if self.global_ else region_of(call))

    def _id(self, call: Call, doc: Doc) -> str:
        return call.world.new_id(self.prefix)

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        """Refuse what the cloud refuses, and put into ``doc`` what the cloud fills in."""

    def _done(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        """Do what follows once the resource is as ``doc`` says."""

    def _before_delete(self, call: Call, record: Record) -> None:
        """Refuse to remove what is in use."""

    def _answer(self, call: Call, id: str, doc: Doc) -> Doc:
        return outputs(doc)


def _with_defaults(item: Any, attrs: Mapping[str, Attr]) -> Any:
    if not isinstance(item, Mapping):
        return item
    missing = {
        name: attr.default for name, attr in attrs.items() if attr.default is not None and item.get(name) is None
    }
    return {**item, **missing}
