"""A gallery image and its retention, by the real client, against the simulated Azure."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hybrid_talos import azure_gallery_image, azure_gallery_retention, azure_page_blob, azure_resource_manager
from hybrid_talos.work_provider import WorkError

from tests.lab.azure_image_servers import DISK, Azure, azure_servers


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    with azure_servers(tmp_path, monkeypatch) as made:
        azure_page_blob.create(made.upload())
        yield made


def test_a_version_is_made_with_its_definition(azure: Azure) -> None:
    identity, outs = azure_gallery_image.create(azure.gallery_image(regions=["westeurope", "northeurope"]))
    assert identity == outs["image_id"]
    assert identity.endswith("/galleries/gallery/images/talos/versions/1.14.0")
    (version,) = azure.world.find("azure-native", "GalleryImageVersion")
    (definition,) = azure.world.find("azure-native", "GalleryImage")
    assert version.doc["_regions"] == ["westeurope", "northeurope"]
    assert version.doc["tags"]["talos-content"] == "talos"
    assert version.doc["tags"]["hybrid-talos-made"].endswith("Z")
    assert definition.doc["hyperVGeneration"] == "V2"
    assert definition.doc["features"] == [{"name": "DiskControllerTypes", "value": "SCSI, NVMe"}]
    assert azure_gallery_image.read(outs) == outs


def test_a_version_that_a_killed_run_made_is_adopted(azure: Azure) -> None:
    azure.world.plan_fault("create", "GalleryImageVersion", "lost")
    first = azure_gallery_image.create(azure.gallery_image())
    made = [event for event in azure.world.events() if event.op == "create" and "Version" in event.kind]
    assert azure_gallery_image.create(azure.gallery_image()) == first
    assert [e for e in azure.world.events() if e.op == "create" and "Version" in e.kind] == made


def test_a_version_of_somebody_else_is_not_adopted(azure: Azure) -> None:
    azure_gallery_image.create(azure.gallery_image())
    other = azure.gallery_image(tags=azure.tags(content="other"))
    with pytest.raises(WorkError, match="was not made of this content"):
        azure_gallery_image.create(other)


def test_a_version_that_a_person_made_is_taken_over_once_it_is_tagged(azure: Azure) -> None:
    _, outs = azure_gallery_image.create(azure.gallery_image(tags={"hybrid-talos-image": "", **theirs(azure)}))
    for kind in ("GalleryImage", "GalleryImageVersion"):
        (record,) = azure.world.find("azure-native", kind)
        azure.world.put(record.package, kind, record.id, {**record.doc, "tags": {"team": "a"}})
    with pytest.raises(WorkError, match="or tag it talos-version=1.14.0, talos-content=talos, talos-blob=one.vhd"):
        azure_gallery_image.create(azure.gallery_image())
    (record,) = azure.world.find("azure-native", "GalleryImageVersion")
    azure.world.put(record.package, record.kind, record.id, {**record.doc, "tags": {"team": "a", **theirs(azure)}})
    _, again = azure_gallery_image.create(azure.gallery_image())
    assert again["image_id"] == outs["image_id"]
    (version,) = azure.world.find("azure-native", "GalleryImageVersion")
    assert version.doc["tags"] == {"team": "a", **azure.tags()}
    # From now on it is ours, and goes with the rest.
    azure_gallery_retention.delete(azure.gallery_retention())
    assert azure.names("GalleryImage") == azure.names("GalleryImageVersion") == []


def theirs(azure: Azure) -> dict[str, str]:
    return {key: value for key, value in azure.tags().items() if key.startswith("talos-")}


def test_what_azure_failed_to_copy_is_made_anew(azure: Azure) -> None:
    _, outs = azure_gallery_image.create(azure.gallery_image())
    (version,) = azure.world.find("azure-native", "GalleryImageVersion")
    azure.world.put(version.package, version.kind, version.id, {**version.doc, "provisioningState": "Failed"})
    assert azure_gallery_image.read(outs) is None
    azure_gallery_image.create(azure.gallery_image())
    assert azure_gallery_image.read(outs) == outs


def test_what_is_under_way_is_waited_for(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    azure_gallery_image.create(azure.gallery_image())
    (version,) = azure.world.find("azure-native", "GalleryImageVersion")
    azure.world.put(version.package, version.kind, version.id, {**version.doc, "provisioningState": "Creating"})

    def finish(_: float) -> None:
        azure.world.put(version.package, version.kind, version.id, version.doc)

    monkeypatch.setattr(azure_resource_manager.time, "sleep", finish)
    _, outs = azure_gallery_image.create(azure.gallery_image())
    assert outs["image_id"] == version.id


def test_regions_are_added_and_taken_away_in_place(azure: Azure) -> None:
    _, outs = azure_gallery_image.create(azure.gallery_image())
    wanted = azure.gallery_image(regions=["westeurope", "northeurope"])
    result = azure_gallery_image.diff(outs, wanted)
    assert (result.changes, result.replaces) == (True, [])
    azure_gallery_image.update(outs, wanted)
    (version,) = azure.world.find("azure-native", "GalleryImageVersion")
    assert version.doc["_regions"] == ["westeurope", "northeurope"]
    assert version.doc["tags"]["hybrid-talos-made"].endswith("Z")
    # A region that was taken away behind our back shows in a refresh.
    seen = azure_gallery_image.read({**wanted, "regions": ["westeurope", "northeurope", "uksouth"]})
    assert seen is not None
    assert seen["regions"] == ["westeurope", "northeurope"]


def test_another_release_or_schematic_is_another_image(azure: Azure) -> None:
    olds = azure.gallery_image()
    for change in ({"version": "1.14.1"}, {"definition": "other"}):
        assert azure_gallery_image.diff(olds, {**olds, **change}).replaces == list(change)
    assert azure_gallery_image.diff(olds, {**olds, "blob_uri": "https://elsewhere"}).changes is False


def test_a_refresh_sees_that_it_is_gone(azure: Azure) -> None:
    _, outs = azure_gallery_image.create(azure.gallery_image())
    azure_gallery_image.delete(outs)
    assert azure.names("GalleryImageVersion") == azure.names("GalleryImage") == []
    assert azure_gallery_image.read(outs) is None
    azure_gallery_image.delete(outs)


def test_a_half_written_blob_makes_no_image(azure: Azure) -> None:
    azure.blob().write(len(DISK), bytes(512), 512)
    with pytest.raises(WorkError, match=r"image talos/1.14.0 in gallery gallery: InvalidParameter: .*conectix"):
        azure_gallery_image.create(azure.gallery_image())


def test_a_refusal_comes_with_azures_own_words(azure: Azure) -> None:
    azure.world.plan_fault("create", "GalleryImage", "no-stock", message="no")
    with pytest.raises(WorkError, match="^image talos/1.14.0 in gallery gallery: NoStock: no$"):
        azure_gallery_image.create(azure.gallery_image())


def test_an_address_without_tls_is_refused(azure: Azure) -> None:
    assert azure_gallery_image.check(azure.gallery_image()) == {}
    assert "resource_manager" in azure_gallery_image.check(azure.gallery_image(resource_manager="http://x"))


# -- retention ----------------------------------------------------------------------------------------------


def three(azure: Azure) -> None:
    """Make three images one after the other; the last is the current one."""
    for number, name in enumerate(("1.13.8", "1.13.9", "1.14.0")):
        blob = f"{name}.vhd" if name != "1.14.0" else "one.vhd"
        if name != "1.14.0":
            azure_page_blob.create(azure.upload(blob))
        wanted = azure.gallery_image(name, tags=azure.tags(name, blob=blob))
        azure_gallery_image.create(wanted)
        record = azure.world.find("azure-native", "GalleryImageVersion", name=name)[0]
        tags = {**record.doc["tags"], "hybrid-talos-made": f"2026-0{number + 1}-01T00:00:00Z"}
        azure.world.put(record.package, record.kind, record.id, {**record.doc, "tags": tags})


def short(removable: list[str]) -> list[str]:
    return [identity.rsplit("/", 1)[-1] for identity in removable]


def test_what_is_beyond_the_retention_is_listed_by_a_refresh_and_deleted_by_the_next_update(azure: Azure) -> None:
    three(azure)
    props = azure.gallery_retention()
    _, outs = azure_gallery_retention.create(props)
    assert azure_gallery_retention.diff(outs, props).changes is False
    seen = azure_gallery_retention.read(outs)
    assert short(seen["removable"]) == ["1.13.8"]
    assert azure_gallery_retention.diff(seen, props).changes is True
    outs = azure_gallery_retention.update(seen, props)
    assert outs["removable"] == []
    assert azure.names("GalleryImageVersion") == ["1.13.9", "1.14.0"]
    assert azure.blob("1.13.8.vhd").record() is None
    assert azure.blob("1.13.9.vhd").record() is not None
    assert azure_gallery_retention.read(outs) == outs


@pytest.mark.parametrize(("retain", "left"), [(0, ["1.14.0"]), (2, ["1.13.8", "1.13.9", "1.14.0"])])
def test_the_number_that_is_kept_can_be_chosen(azure: Azure, retain: int, left: list[str]) -> None:
    three(azure)
    azure_gallery_retention.update({}, azure.gallery_retention(retain=retain))
    assert azure.names("GalleryImageVersion") == left


def test_what_a_scale_set_or_one_of_its_machines_uses_is_kept(azure: Azure) -> None:
    three(azure)
    versions = {r.id.rsplit("/", 1)[-1]: r.id for r in azure.world.find("azure-native", "GalleryImageVersion")}
    azure.cloud.network()
    azure.cloud.subnet()
    reference = "virtualMachineProfile__storageProfile__imageReference__id"
    azure.cloud.scale_set({reference: versions["1.13.8"], "sku__capacity": 1})
    props = azure.gallery_retention(retain=0)
    assert short(azure_gallery_retention.read(props)["removable"]) == ["1.13.9"]
    # The model moves on; the machine that exists does not.
    profile = azure.cloud.inputs["workers"]["virtualMachineProfile"]
    profile["storageProfile"]["imageReference"]["id"] = versions["1.14.0"]
    azure.cloud.change("compute:VirtualMachineScaleSet", "workers", virtualMachineProfile=profile)
    assert short(azure_gallery_retention.read(props)["removable"]) == ["1.13.9"]
    with pytest.raises(WorkError, match=r"versions/1.13.8 is still used by machine 0 of scale set workers"):
        azure_gallery_retention.delete(props)
    azure.cloud.delete("compute:VirtualMachineScaleSet", "workers")
    assert short(azure_gallery_retention.read(props)["removable"]) == ["1.13.8", "1.13.9"]


def test_a_blob_that_no_image_was_made_of_goes_unless_it_is_the_next(azure: Azure) -> None:
    azure_page_blob.create(azure.upload("orphan.vhd"))
    props = azure.gallery_retention()
    seen = azure_gallery_retention.read(props)
    assert seen["removable"] == ["blob:orphan.vhd"]
    azure_gallery_retention.update(seen, props)
    assert azure.blob("orphan.vhd").record() is None
    assert azure.blob().record() is not None


def test_what_is_not_ours_is_left_alone(azure: Azure) -> None:
    three(azure)
    azure.cloud.definition("foreign")
    azure.cloud.ids["acct"] = azure.cloud.ids["account"]
    azure.cloud.version("1.0.0", "foreign", uri=azure.gallery_image()["blob_uri"])
    azure_gallery_retention.delete(azure.gallery_retention())
    assert azure.names("GalleryImageVersion") == ["1.0.0"]
    assert azure.names("GalleryImage") == ["foreign"]


def test_a_definition_goes_with_its_last_version(azure: Azure) -> None:
    azure_gallery_image.create(azure.gallery_image("1.13.9", "older", tags=azure.tags("1.13.9")))
    azure_gallery_image.create(azure.gallery_image())
    azure_gallery_retention.update({}, azure.gallery_retention(retain=0))
    assert azure.names("GalleryImage") == ["talos"]


def test_what_cannot_be_deleted_now_is_tried_again_later(azure: Azure) -> None:
    three(azure)
    azure.world.plan_fault("delete", "GalleryImageVersion", "no-stock", message="busy")
    outs = azure_gallery_retention.update({}, azure.gallery_retention())
    assert short(outs["removable"]) == ["1.13.8"]
    assert azure_gallery_retention.update(outs, azure.gallery_retention())["removable"] == []


def test_a_gallery_and_an_account_that_are_gone_hold_nothing(azure: Azure) -> None:
    props = azure.gallery_retention(
        gallery_id=azure.cloud.ids["gallery"].replace("/galleries/gallery", "/galleries/gone"), account="gone"
    )
    assert azure_gallery_retention.read(props)["removable"] == []
    azure_gallery_retention.delete(props)


def test_a_blob_that_two_versions_were_made_of_goes_with_the_last(azure: Azure) -> None:
    azure_page_blob.create(azure.upload("old.vhd"))
    for name in ("1.13.8", "1.13.9"):
        azure_gallery_image.create(azure.gallery_image(name, tags=azure.tags(name, blob="old.vhd")))
    azure_gallery_retention.update({}, azure.gallery_retention(retain=1))
    assert len(azure.names("GalleryImageVersion")) == 1
    assert azure.blob("old.vhd").record() is not None
    azure_gallery_retention.update({}, azure.gallery_retention(retain=0))
    assert azure.blob("old.vhd").record() is None
    assert azure.blob().record() is not None
