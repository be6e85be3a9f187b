"""What taking over puts into an empty stack before the program runs: the secrets, and the place to install from.

The resources have the names, types and parents that the program gives them, so that it finds them there; a test holds
the two against each other.
"""

import pulumi
import pulumiverse_talos as talos
from hybrid_talos.talos_image import Platform, TalosImage

from .images import image_args
from .providers import talos_provider
from .settings import Settings

VARIABLE = "HYBRID_TALOS_TAKEOVER_SECRETS"
"""Environment variable with the path of the pipe that the secrets come through."""


class _ControlPlane(pulumi.ComponentResource):
    """Stands where HAControlPlane will stand."""

    def __init__(self, opts: pulumi.ResourceOptions) -> None:
        super().__init__("hybrid-talos:index:HAControlPlane", "control-plane", {}, opts)


def declare(settings: Settings, secrets: str) -> None:
    """Declare the secrets, imported from a path, and what is needed to know the machines' configurations."""
    if settings.image.installer_image is None:
        # Its reference stands in every configuration.
        TalosImage("image-metal", image_args(settings, Platform.METAL))
    control_plane = _ControlPlane(pulumi.ResourceOptions(providers=[talos_provider()]))
    talos.machine.Secrets(
        "control-plane-secrets",
        opts=pulumi.ResourceOptions(
            parent=control_plane,
            import_=secrets,
            protect=True,
            # As HAControlPlane has it. The provider sets a release of its own choice, and the contract of the
            # configurations is `cluster.configContract`.
            ignore_changes=["talos_version"],
            # The provider marks only some fields inside of these.
            additional_secret_outputs=["machine_secrets", "client_configuration"],
        ),
    )
