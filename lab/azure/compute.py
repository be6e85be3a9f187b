"""Virtual machine scale sets."""

import copy

from ..provider import Call
from ..world import Record, World
from . import names
from .arm import ArmKind
from .instances import data_hash, mark_models, model_hash, resize
from .reachability import verify_reachable
from .records import Doc, below, name_of
from .scale_set_rules import decode_custom_data, verify


class VirtualMachineScaleSet(ArmKind):
    """A scale set and its machines.

    Every update is a PUT of the whole model, capacity included (pulumi/pulumi-azure-native provider.go, Update), and
    what Azure keeps to itself is in no answer: custom data, passwords and user data are never read back
    (learn.microsoft.com "Custom data and cloud-init on Azure Virtual Machines").
    """

    token = "azure-native:compute:VirtualMachineScaleSet"
    arm_type = "Microsoft.Compute/virtualMachineScaleSets"
    api_version = "2024-11-01"
    name_input = "vmScaleSetName"
    name_rule = names.SCALE_SET
    # The path, and the location: read and create only in the common types of Azure/azure-rest-api-specs.
    replace_on = frozenset({"resourceGroupName", "vmScaleSetName", "location"})
    schema_defaults = {"orchestrationMode": "Uniform", "overprovision": True}

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        # Uniform sets have one placement group, and Flexible sets several, when the program does not say.
        doc.setdefault("singlePlacementGroup", doc["orchestrationMode"] == "Uniform")
        verify(call, id, inputs, doc, old)
        data = decode_custom_data(inputs["virtualMachineProfile"]["osProfile"].get("customData"))
        verify_reachable(call.world, inputs, data)

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        profile = copy.deepcopy(inputs["virtualMachineProfile"])
        data = decode_custom_data(profile["osProfile"].pop("customData", None))
        profile["osProfile"].pop("adminPassword", None)
        profile.pop("userData", None)
        capacity = int(inputs["sku"]["capacity"])
        made: Doc = {
            "virtualMachineProfile": profile,
            "sku": {"tier": "Standard", **inputs["sku"], "capacity": capacity},
            "uniqueId": old["uniqueId"] if old else call.world.new_id("scale-set"),
            "etag": f'"{call.world.next("etag")}"',
            "_prefix": profile["osProfile"].get("computerNamePrefix") or name_of(id)[:9],
            "_customDataHash": data_hash(data),
            "_modelHash": model_hash(inputs),
        }
        resize(call.world, id, doc | made, capacity)
        mark_models(call.world, id, doc | made)
        return made

    def _remove(self, world: World, record: Record) -> None:
        for machine in below(world, record.id):
            world.remove(machine.package, machine.kind, machine.id)
            world.event(machine.package, "delete", machine.kind, machine.id)
        super()._remove(world, record)
