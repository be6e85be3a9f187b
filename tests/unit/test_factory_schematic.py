"""What the factory is asked before an image or an installer of it is used, and what its answers mean."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from http_stub import Answer, Request, serve
from hybrid_talos import factory_schematic as work
from hybrid_talos import http_session
from hybrid_talos.image_upload import FactorySchematicProvider
from hybrid_talos.schematic import schematic_id, schematic_yaml
from hybrid_talos.work_provider import WorkError
from pulumi.output import Unknown

SCHEMATIC = schematic_yaml(["siderolabs/drbd"])


@dataclass
class Factory:
    versions: list[str] = field(default_factory=lambda: ["v1.12.9", "v1.13.8", "v1.13.9", "v1.14.0-rc.1", "v1.14.0"])
    extensions: list[str] = field(default_factory=lambda: ["siderolabs/drbd", "siderolabs/zfs", "siderolabs/i915"])
    overlays: list[str] = field(default_factory=lambda: ["rpi_generic", "rock4cplus"])
    answered: Answer | None = None
    known: bool = True
    lists: bool = True
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def respond(self, request: Request) -> Answer:
        self.asked.append(f"{request.method} {request.path}")
        if request.path == "/schematics":
            return self.answered or Answer(201, json.dumps({"id": schematic_id(request.body.decode())}).encode())
        if request.path.startswith("/schematics/"):
            return Answer(200 if self.known else 404)
        if not self.lists:
            return Answer(404)
        if request.path == "/versions":
            return Answer(200, json.dumps(self.versions).encode())
        names = self.extensions if request.path.endswith("/extensions/official") else self.overlays
        return Answer(200, json.dumps([{"name": name} for name in names]).encode())


@pytest.fixture
def factory() -> Iterator[Factory]:
    made = Factory()
    with serve(made.respond) as made.url:
        yield made


def props(factory: Factory, **more: Any) -> dict[str, Any]:
    return {
        "factory_url": f"{factory.url}/",
        "factory_ca": None,
        "proxy": None,
        "schematic": SCHEMATIC,
        "extensions": ["siderolabs/drbd"],
        "overlay": None,
        "talos_version": "1.14.0",
        **more,
    }


def test_the_factory_is_told_and_asked(factory: Factory) -> None:
    result = FactorySchematicProvider().create(props(factory, overlay="rpi_generic"))
    assert result.id == schematic_id(SCHEMATIC)
    assert factory.asked == [
        "GET /versions",
        "POST /schematics",
        "GET /version/v1.14.0/extensions/official",
        "GET /version/v1.14.0/overlays/official",
    ]


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.13.10", "of v1.13 it has v1.13.8, v1.13.9; its newest are v1.14.0, v1.14.0-rc.1, v1.13.9"),
        ("1.14.0-rc.7", "of v1.14 it has v1.14.0-rc.1, v1.14.0; its newest are"),
        ("1.99.0", "does not know Talos v1.99.0: its newest are v1.14.0"),
    ],
)
def test_a_release_that_the_factory_does_not_know_comes_with_those_that_it_knows(
    factory: Factory, version: str, words: str
) -> None:
    with pytest.raises(WorkError, match=words):
        work.create(props(factory, talos_version=version))
    assert factory.asked == ["GET /versions"]


def test_a_misspelt_extension_comes_with_the_closest(factory: Factory) -> None:
    with pytest.raises(WorkError, match=r"siderolabs/dbrd \(did you mean siderolabs/drbd or "):
        work.create(props(factory, extensions=["siderolabs/dbrd", "siderolabs/zfs"]))


def test_a_misspelt_overlay_comes_with_the_closest(factory: Factory) -> None:
    with pytest.raises(
        WorkError, match=r"no such overlay for Talos v1.14.0: rpi_genric \(did you mean rpi_generic\?\)"
    ):
        work.create(props(factory, overlay="rpi_genric"))


def test_a_factory_that_lists_nothing_is_left_to_judge(factory: Factory) -> None:
    factory.lists = False
    assert work.create(props(factory, talos_version="1.99.0"))[0] == schematic_id(SCHEMATIC)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(201, b'{"id": "' + b"0" * 64 + b'"}'), "gives the schematic the id 0000.* planned as"),
        (Answer(200, b"<html>"), "refuses the schematic: status 200"),
        (Answer(201, b"<html>"), "is no image factory"),
        (Answer(400, b"yaml: field x not found\n", {"Content-Type": "text/plain"}), "status 400: yaml: field x not"),
    ],
)
def test_another_answer_than_the_id_that_was_planned_is_an_error(factory: Factory, answer: Answer, words: str) -> None:
    factory.answered = answer
    with pytest.raises(WorkError, match=words):
        work.create(props(factory))


def test_a_refresh_sees_that_the_factory_forgot(factory: Factory) -> None:
    provider, created = FactorySchematicProvider(), props(factory)
    assert provider.read(schematic_id(SCHEMATIC), created).outs == created
    factory.known = False
    assert provider.read(schematic_id(SCHEMATIC), created).id == ""


def test_a_factory_out_of_reach_forgot_nothing(factory: Factory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_session, "RETRIES", 0)
    gone = props(factory, factory_url="http://127.0.0.1:9")
    assert work.read(gone) == gone


def test_another_release_is_asked_for_and_another_schematic_sent(factory: Factory) -> None:
    olds = props(factory)
    assert work.diff(olds, dict(olds)).changes is False
    newer = props(factory, talos_version="1.13.9")
    result = work.diff(olds, newer)
    assert (result.changes, result.replaces) == (True, [])
    assert work.update(olds, newer) == newer
    assert factory.asked == ["GET /versions", "GET /version/v1.13.9/extensions/official"]
    assert work.diff(olds, props(factory, schematic="other")).replaces == ["schematic"]
    assert work.diff(olds, props(factory, proxy="http://p")).changes is False
    assert work.diff(olds, props(factory, schematic=Unknown())).replaces == ["schematic"]


def test_a_schematic_is_never_taken_back(factory: Factory) -> None:
    FactorySchematicProvider().delete("id", props(factory))
    assert factory.asked == []
