"""Serves the components to programs in other languages.

``pulumi.provider.experimental`` does most of it. What it does not do, in 3.272, is done here:

- an output in the place of an object (``Input[MeshLocation]``, ``Mapping[str, Input[NodeGroup]]``) is mapped once it
  is known; the SDK takes it for an object without keys, and says that each required one is missing;
- whole numbers, which come as floats, become integers;
- objects inside of lists and maps of outputs get the keys of the schema;
- inputs that the schema does not know are refused, as they are in Python;
- refused inputs are one message without a traceback (pulumi/pulumi issue 17012).
"""

import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from typing import Any

import pulumi
from pulumi.errors import InputPropertiesError, InputPropertyErrorDetails
from pulumi.output import Unknown
from pulumi.provider import ConstructResult
from pulumi.provider.experimental.analyzer import ComponentDefinition, PropertyDefinition, PropertyType, TypeDefinition
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

from ._contract import BadInputs

PACKAGE = "hybrid-talos"
"""Name of the package, and of the namespace of its tokens."""

COMPONENTS = {
    "AliyunWorkerPool": "aliyun_worker_pool",
    "AzureWorkerPool": "azure_worker_pool",
    "ClusterAutoscaler": "cluster_autoscaler",
    "HAControlPlane": "ha_control_plane",
    "MeshPeers": "mesh_peers",
    "NetworkMesh": "network_mesh",
    "StaticWorkerPool": "static_worker_pool",
    "TalosCloudController": "talos_cloud_controller",
    "TalosImage": "talos_image",
}
"""The components, each with its module."""


def component_classes() -> list[type[pulumi.ComponentResource]]:
    """Return the classes of all components; this loads the clouds' SDKs."""
    return [getattr(import_module(f".{module}", __package__), name) for name, module in COMPONENTS.items()]


class ComponentHost(ComponentProvider):
    """The package, as the engine talks to it."""

    def __init__(self) -> None:
        super().__init__(component_classes(), PACKAGE, version=metadata.version("pulumi-hybrid-talos"))
        assert self.schema is not None
        self.schema = json.dumps(_clean(json.loads(self.schema)))

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: pulumi.Inputs,
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        """Make a component. A refusal of its inputs carries one message and no traceback."""
        try:
            return super().construct(name, resource_type, inputs, options)
        except ComponentInitError as error:
            if isinstance(error.inner, BadInputs):
                # The message names the inputs; with no list at all, the SDK fails over its own answer.
                raise InputPropertiesError(str(error.inner), []) from None
            raise

    def map_input_properties(
        self,
        inputs: pulumi.Inputs,
        properties: dict[str, PropertyDefinition],
        mapping: dict[str, str],
        component_name: str,
        property_path: str,
    ) -> pulumi.Inputs:
        """Return an object as the component takes it; outputs in it, or in the place of it, stay outputs."""
        within = f"{property_path}." if property_path else ""
        problems: list[InputPropertyErrorDetails] = []
        if not isinstance(inputs, Mapping):
            problems.append({"property_path": property_path, "reason": "must be an object"})
        else:
            given = {key for key, value in inputs.items() if value is not None}
            required = {key for key, definition in properties.items() if not definition.optional}
            for key in sorted(required - given):
                problems.append({"property_path": within + key, "reason": "required"})
            for key in sorted(given - properties.keys()):
                problems.append({"property_path": within + key, "reason": "no such input"})
        if problems:
            raise InputPropertiesError(f"{component_name}: inputs refused", problems)
        return {
            mapping[key]: self._input(inputs[key], definition, component_name, within + key)
            for key, definition in properties.items()
            if inputs.get(key) is not None
        }

    def _input(self, value: Any, definition: PropertyDefinition, component: str, path: str) -> Any:
        """Return one input as the component takes it."""
        if isinstance(value, Unknown):
            value = pulumi.Output.from_input(value)
        if isinstance(value, pulumi.Output):
            # What is mapped may hold outputs itself, and an apply only takes away the outermost.
            return value.apply(lambda known: pulumi.Output.from_input(self._input(known, definition, component, path)))
        if value is None:
            return None
        if definition.ref:
            kind = self.get_type_definition(definition)
            return value if kind is None else self._typed(value, kind, component, path)
        if definition.items and isinstance(value, Sequence) and not isinstance(value, str):
            return [self._input(item, definition.items, component, f"{path}[{i}]") for i, item in enumerate(value)]
        if definition.additional_properties and isinstance(value, Mapping):
            return {
                key: self._input(item, definition.additional_properties, component, f"{path}.{key}")
                for key, item in value.items()
            }
        if definition.type is PropertyType.INTEGER and isinstance(value, float) and value.is_integer():
            return int(value)
        return value

    def _typed(self, value: Any, kind: TypeDefinition, component: str, path: str) -> Any:
        """Return an enum's member, or an object."""
        if not kind.enum:
            return self.map_input_properties(value, kind.properties, kind.properties_mapping, component, path)
        choices = [choice.value for choice in kind.enum]
        if value not in choices:
            reason = f"must be one of {', '.join(map(str, choices))}"
            raise InputPropertiesError(f"{component}: inputs refused", [{"property_path": path, "reason": reason}])
        return kind.python_type(value)

    def get_state(self, instance: pulumi.ComponentResource, component_def: ComponentDefinition) -> dict[str, Any]:
        """Return a component's outputs, with the keys of the schema at every depth."""
        return {
            key: self._output(getattr(instance, component_def.outputs_mapping[key]), definition)
            for key, definition in component_def.outputs.items()
        }

    def _output(self, value: Any, definition: PropertyDefinition) -> Any:
        """Return one output as the schema describes it."""
        if isinstance(value, pulumi.Output):
            return value.apply(lambda known: self._output(known, definition))
        if value is None:
            return None
        kind = self.get_type_definition(definition) if definition.ref else None
        if kind is not None and kind.enum:
            return value.value
        if kind is not None:
            return {
                key: self._output(value[kind.properties_mapping[key]], inner)
                for key, inner in kind.properties.items()
                if value.get(kind.properties_mapping[key]) is not None
            }
        if definition.items:
            return [self._output(item, definition.items) for item in value]
        if definition.additional_properties:
            return {key: self._output(item, definition.additional_properties) for key, item in value.items()}
        return value


def _clean(schema: Any) -> Any:
    """Return a schema whose descriptions have lost the indentation of the source that they stood in."""
    if isinstance(schema, Mapping):
        return {
            key: inspect.cleandoc(value) if key == "description" and isinstance(value, str) else _clean(value)
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_clean(item) for item in schema]
    return schema


def schema_text() -> str:
    """Return the package's schema as it is committed."""
    assert (schema := ComponentHost().schema) is not None
    return json.dumps(json.loads(schema), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
