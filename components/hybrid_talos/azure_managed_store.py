"""A managed image: what the how-to does with a disk, a grant and azcopy, as one resource, and what cleans up."""

import pulumi

from .azure_image_inputs import AzureShape
from .azure_image_names import managed_image_name
from .azure_image_resources import AzureManagedImage, AzureManagedRetention
from .image_upload import ImageSource
from .schematic import schematic_id


def build_managed_image(
    name: str, shape: AzureShape, source: ImageSource, parent: pulumi.Resource
) -> pulumi.Output[str]:
    """Declare the image's resources and return its id."""
    child = pulumi.ResourceOptions(parent=parent)
    version = source["talos_version"].removeprefix("v")
    image_name = managed_image_name(name, shape.location, source["content"], version)
    retention = AzureManagedRetention(
        f"{name}-retention",
        subscription_id=shape.subscription_id,
        resource_group=shape.resource_group_name,
        owner=name,
        current=image_name,
        retain=shape.retain,
        access=shape.access,
        opts=child,
    )
    image = AzureManagedImage(
        f"{name}-managed",
        subscription_id=shape.subscription_id,
        resource_group=shape.resource_group_name,
        location=shape.location,
        image=image_name,
        source=source,
        tags=pulumi.Output.from_input(shape.tags or {}).apply(
            lambda given: {
                **given,
                "hybrid-talos-image": name,
                "talos-version": version,
                "talos-schematic": schematic_id(source["schematic"]),
                "talos-content": source["content"],
            }
        ),
        access=shape.access,
        opts=pulumi.ResourceOptions.merge(
            child,
            # Kept by the cloud when it leaves the state; the retention deletes it, and must be destroyed after it.
            pulumi.ResourceOptions(retain_on_delete=True, depends_on=[retention]),
        ),
    )
    return image.image_id
