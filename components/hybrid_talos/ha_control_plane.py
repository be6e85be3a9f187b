"""A highly available Talos control plane on machines that exist."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi
import pulumiverse_talos as talos

from . import cluster_patches as patches
from . import control_plane_config as config
from ._contract import BadInputs, check
from .certificate_watch import CertificateWatch
from .cluster_birth import BirthMember, EndpointCheck, EtcdBootstrap
from .cluster_endpoint import url
from .cluster_life import ControlPlaneMember
from .cluster_rotation import Rotating, Rotation
from .cni import Cni
from .control_plane_inputs import HAControlPlaneArgs, HAControlPlaneShape
from .kubernetes_ready import KubernetesReady
from .life_inputs import shared_props
from .machine import MachineShape
from .machine_config import has_hostname_document
from .machine_life import Life, Versions, configuration_apply, configuration_digests
from .rotated_secrets import RotatedSecrets, declared
from .site import secret_or_none
from .versions import check_contract

__all__ = ["HAControlPlane", "HAControlPlaneArgs"]


class HAControlPlane(pulumi.ComponentResource):
    """Control planes on machines that exist: secrets made once, a configuration for each machine, applied one after
    the other, the cluster started exactly once, its health waited for, and credentials for it.

    Later, members are added, replaced and removed, and Talos and Kubernetes are upgraded, one machine after the other
    and never without quorum.

    The machines must be booted from a Talos image and reachable from where Pulumi runs, over a network that is
    trusted: the first configuration goes to a machine that cannot prove yet who it is.
    """

    kubeconfig: pulumi.Output[str]
    """Credentials of a cluster administrator, with the cluster's endpoint as server. Secret; there once the
    Kubernetes API answers, so that whatever uses it finds the cluster."""
    talosconfig: pulumi.Output[str]
    """Credentials of a Talos administrator, with all control planes as endpoints. Secret."""
    endpoints: pulumi.Output[Sequence[str]]
    """Addresses of the Talos API of all control planes."""
    cluster_endpoint: pulumi.Output[str]
    """Address of the Kubernetes API, as `https://host:port`."""
    machine_secrets: pulumi.Output[Mapping[str, Any]]
    """All secrets of the cluster, private keys of its authorities included, keyed as the Talos provider keys them.
    Secret."""
    worker_machine_config: pulumi.Output[str]
    """Configuration that every worker starts from: no private keys of authorities, no install section, no name and no
    place in the mesh. Secret. Whatever uses it waits for the control planes."""
    client_configuration: pulumi.Output[Mapping[str, str]]
    """Credentials for the Talos API: `caCertificate`, `clientCertificate`, `clientKey`. Secret."""

    def __init__(self, name: str, args: HAControlPlaneArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        shape = check(f"HAControlPlane '{name}'", args, HAControlPlaneArgs, HAControlPlaneShape)
        super().__init__("hybrid-talos:index:HAControlPlane", name, {}, opts)
        # By name, so that another order of the same machines plans nothing.
        members = sorted(shape.control_planes, key=lambda member: member.name)
        first = members[0]
        # None leaves the caller's own protect to the engine's inheritance; false would undo it.
        protect = True if shape.protect else None

        secrets = declared(
            f"{name}-secrets",
            shape.birth_contract,
            # Without them nobody can talk to the machines any more, and no other set fits them.
            pulumi.ResourceOptions(parent=self, protect=protect),
        )
        rotated = RotatedSecrets(
            name, secrets, shape.rotation, contract=shape.birth_contract, protect=protect, parent=self
        )
        machine_secrets, client = rotated.machine_secrets, rotated.client
        contract: pulumi.Output[str] = (
            pulumi.Output.from_input(shape.birth_contract)
            if shape.config_contract is not None
            else secrets.talos_version.apply(lambda recorded: _fitting(name, recorded, shape))
        )
        checked = self._checked_name(name, shape)
        # The URN is known in a preview: the machines' configurations wait for the look-up, and stay known.
        endpoint = pulumi.Output.all(args["endpoint"]["host"], *checked).apply(
            lambda known: url(known[0], shape.endpoint.port)
        )
        lookup = pulumi.InvokeOutputOptions(parent=self)

        def generated(role: str, own: list[pulumi.Input[str]]) -> pulumi.Output[str]:
            result = talos.machine.get_configuration_output(
                cluster_name=shape.cluster_name,
                cluster_endpoint=endpoint,
                machine_type=role,
                # One object with the provider's own keys: see provider_form.
                machine_secrets=cast(Any, machine_secrets),
                kubernetes_version=shape.kubernetes_version,
                talos_version=contract,
                config_patches=cast(Any, own),
                docs=False,
                examples=False,
                opts=lookup,
            )
            return pulumi.Output.secret(result.machine_configuration)

        base = generated("controlplane", [])
        passwords = _passwords(shape)
        shared = self._shared_patches(shape, args, contract, passwords)
        shared += rotated.control_plane_patches()
        of_member = {
            member.name: [
                # Typed inputs come after patches and win over them.
                *(pulumi.Output.secret(patch) for patch in (*shape.config_patches, *member.config_patches)),
                *shared,
                _own_patch(contract, member, args["installer_image"], shape),
            ]
            for member in members
        }
        by_name = {member.name: member for member in members}
        life = Life(
            name=name,
            role="controlplane",
            parent=self,
            shared=shared_props(
                shape.upgrade,
                members=shape.known_members,
                client_configuration=client,
                kubernetes_server=shape.endpoints.kubernetes,
                snapshots=shape.snapshots,
                cluster_name=shape.cluster_name,
            ),
            machines=shape.known_members,
            versions=Versions(shape.talos_version, shape.kubernetes_version, args["installer_image"]),
            teardown=not shape.protect,
        )

        def apply(member: str, opts: pulumi.ResourceOptions) -> pulumi.Resource:
            return configuration_apply(
                f"{name}-{member}-config", by_name[member], client, base, of_member[member], opts
            )

        digests = {member: configuration_digests(base, own) for member, own in of_member.items()}
        images = shape.component_images.upgrade_flags if shape.component_images is not None else {}
        applied = life.configured(apply, digests, life.upgrades(images, after=self._gates(name, life, rotated)))

        # Whoever is first at the birth starts the cluster, whatever becomes of the list: recorded before anything is
        # asked of a machine, and never changed.
        birth = BirthMember(
            f"{name}-birth",
            member=shape.known_members[0],
            opts=pulumi.ResourceOptions(parent=self),
        )
        bootstrap = EtcdBootstrap(
            f"{name}-bootstrap",
            first=birth.member,
            members=shape.known_members,
            client_configuration=cast(Any, client),
            opts=pulumi.ResourceOptions(
                parent=self,
                # The machine that starts the cluster must have its configuration.
                depends_on=applied[:1],
                # A record that the cluster was started, once.
                protect=protect,
                additional_secret_outputs=["client_configuration"],
            ),
        )
        credentials = talos.cluster.Kubeconfig(
            f"{name}-kubeconfig",
            node=first.address,
            endpoint=first.reached_at,
            client_configuration=cast(Any, client),
            opts=pulumi.ResourceOptions(
                parent=self,
                # Whoever uses the kubeconfig needs a cluster that was started.
                depends_on=[bootstrap],
                # The provider marks the text only, not its parts.
                additional_secret_outputs=["client_configuration", "kubernetes_client_configuration", "kubeconfig_raw"],
            ),
        )
        ready = KubernetesReady(
            f"{name}-api-ready",
            server=endpoint,
            # A certificate, which every client of the cluster gets to see, and nothing else of the secrets.
            authority=pulumi.Output.unsecret(machine_secrets.apply(config.kubernetes_authority)),
            connect_to=shape.endpoints.kubernetes,
            minutes=shape.api_ready_minutes,
            opts=pulumi.ResourceOptions(
                parent=self,
                # Before that there is nothing to wait for: machines that have their configuration start no API alone.
                depends_on=[credentials],
            ),
        )
        CertificateWatch(
            f"{name}-certificates",
            client_configuration=client,
            kubeconfig=credentials.kubeconfig_raw,
            opts=pulumi.ResourceOptions(parent=self),
        )
        # Where Talos installs no pod network, no Node is ready before somebody else brings one.
        healthy = life.health(digests, [*applied, bootstrap, ready], nodes_ready=shape.cni is Cni.FLANNEL)
        reached = [member.reached_at for member in members]
        talosconfig = talos.client.get_configuration_output(
            client_configuration=cast(Any, client),
            cluster_name=shape.cluster_name,
            endpoints=reached,
            nodes=[first.address],
            opts=lookup,
        )
        worker = generated(
            "worker",
            [
                pulumi.Output.all(contract=contract, passwords=passwords).apply(
                    lambda known: patches.worker_base(known["contract"], shape.common, known["passwords"])
                ),
                *rotated.worker_patches(),
            ],
        )

        self.kubeconfig = pulumi.Output.secret(
            # The URN is known in a preview, so this orders without hiding the value: whoever goes to the API waits.
            pulumi.Output.all(credentials.kubeconfig_raw, endpoint, ready.urn, healthy.urn).apply(
                lambda v: config.kubeconfig_for(v[0], v[1])
            )
        )
        self.talosconfig = pulumi.Output.secret(talosconfig.talos_config)
        self.endpoints = pulumi.Output.from_input(cast(Sequence[str], reached))
        self.cluster_endpoint = endpoint
        self.machine_secrets = machine_secrets
        # URNs are known in a preview, so this orders without hiding the value: workers change after control planes
        # and go before them.
        self.worker_machine_config = pulumi.Output.secret(
            pulumi.Output.all(worker, healthy.urn, *(resource.urn for resource in applied)).apply(
                lambda v: cast(str, v[0])
            )
        )
        self.client_configuration = client
        # For a StaticWorkerPool of the same program; plain, so it is no output.
        self.members: Sequence[ControlPlaneMember] = shape.known_members
        # For the static workers and the record of a rotation, in the same way.
        self.static_worker_patches: Sequence[pulumi.Output[str]] = rotated.static_worker_patches()
        self.rotating: Rotating | None = rotated.rotating(life.shared)
        self.register_outputs(
            {
                "kubeconfig": self.kubeconfig,
                "talosconfig": self.talosconfig,
                "endpoints": self.endpoints,
                "clusterEndpoint": self.cluster_endpoint,
                "machineSecrets": self.machine_secrets,
                "workerMachineConfig": self.worker_machine_config,
                "clientConfiguration": self.client_configuration,
            }
        )

    def _gates(self, name: str, life: Life, rotated: RotatedSecrets) -> list[pulumi.Resource]:
        """Declare what stands before all changes when there is or was a rotation."""
        if not rotated.begun:
            return []
        opts = pulumi.ResourceOptions(parent=self, additional_secret_outputs=["client_configuration"])
        return [Rotation(f"{name}-rotation", {**life.shared, **rotated.gate_props()}, opts)]

    def _checked_name(self, name: str, shape: HAControlPlaneShape) -> list[pulumi.Output[str]]:
        """Look up the endpoint's name, if it has one; return what must be waited for."""
        host = shape.endpoint.name_to_check
        if host is None:
            return []
        members = sorted(shape.control_planes, key=lambda member: member.name)
        checked = EndpointCheck(
            f"{name}-endpoint",
            host=host,
            kind=str(shape.endpoint.kind),
            members=[{"name": member.name, "addresses": list(member.addresses)} for member in members],
            nameserver=shape.endpoints.nameserver,
            record=shape.endpoint.record_id,
            opts=pulumi.ResourceOptions(parent=self),
        )
        return [checked.urn]

    @staticmethod
    def _shared_patches(
        shape: HAControlPlaneShape,
        args: HAControlPlaneArgs,
        contract: pulumi.Output[str],
        passwords: pulumi.Output[dict[str, str]],
    ) -> list[pulumi.Input[str]]:
        """Return the patches of every control plane, in the order of their weight.

        They stand beside the generated configuration rather than in it, so that a preview shows what changes; only
        those with a password in them are secrets.
        """
        members = sorted(shape.control_planes, key=lambda member: member.name)
        names = pulumi.Output.all(
            args["endpoint"]["host"],
            *(address for member in members for address in member.addresses),
            *shape.cert_sans,
        )
        found: list[pulumi.Input[str]] = [
            contract.apply(lambda c: patches.render(patches.every_machine(c, shape.common))),
            names.apply(
                lambda values: patches.render(
                    config.control_planes(
                        sans=config.certificate_names(values),
                        cni=shape.cni,
                        node_subnets=[str(subnet) for subnet in shape.node_subnets],
                        vip=shape.endpoint.vip,
                        local_port=shape.endpoint.local_port,
                        images=shape.component_images,
                        kubernetes_version=shape.kubernetes_version,
                    )
                )
            ),
        ]
        if shape.registries:
            found.append(
                pulumi.Output.all(contract=contract, passwords=passwords).apply(
                    lambda known: patches.render(patches.logins(known["contract"], shape.common, known["passwords"]))
                )
            )
        if "site" in args:
            found.append(
                pulumi.Output.all(
                    contract=contract, host=args["endpoint"]["host"], password=secret_or_none(shape.site.password)
                ).apply(
                    lambda known: patches.render(
                        patches.site(
                            known["contract"], shape.site, [known["host"], *shape.own_names], known["password"]
                        )
                    )
                )
            )
        if "location" in args:
            found.append(pulumi.Output.from_input(args["location"]).apply(config.location_patch))
        return found


