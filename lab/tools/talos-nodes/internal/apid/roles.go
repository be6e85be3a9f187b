package apid

import (
	"context"
	"slices"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/role"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Metadata between the door and a node's server; a client's own is taken away at the door.
const (
	rolesKey = "fake-roles"
	fromKey  = "fake-from"
)

// roles returns what a caller's certificate allows, or what everybody may in maintenance mode.
func (r *router) roles(ctx context.Context) []string {
	if r.maintenance() {
		return []string{string(role.Reader)}
	}

	caller, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}

	info, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil
	}

	roles, _ := role.Parse(info.State.PeerCertificates[0].Subject.Organization)

	return roles.Strings()
}

// Roles returns the roles of the caller of a node's server.
func Roles(ctx context.Context) role.Set {
	md, _ := metadata.FromIncomingContext(ctx)
	roles, _ := role.Parse(md.Get(rolesKey))

	return roles
}

// ErrNotAuthorized is what Talos answers to a caller without a role for what it asks.
var ErrNotAuthorized = status.Error(codes.PermissionDenied, "not authorized")

// Who may call what besides administrators (internal/app/machined/pkg/system/services/machined.go).
var (
	readers = words(`
		cluster.ClusterService/HealthCheck inspect.InspectService/ControllerRuntimeDependencies
		machine.ImageService/List machine.ImageService/Verify
		cosi.resource.State/Get cosi.resource.State/List cosi.resource.State/Watch
		storage.StorageService/Disks time.TimeService/Time time.TimeService/TimeCheck
		machine.MachineService/CPUInfo machine.MachineService/CPUFreqStats machine.MachineService/Containers
		machine.MachineService/DiskStats machine.MachineService/DiskUsage machine.MachineService/Dmesg
		machine.MachineService/EtcdAlarmList machine.MachineService/EtcdMemberList machine.MachineService/EtcdStatus
		machine.MachineService/Events machine.MachineService/Hostname machine.MachineService/ImageList
		machine.MachineService/List machine.MachineService/LoadAvg machine.MachineService/Logs
		machine.MachineService/LogsContainers machine.MachineService/Memory machine.MachineService/Mounts
		machine.MachineService/NetworkDeviceStats machine.MachineService/Netstat machine.MachineService/Processes
		machine.MachineService/ServiceList machine.MachineService/Stats machine.MachineService/SystemStat
		machine.MachineService/Version`)
	// In maintenance mode everybody is a reader: these two look for themselves whether it is that.
	maintenance = words("machine.MachineService/ApplyConfiguration storage.StorageService/BlockDeviceWipe")
	operators   = words(`
		machine.ImageService/Pull machine.MachineService/EtcdAlarmDisarm machine.MachineService/EtcdDefragment
		machine.MachineService/EtcdSnapshot machine.MachineService/ImagePull machine.MachineService/PacketCapture
		machine.MachineService/Reboot machine.MachineService/Restart machine.MachineService/ServiceRestart
		machine.MachineService/ServiceStart machine.MachineService/ServiceStop machine.MachineService/Shutdown`)
	backups = words(`
		machine.MachineService/EtcdAlarmList machine.MachineService/EtcdMemberList
		machine.MachineService/EtcdSnapshot machine.MachineService/EtcdStatus`)
)

func words(text string) []string { return strings.Fields(text) }

func allowed(roles role.Set, method string) bool {
	name := strings.TrimPrefix(method, "/")

	switch {
	case roles.Includes(role.Admin):
		return true
	case roles.Includes(role.Operator) && (slices.Contains(readers, name) || slices.Contains(operators, name)):
		return true
	case roles.Includes(role.Reader) && (slices.Contains(readers, name) || slices.Contains(maintenance, name)):
		return true
	default:
		return roles.Includes(role.EtcdBackup) && slices.Contains(backups, name)
	}
}
