"""One image in each of some regions of Alibaba Cloud and nothing else, as its settings say."""

import pulumi
import pulumi_alicloud as alicloud
from hybrid_talos import Platform, TalosImage

settings = pulumi.Config("hybrid-talos").require_object("settings")
wanted, endpoints = settings["image"], settings["aliyun"]["endpoints"]

for region in wanted["regions"]:
    image = TalosImage(
        f"image-{region}",
        {
            "platform": Platform.ALIBABACLOUD,
            "talos_version": wanted["talosVersion"],
            "factory_url": wanted["factoryUrl"],
            "extensions": wanted["extensions"],
            "aliyun": {
                "region": region,
                "retain": int(wanted["retain"]),
                "experimental_metal": wanted["metal"],
                "endpoints": endpoints,
            },
        },
        pulumi.ResourceOptions(providers=[alicloud.Provider(region, region=wanted.get("providerRegion", region))]),
    )
    pulumi.export(region, image.image_id)
