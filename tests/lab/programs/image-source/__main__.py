"""One image of a rack and one on Azure, as their settings say."""

import pulumi
import pulumi_azure_native as azure
from hybrid_talos import Platform, TalosImage

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"

settings = pulumi.Config("hybrid-talos").require_object("settings")
wanted, endpoints = settings["image"], settings["azure"]["endpoints"]

provider = azure.Provider("azure", subscription_id=SUBSCRIPTION)
group = azure.resources.ResourceGroup(
    "group",
    resource_group_name="images",
    location="westeurope",
    opts=pulumi.ResourceOptions(provider=provider),
)
same = {"factory_url": wanted["factoryUrl"], **wanted["more"]}
rack = TalosImage("rack", {"platform": Platform.METAL, **same})
image = TalosImage(
    "image",
    {
        "platform": Platform.AZURE,
        **same,
        **wanted["azure"],
        "azure": {
            "resource_group_name": group.name,
            "location": "westeurope",
            "endpoints": {"blob": endpoints["blob"], "resource_manager": endpoints["resourceManager"]},
        },
    },
    pulumi.ResourceOptions(providers=[provider]),
)
pulumi.export("installerImage", rack.installer_image)
pulumi.export("isoUrl", rack.iso_url)
pulumi.export("imageId", image.image_id)