def _fitting(name: str, recorded: str, shape: HAControlPlaneShape) -> str:
    """Return the contract of the cluster's birth; BadInputs, in a preview too, when it does not fit the versions."""
    problem = check_contract(recorded, shape.talos_version, shape.kubernetes_version)
    if problem:
        raise BadInputs(
            f"HAControlPlane '{name}': kubernetes_version: {problem}. The contract was recorded at the cluster's "
            "birth: set config_contract to raise it"
        )
    return recorded


def _passwords(shape: HAControlPlaneShape) -> pulumi.Output[dict[str, str]]:
    """Return the passwords of registries by host; a secret if there is any."""
    given = {
        host: pulumi.Output.secret(registry.password)
        for host, registry in sorted(shape.registries.items())
        if registry.password is not None
    }
    return cast(Any, pulumi.Output.all(**given)) if given else pulumi.Output.from_input({})


def _own_patch(
    contract: pulumi.Output[str],
    member: MachineShape,
    installer_image: pulumi.Input[str],
    shape: HAControlPlaneShape,
) -> pulumi.Output[str]:
    def rendered(known: Sequence[Any]) -> str:
        own = patches.one_machine(
            member,
            hostname_document=has_hostname_document(known[0]),
            installer_image=known[1],
            control_plane=True,
        )
        vip = config.virtual_address(known[0], shape.endpoint.vip, shape.vip_link(member))
        return patches.render(patches.joined([*own, *vip]))

    return pulumi.Output.all(contract, installer_image).apply(rendered)
