"""One image on Azure and nothing else, as its settings say."""

import pulumi
import pulumi_azure_native as azure
from hybrid_talos import AzureImageStore, Platform, TalosImage

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
image = TalosImage(
    "image",
    {
        "platform": Platform.AZURE,
        "talos_version": "1.14.0",
        "factory_url": wanted["factoryUrl"],
        "extensions": wanted["extensions"],
        "azure": {
            "resource_group_name": group.name,
            "location": "westeurope",
            "store": AzureImageStore(wanted["store"]),
            "subscription_id": SUBSCRIPTION,
            "retain": int(wanted["retain"]),
            "endpoints": {"blob": endpoints["blob"], "resource_manager": endpoints["resourceManager"]},
        },
    },
    pulumi.ResourceOptions(providers=[provider]),
)
pulumi.export("imageId", image.image_id)
