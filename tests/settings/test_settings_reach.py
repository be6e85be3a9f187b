"""Which machines have public addresses: one rule, whatever else is written down."""

import itertools
from typing import Any

import pytest
from documents import HERE, change, read_good
from hybrid_talos.address_plan import public_address

from stacks.mesh import mesh_locations
from stacks.settings import Settings, load
from stacks.settings_reach import public_ips


def loaded(**changes: Any) -> Settings:
    document = read_good(HERE / "good" / "hybrid-gateways.yaml")
    for where, value in changes.items():
        change(document.settings, where.replace("__", "."), value)
    return load(*document)


def public(settings: Settings) -> dict[str, bool]:
    found = {}
    for cloud, section in (("azure", settings.azure), ("aliyun", settings.aliyun)):
        assert section is not None
        found |= {f"{cloud}/{pool.name}": public_ips(settings.mesh, section, pool) for pool in section.pools}
    return found


def test_what_is_said_outright_holds() -> None:
    for mesh, gateway, served in itertools.product([True, False], repeat=3):
        assert public_address(True, mesh=mesh, gateway=gateway, served=served)
        assert not public_address(False, mesh=mesh, gateway=gateway, served=served)


@pytest.mark.parametrize(
    ("mesh", "gateway", "served", "expected"),
    [
        (False, False, False, False),
        (True, False, False, True),
        (True, False, True, False),
        (True, True, True, True),
    ],
)
def test_the_rule(mesh: bool, gateway: bool, served: bool, expected: bool) -> None:
    assert public_address(None, mesh=mesh, gateway=gateway, served=served) is expected


def test_gateways_are_public_and_what_they_serve_is_not() -> None:
    assert public(loaded()) == {
        "azure/gateways": True,
        "azure/general": False,
        "aliyun/gateways": True,
        "aliyun/general": False,
    }


def test_gateways_serve_their_own_network_alone() -> None:
    north = {"name": "north", "location": "northeurope", "vnetCidr": "10.5.0.0/16", "subnetCidr": "10.5.0.0/24"}
    settings = loaded(**{"azure__pools[2]": {**north, "vmSize": "Standard_D4s_v5", "maxSize": 5}})
    assert public(settings)["azure/north"] is True
    assert public(settings)["azure/general"] is False


def test_without_gateways_every_machine_is_public() -> None:
    changes: dict[str, Any] = {}
    for cloud in ("azure", "aliyun"):
        changes |= {f"{cloud}__pools[0].gateway": False, f"{cloud}__pools[1].maxSize": 5}
    assert set(public(loaded(**changes)).values()) == {True}


def test_a_location_is_called_through_its_gateways() -> None:
    locations = mesh_locations(loaded())
    assert locations["azure-westeurope"]["behind_nat"] is False
    assert locations["aliyun-cn-hangzhou"]["behind_nat"] is False


def test_without_gateways_one_private_pool_may_lead_and_so_is_one_too_many() -> None:
    settings = loaded(
        **{
            "azure__pools[0].gateway": False,
            "azure__pools[1].publicIps": False,
        }
    )
    assert mesh_locations(settings)["azure-westeurope"]["behind_nat"] is True


def test_a_location_exposes_its_own_ranges_and_further_ones() -> None:
    locations = mesh_locations(loaded(**{"mesh__exposedCidrs": {"rack": ["192.0.2.128/25", "192.168.110.0/24"]}}))
    assert locations["rack"]["exposed_cidrs"] == ["192.0.2.128/25", "192.168.110.0/24"]
    assert "exposed_cidrs" not in locations["azure-westeurope"]
