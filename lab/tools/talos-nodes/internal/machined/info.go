package machined

import (
	"context"
	"os"
	goruntime "runtime"

	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	timeapi "github.com/siderolabs/talos/pkg/machinery/api/time"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Version tells which Talos runs.
func (s *Server) Version(context.Context, *emptypb.Empty) (*machineapi.VersionResponse, error) {
	version := &machineapi.Version{}

	s.fleet.Do(func() {
		version.Version = &machineapi.VersionInfo{
			Tag: s.node.Image.Version, Sha: "fake", GoVersion: goruntime.Version(), Os: "linux", Arch: s.node.Spec.Arch,
		}
		version.Platform = &machineapi.PlatformInfo{Name: "metal", Mode: "metal"}

		if s.node.Configured() {
			version.Features = &machineapi.FeaturesInfo{Rbac: true}
		}
	})

	return &machineapi.VersionResponse{Messages: []*machineapi.Version{version}}, nil
}

// Hostname returns the hostname.
func (s *Server) Hostname(context.Context, *emptypb.Empty) (*machineapi.HostnameResponse, error) {
	var name string

	s.fleet.Do(func() { name = s.node.Hostname() })

	return &machineapi.HostnameResponse{Messages: []*machineapi.Hostname{{Hostname: name}}}, nil
}

// Memory returns the memory that the fleet's description gives the machine.
func (s *Server) Memory(context.Context, *emptypb.Empty) (*machineapi.MemoryResponse, error) {
	total := s.node.Spec.MemoryMiB << 10

	return &machineapi.MemoryResponse{Messages: []*machineapi.Memory{{Meminfo: &machineapi.MemInfo{
		Memtotal: total, Memfree: total / 2, Memavailable: total / 2,
	}}}}, nil
}

// LoadAvg returns a load.
func (s *Server) LoadAvg(context.Context, *emptypb.Empty) (*machineapi.LoadAvgResponse, error) {
	return &machineapi.LoadAvgResponse{Messages: []*machineapi.LoadAvg{{Load1: 0.25, Load5: 0.2, Load15: 0.1}}}, nil
}

// SystemStat returns when the machine was started, and nothing of what its processors did.
func (s *Server) SystemStat(context.Context, *emptypb.Empty) (*machineapi.SystemStatResponse, error) {
	stat := &machineapi.SystemStat{}

	s.fleet.Do(func() { stat.BootTime = uint64(s.node.Started.Unix()) })

	return &machineapi.SystemStatResponse{Messages: []*machineapi.SystemStat{stat}}, nil
}

type clock struct {
	timeapi.UnimplementedTimeServiceServer
	*Server
}

func (c *clock) answer(server string) *timeapi.TimeResponse {
	now := timestamppb.Now()

	return &timeapi.TimeResponse{Messages: []*timeapi.Time{{Server: server, Localtime: now, Remotetime: now}}}
}

// Time compares the clock with the configured time server: it is the same clock here.
func (c *clock) Time(context.Context, *emptypb.Empty) (*timeapi.TimeResponse, error) {
	return c.answer("time.cloudflare.com"), nil
}

// TimeCheck compares the clock with a server.
func (c *clock) TimeCheck(_ context.Context, in *timeapi.TimeRequest) (*timeapi.TimeResponse, error) {
	return c.answer(in.GetServer()), nil
}

func noSuchFile(path string) error {
	return &os.PathError{Op: "stat", Path: path, Err: os.ErrNotExist}
}
