package cosi

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/dustin/go-humanize"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"github.com/siderolabs/talos/pkg/machinery/extensions"
	"github.com/siderolabs/talos/pkg/machinery/nethelpers"
	"github.com/siderolabs/talos/pkg/machinery/resources/block"
	"github.com/siderolabs/talos/pkg/machinery/resources/config"
	"github.com/siderolabs/talos/pkg/machinery/resources/hardware"
	"github.com/siderolabs/talos/pkg/machinery/resources/network"
	"github.com/siderolabs/talos/pkg/machinery/resources/runtime"
	"github.com/siderolabs/talos/pkg/machinery/resources/time"
	"github.com/siderolabs/talos/pkg/machinery/resources/v1alpha1"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// all returns every resource that a node has now.
func all(n *fleet.Node) []resource.Resource {
	found := append(disks(n), links(n)...)
	found = append(found, machine(n)...)

	if n.Configured() {
		found = append(found, configs(n)...)
		found = append(found, clusterResources(n)...)
		found = append(found, kubernetes(n)...)
		found = append(found, roots(n)...)
	}

	return found
}

func machine(n *fleet.Node) []resource.Resource {
	status := runtime.NewMachineStatus()
	stage, unmet := n.Stage()
	status.TypedSpec().Stage = runtime.MachineStage(stage)
	status.TypedSpec().Status.Ready = len(unmet) == 0

	for _, name := range sorted(unmet) {
		status.TypedSpec().Status.UnmetConditions = append(status.TypedSpec().Status.UnmetConditions,
			runtime.UnmetCondition{Name: name, Reason: unmet[name]})
	}

	version := runtime.NewVersion()
	version.TypedSpec().Name, version.TypedSpec().Version = "Talos", n.Image.Version

	security := runtime.NewSecurityStateSpec(runtime.NamespaceName)
	security.TypedSpec().SecureBoot = n.Spec.SecureBoot

	platform := runtime.NewPlatformMetadataSpec(runtime.NamespaceName, runtime.PlatformMetadataID)
	platform.TypedSpec().Platform = "metal"

	system := hardware.NewSystemInformation(hardware.SystemInformationID)
	system.TypedSpec().Manufacturer, system.TypedSpec().ProductName = "Fake", "Fake node"
	system.TypedSpec().UUID, system.TypedSpec().SerialNumber = n.UUID, n.Spec.Name

	synced := time.NewStatus()
	synced.TypedSpec().Synced = !n.Trouble.TimeUnsynced

	found := []resource.Resource{status, version, security, platform, system, synced}

	if n.Image.Schematic != "" {
		extension := runtime.NewExtensionStatus(runtime.NamespaceName, "0")
		extension.TypedSpec().Image = "0.sqsh"
		extension.TypedSpec().Metadata = extensions.Metadata{Name: "schematic", Version: n.Image.Schematic}
		found = append(found, extension)
	}

	if n.Trouble.Diagnostic != "" {
		diagnostic := runtime.NewDiagnostic(runtime.NamespaceName, "fake")
		diagnostic.TypedSpec().Message = n.Trouble.Diagnostic
		found = append(found, diagnostic)
	}

	for key, value := range n.Meta {
		number, err := strconv.ParseUint(key, 10, 8)
		if err != nil {
			continue
		}

		tag := runtime.NewMetaKey(runtime.NamespaceName, runtime.MetaKeyTagToID(uint8(number)))
		tag.TypedSpec().Value = value
		found = append(found, tag)
	}

	// As in Talos, a service has a resource while it runs.
	for _, info := range n.ServiceInfos() {
		if info.GetState() != fleet.StateRunning {
			continue
		}

		service := v1alpha1.NewService(info.GetId())
		service.TypedSpec().Running = true
		service.TypedSpec().Healthy = info.GetHealth().GetHealthy()
		service.TypedSpec().Unknown = info.GetHealth().GetUnknown()
		found = append(found, service)
	}

	return found
}

