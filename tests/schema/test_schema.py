"""The package for other languages: what the analyzer reads out of the components, and what is committed of it."""

import ast
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hybrid_talos
import pulumi
import pytest
from hybrid_talos.component_host import COMPONENTS, PACKAGE, component_classes, schema_text

COMMITTED = Path(__file__).resolve().parents[2] / "components" / "schema.json"
NAMES = [
    "AliyunWorkerPool",
    "AzureWorkerPool",
    "ClusterAutoscaler",
    "HAControlPlane",
    "MeshPeers",
    "NetworkMesh",
    "StaticWorkerPool",
    "TalosCloudController",
    "TalosImage",
]


@pytest.fixture(scope="module")
def text() -> str:
    return schema_text()


@pytest.fixture(scope="module")
def schema(text: str) -> dict[str, Any]:
    return dict(json.loads(text))


def _constructor(name: str) -> ast.FunctionDef:
    """Return the syntax tree of a component's constructor."""
    component = {found.__name__: found for found in component_classes()}[name]
    tree = ast.parse(inspect.getsource(component))
    (found,) = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    return found


def _calls(tree: ast.AST, method: str) -> list[ast.Call]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method
    ]


def test_all_nine_components_are_in_the_package(schema: dict[str, Any]) -> None:
    assert schema["name"] == PACKAGE == "hybrid-talos"
    assert sorted(schema["resources"]) == [f"hybrid-talos:index:{name}" for name in NAMES]
    assert all(resource["isComponent"] for resource in schema["resources"].values())


def test_every_component_class_of_the_library_is_hosted() -> None:
    exported = {name: getattr(hybrid_talos, name) for name in hybrid_talos.__all__}
    components = [
        name
        for name, value in exported.items()
        if inspect.isclass(value) and issubclass(value, pulumi.ComponentResource)
    ]
    assert sorted(components) == sorted(COMPONENTS) == NAMES
    assert {f"{name}Args" for name in NAMES} <= exported.keys()


def test_the_library_exports_every_type_of_the_package(schema: dict[str, Any]) -> None:
    types = {token.rsplit(":", 1)[-1] for token in schema["types"]}
    assert types - set(hybrid_talos.__all__) == set()
    assert sorted(hybrid_talos.__all__) == sorted(hybrid_talos._MODULES), "one list for type checkers, one to import by"
    assert all(getattr(hybrid_talos, name).__name__ == name for name in hybrid_talos.__all__)


def _described(schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for token, resource in schema["resources"].items():
        yield token, resource
        for section in ("inputProperties", "properties"):
            for key, value in resource[section].items():
                yield f"{token} {section}.{key}", value
    for token, kind in schema["types"].items():
        yield token, kind
        for key, value in kind.get("properties", {}).items():
            yield f"{token}.{key}", value
        for choice in kind.get("enum", []):
            yield f"{token}.{choice['value']}", choice


def test_everything_is_described(schema: dict[str, Any]) -> None:
    found = dict(_described(schema))
    assert [where for where, value in found.items() if not (value.get("description") or "").strip()] == []


def test_descriptions_are_sentences_without_the_indentation_of_their_source(schema: dict[str, Any]) -> None:
    for where, value in _described(schema):
        description = value["description"]
        assert description[0] == description.lstrip()[0], where
        assert "\n    " not in description, where
        assert description.rstrip().endswith((".", ")", ":", "`")), f"{where}: {description}"


def test_no_object_is_empty(schema: dict[str, Any]) -> None:
    empty = [token for token, kind in schema["types"].items() if not kind.get("properties") and not kind.get("enum")]
    assert empty == [], "the analyzer takes a type that it does not know for an object without properties"


def test_numbers_that_decide_about_children_are_plain(schema: dict[str, Any]) -> None:
    """The SDK cannot turn an output into an integer, and a component cannot count with one."""
    outputs = [
        f"{token}.{key}"
        for token, resource in schema["resources"].items()
        for key, value in resource["inputProperties"].items()
        if value.get("type") in ("integer", "boolean") and not value.get("plain")
    ]
    assert outputs == []


@pytest.mark.parametrize("name", NAMES)
def test_a_component_registers_the_outputs_that_it_declares(schema: dict[str, Any], name: str) -> None:
    last = _constructor(name).body[-1]
    calls = _calls(_constructor(name), "register_outputs")
    assert len(calls) == 1
    assert isinstance(last, ast.Expr)
    assert ast.dump(last.value) == ast.dump(calls[0]), "register_outputs stands last"
    (registered,) = calls[0].args
    assert isinstance(registered, ast.Dict)
    keys = [key.value for key in registered.keys if isinstance(key, ast.Constant)]
    assert len(keys) == len(registered.keys)
    assert sorted(map(str, keys)) == sorted(schema["resources"][f"hybrid-talos:index:{name}"]["properties"])


@pytest.mark.parametrize("name", NAMES)
def test_a_component_bears_the_token_of_its_class(name: str) -> None:
    (call,) = [call for call in _calls(_constructor(name), "__init__") if ast.unparse(call.func) == "super().__init__"]
    token, own_name, inputs, options = call.args
    assert ast.literal_eval(token) == f"hybrid-talos:index:{name}"
    assert (ast.unparse(own_name), ast.unparse(options)) == ("name", "opts")
    assert ast.literal_eval(inputs) == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_constructor_takes_name_args_and_opts(name: str) -> None:
    arguments = _constructor(name).args
    assert [argument.arg for argument in arguments.args] == ["self", "name", "args", "opts"]
    assert not arguments.kwonlyargs
    assert arguments.vararg is None
    assert arguments.kwarg is None


def test_the_committed_schema_is_the_components_own(text: str) -> None:
    assert COMMITTED.read_text() == text, (
        "components/schema.json is not what the components say; look at the difference after `make schema` "
        "(python -m hybrid_talos.component_host > components/schema.json)"
    )
