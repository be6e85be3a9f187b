"""Resources as Azure Resource Manager and the azure-native provider treat them, whatever their type.

Sources: pulumi/pulumi-azure-native provider/pkg/provider/provider.go (defaults, Check, Create, previews of updates),
provider/pkg/resources/resources.go (AutoNamer), provider/pkg/gen/replacement.go and properties.go (what replaces).
"""

import secrets
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

from .. import sdk_schema
from ..provider import Call, Kind
from ..sdk_schema import UNKNOWN, Problem
from ..world import CloudError, Record, World
from . import names
from .records import PACKAGE, Doc, group_of, lookup, name_of, outputs, subscription

CREATE_BEFORE_DELETE = "__createBeforeDelete"
"""The provider's mark on inputs with a random name: a replacement is made before the old resource goes."""


class ArmKind(Kind):
    """A resource type under a subscription or resource group.

    A subclass says which names, parents and rules its type has; what the rules of a type refuse they refuse in
    ``_rules``, and ``_computed`` adds what only Azure knows.
    """

    arm_type: ClassVar[str]
    """Resource type in ids, such as ``Microsoft.Network/virtualNetworks/subnets``."""
    api_version: ClassVar[str]
    name_input: ClassVar[str]
    """The input that names the resource."""
    parents: ClassVar[tuple[str, ...]] = ()
    """Inputs that name the resources around it, outermost first, below the resource group."""
    naming: ClassVar[Literal["random", "copy", "uuid"]] = "random"
    """How the provider names it when the program does not: top-level ones get a suffix, children a copy."""
    name_rule: ClassVar[names.NameRule]
    located: ClassVar[bool] = True
    location_required: ClassVar[bool] = True
    """True where the API's specification requires a location, so that the provider's Check asks for it."""
    lengths: ClassVar[Mapping[str, tuple[int, int]]] = {}
    """Shortest and longest length of inputs that the provider's own Check enforces."""
    longest_tag_name: ClassVar[int] = 512
    schema_defaults: ClassVar[Mapping[str, Any]] = {}
    """Values that Azure fills in when the program gives none."""

    @property
    def kind(self) -> str:
        """The records' kind: the type's short name."""
        return self.token.rsplit(":", 1)[-1]

    # -- before the cloud is asked ----------------------------------------------------------------------------

    def defaults(self, call: Call, inputs: Doc, old: Mapping[str, Any]) -> Doc:
        """Fill in the name and the location, in the real provider's order of preference."""
        filled: Doc = {}
        if inputs.get(self.name_input) is None:
            filled |= self._default_name(call, old)
        if self.located and inputs.get("location") is None:
            location = self._default_location(call, inputs, old)
            if location is not None:
                filled["location"] = location
        return filled

    def _default_name(self, call: Call, old: Mapping[str, Any]) -> Doc:
        if old.get(self.name_input) is not None:
            mark = {CREATE_BEFORE_DELETE: True} if old.get(CREATE_BEFORE_DELETE) else {}
            return {self.name_input: old[self.name_input]} | mark
        if self.naming == "copy":
            return {self.name_input: call.name}
        name = str(uuid.uuid4()) if self.naming == "uuid" else f"{call.name}{secrets.token_hex(4)}"
        return {self.name_input: name, CREATE_BEFORE_DELETE: True}

    def _default_location(self, call: Call, inputs: Doc, old: Mapping[str, Any]) -> Any:
        if old.get("location") is not None:
            return old["location"]
        if call.config.get("location"):
            return call.config["location"]
        group = inputs.get("resourceGroupName")
        if group is UNKNOWN:
            return UNKNOWN
        if not isinstance(group, str):
            return None
        record = lookup(call.world, "ResourceGroup", self._group_id(call, group))
        return record.doc["location"] if record else None

    def check(self, call: Call, inputs: Doc) -> Iterable[Problem]:
        """Check lengths and the location, which the API's specification tells the provider about."""
        lengths = {"resourceGroupName": (1, 90), **self.lengths}
        for key, (shortest, longest) in lengths.items():
            value = inputs.get(key)
            if not isinstance(value, str):
                continue
            if len(value) < shortest:
                yield Problem(key, f"'{key}' is too short ({len(value)}): at least {shortest} characters required")
            if len(value) > longest:
                yield Problem(key, f"'{key}' is too long ({len(value)}): at most {longest} characters allowed")
        if self.located and self.location_required and inputs.get("location") is None:
            yield Problem(
                "location",
                "missing required property 'location'. Either set it explicitly or configure it with "
                "'pulumi config set azure-native:location <value>'.",
            )

    def preview(self, call: Call, inputs: Doc, outputs: frozenset[str]) -> Doc:
        """Return the inputs that are outputs too; all else is unknown."""
        known = self._schema_outputs()
        return dict.fromkeys(known, UNKNOWN) | {key: value for key, value in inputs.items() if key in known}

    def preview_update(self, call: Call, state: Doc, inputs: Doc) -> Doc:
        """Return what a first preview knows, and the name and location, which never change."""
        stable = {key: state[key] for key in ("name", "location") if key in state}
        return self.preview(call, inputs, self._schema_outputs()) | stable

    def comparable(self, call: Call, inputs: Doc) -> Doc:
        """Make locations equal that differ by case and blanks only (provider/pkg/provider/diff.go)."""
        if isinstance(inputs.get("location"), str):
            return inputs | {"location": names.normalise_location(inputs["location"])}
        return inputs

    def goes_first(self, call: Call, old: Doc, new: Doc) -> bool:
        """Delete before replacing, but where the old name was generated at random."""
        return not old.get(CREATE_BEFORE_DELETE)

    # -- the cloud --------------------------------------------------------------------------------------------

    def create(self, call: Call, inputs: Doc) -> tuple[str, Doc]:
        """Make the resource; refuse when it exists, as the provider does before it writes."""
        with call.world.transaction():
            id = self.id_of(call, inputs)
            if lookup(call.world, self.kind, id) is not None:
                raise CloudError("ResourceExists", f"cannot create already existing resource '{id}'")
            doc = self._put(call, id, inputs, None)
        return id, outputs(doc)

    def read(self, call: Call, id: str, state: Doc) -> Doc | None:
        """Return the resource as it is now."""
        record = lookup(call.world, self.kind, id)
        return None if record is None else outputs(record.doc)

    def update(self, call: Call, id: str, state: Doc, inputs: Doc) -> Doc:
        """Write all of the resource again: the provider updates by PUT."""
        with call.world.transaction():
            record = lookup(call.world, self.kind, id)
            if record is None:
                raise CloudError("ResourceNotFound", f"The resource '{id}' was not found.")
            return outputs(self._put(call, record.id, inputs, record.doc))

    def delete(self, call: Call, id: str, state: Doc) -> None:
        """Remove the resource, unless something uses it."""
        with call.world.transaction():
            record = lookup(call.world, self.kind, id)
            if record is not None:
                self._before_delete(call, record)
                self._remove(call.world, record)

    def imported_inputs(self, call: Call, id: str, outputs: Doc) -> Doc:
        """Return what an import takes as inputs: outputs, and the names that stand in the id."""
        return super().imported_inputs(call, id, outputs) | self._names_in(id, outputs)

    def _names_in(self, id: str, outputs: Doc) -> Doc:
        parts = [part for part in id.split("/") if part]
        found: Doc = {"resourceGroupName": group_of(id)} if group_of(id) else {}
        tail = parts[parts.index("providers") + 2 :] if "providers" in parts else parts[-2:]
        values = tail[1::2]
        for key, value in zip((*self.parents, self.name_input), values[-len(self.parents) - 1 :], strict=False):
            found[key] = value
        return found

    def get(self, call: Call, arguments: Doc) -> Doc:
        """Answer the function that looks a resource of this type up by its names."""
        record = lookup(call.world, self.kind, self.id_of(call, arguments))
        if record is None:
            raise CloudError(
                "ResourceNotFound", f"The Resource '{self.arm_type}/{arguments[self.name_input]}' was not found."
            )
        return outputs(record.doc) | {"id": record.id}

    def id_of(self, call: Call, inputs: Doc) -> str:
        """Return the ARM id; raise CloudError when the group or a parent is not there."""
        group = lookup(call.world, "ResourceGroup", self._group_id(call, inputs["resourceGroupName"]))
        if group is None:
            raise CloudError(
                "ResourceGroupNotFound", f"Resource group '{inputs['resourceGroupName']}' could not be found."
            )
        provider, *types = self.arm_type.split("/")
        id = f"{group.id}/providers/{provider}"
        for index, (segment, key) in enumerate(zip(types, (*self.parents, self.name_input), strict=True)):
            id = f"{id}/{segment}/{inputs[key]}"
            if index < len(self.parents):
                id = self._parent(call, id, types)
        return id

    def _parent(self, call: Call, id: str, types: list[str]) -> str:
        found = next((r for r in call.world.find(PACKAGE) if r.id.lower() == id.lower()), None)
        if found is None:
            raise CloudError(
                "ParentResourceNotFound",
                f"Failed to perform 'write' on resource(s) of type '{'/'.join(types)}', because the parent "
                f"resource '{id}' could not be found.",
            )
        return found.id

    def _group_id(self, call: Call, group: str) -> str:
        return f"/subscriptions/{subscription(call)}/resourceGroups/{group}"

    def _put(self, call: Call, id: str, inputs: Doc, old: Doc | None) -> Doc:
        self.name_rule.verify(f"resource type '{self.arm_type}'", inputs[self.name_input])
        names.verify_tags(inputs.get("tags"), self.longest_tag_name)
        known = self._schema_outputs()
        doc: Doc = {key: value for key, value in inputs.items() if key in known and value is not None}
        doc = {**self.schema_defaults, **doc}
        if self.located:
            doc["location"] = self._location(call, id, inputs, old)
        doc |= {"name": name_of(id), "type": self.arm_type, "azureApiVersion": self.api_version}
        if "provisioningState" in known:
            doc["provisioningState"] = "Succeeded"
        self._rules(call, id, inputs, doc, old)
        doc |= self._computed(call, id, inputs, doc, old)
        call.world.put(PACKAGE, self.kind, id, doc)
        return doc

    def _location(self, call: Call, id: str, inputs: Doc, old: Doc | None) -> str:
        if inputs.get("location") is None:
            raise CloudError("LocationRequired", "The location property is required for this definition.")
        location = names.verify_location(inputs["location"], self.arm_type)
        if old is not None and old["location"] != location:
            raise CloudError(
                "InvalidResourceLocation",
                f"The resource '{name_of(id)}' already exists in location '{old['location']}' in resource group "
                f"'{group_of(id)}'. A resource with the same name cannot be created in location '{location}'. "
                "Please select a new resource name.",
            )
        return location

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        """Raise CloudError for what this type refuses; ``old`` is the record before an update."""

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        """Return outputs that Azure computes, and the lab's own notes under names that begin with ``_``."""
        return {}

    def _before_delete(self, call: Call, record: Record) -> None:
        """Raise CloudError when the resource cannot go."""

    def _remove(self, world: World, record: Record) -> None:
        world.remove(PACKAGE, record.kind, record.id)

    def _schema_outputs(self) -> frozenset[str]:
        schema = sdk_schema.resource(self.token)
        return schema.outputs if schema else frozenset()