func configs(n *fleet.Node) []resource.Resource {
	found := []resource.Resource{config.NewMachineConfig(n.Config())}

	if persisted, err := configloader.NewFromBytes([]byte(n.Persisted)); err == nil {
		found = append(found, config.NewMachineConfigWithID(persisted, config.PersistentID))
	}

	kind := config.NewMachineType()
	kind.SetMachineType(n.Config().Machine().Type())

	return append(found, kind)
}

func disks(n *fleet.Node) []resource.Resource {
	var found []resource.Resource

	for i := range n.Spec.Disks {
		disk := block.NewDisk(block.NamespaceName, n.Spec.Disks[i].ID())
		*disk.TypedSpec() = n.Spec.Disks[i].Resource()
		found = append(found, disk)
	}

	if !n.Installed {
		return found
	}

	disk := n.SystemDisk()
	system := block.NewSystemDisk(block.NamespaceName, block.SystemDiskID)
	system.TypedSpec().DiskID, system.TypedSpec().DevPath = disk.ID(), disk.Path
	found = append(found, system)

	// What the partitions before EPHEMERAL take, in round numbers.
	const before = 4 << 30

	for i, volume := range []struct {
		label string
		size  uint64
		there bool
	}{
		{constants.MetaPartitionLabel, 1 << 20, true},
		{constants.StatePartitionLabel, 100 << 20, n.Configured()},
		{constants.EphemeralPartitionLabel, disk.Size - before, n.Configured()},
	} {
		if !volume.there {
			continue
		}

		status := block.NewVolumeStatus(block.NamespaceName, volume.label)
		spec := status.TypedSpec()
		spec.Phase, spec.Type = block.VolumePhaseReady, block.VolumeTypePartition
		spec.Location, spec.ParentLocation = fmt.Sprintf("%s%d", disk.Path, i+4), disk.Path
		spec.MountLocation, spec.PartitionIndex = spec.Location, i+4
		spec.Size, spec.PrettySize = volume.size, humanize.IBytes(volume.size)
		found = append(found, status)
	}

	return found
}

func links(n *fleet.Node) []resource.Resource {
	var (
		found     []resource.Resource
		addresses []netip.Prefix
	)

	for i, link := range n.Spec.Links {
		status := network.NewLinkStatus(network.NamespaceName, link.Name)
		spec := status.TypedSpec()
		spec.Index, spec.Type, spec.MTU, spec.Driver = uint32(i+2), nethelpers.LinkEther, 1500, link.Driver
		spec.LinkState = link.Up == nil || *link.Up
		spec.OperationalState = nethelpers.OperStateDown
		spec.BusPath = fmt.Sprintf("0000:00:%02x.0", i+3)

		if spec.LinkState {
			spec.OperationalState = nethelpers.OperStateUp
		}

		if mac, err := net.ParseMAC(link.MAC); err == nil {
			spec.HardwareAddr, spec.PermanentAddr = nethelpers.HardwareAddr(mac), nethelpers.HardwareAddr(mac)
		}

		found = append(found, status)

		for _, text := range link.Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				continue
			}

			address := network.NewAddressStatus(network.NamespaceName, link.Name+"/"+text)
			address.TypedSpec().Address, address.TypedSpec().Local = prefix, prefix.Addr()
			address.TypedSpec().LinkIndex, address.TypedSpec().LinkName = uint32(i+2), link.Name
			address.TypedSpec().Family = nethelpers.FamilyInet4

			if prefix.Addr().Is6() {
				address.TypedSpec().Family = nethelpers.FamilyInet6
			}

			found = append(found, address)
			addresses = append(addresses, prefix)
		}
	}

	current := network.NewNodeAddress(network.NamespaceName, network.NodeAddressCurrentID)
	current.TypedSpec().Addresses = addresses

	hostname := network.NewHostnameStatus(network.NamespaceName, network.HostnameID)
	hostname.TypedSpec().Hostname = n.Hostname()

	ready := network.NewStatus(network.NamespaceName, network.StatusID)
	*ready.TypedSpec() = network.StatusSpec{AddressReady: true, ConnectivityReady: true, HostnameReady: true, EtcFilesReady: true}

	return append(found, current, hostname, ready)
}
