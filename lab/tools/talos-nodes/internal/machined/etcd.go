package machined

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/apid"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

const chunk = 32 << 10

// Bootstrap makes this node's etcd the first member.
func (s *Server) Bootstrap(ctx context.Context, in *machineapi.BootstrapRequest) (*machineapi.BootstrapResponse, error) {
	apid.Note(ctx, "recover", in.GetRecoverEtcd())

	var running bool

	s.fleet.Do(func() { running = s.node.Phase == fleet.Running })

	if !running {
		return nil, status.Error(codes.FailedPrecondition, "bootstrap is not available yet")
	}

	if err := s.controlPlane(ctx, "bootstrap"); err != nil {
		return nil, err
	}

	if err := s.do(func() error { return s.fleet.Bootstrap(s.node, in.GetRecoverEtcd(), in.GetRecoverSkipHashCheck()) }); err != nil {
		return nil, err
	}

	return &machineapi.BootstrapResponse{Messages: []*machineapi.Bootstrap{{}}}, nil
}

// EtcdRecover takes a snapshot for the bootstrap that follows.
func (s *Server) EtcdRecover(stream grpc.ClientStreamingServer[common.Data, machineapi.EtcdRecoverResponse]) error {
	if err := s.controlPlane(stream.Context(), "etcd recover"); err != nil {
		return err
	}

	var data []byte

	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return err
		}

		data = append(data, message.GetBytes()...)
	}

	apid.Note(stream.Context(), "bytes", len(data))

	if err := s.do(func() error { return s.node.KeepRecovery(data) }); err != nil {
		return fmt.Errorf("error writing snapshot: %w", err)
	}

	return stream.SendAndClose(&machineapi.EtcdRecoverResponse{Messages: []*machineapi.EtcdRecover{{}}})
}

// EtcdSnapshot streams what the local member holds.
func (s *Server) EtcdSnapshot(_ *machineapi.EtcdSnapshotRequest, stream grpc.ServerStreamingServer[common.Data]) error {
	if err := s.controlPlane(stream.Context(), "etcd snapshot"); err != nil {
		return err
	}

	var data []byte

	err := s.do(func() error {
		etcd, _ := s.node.Etcd()
		if etcd == nil || !s.node.EtcdRunning() {
			return fleet.ErrNotRunning
		}

		var err error

		data, err = etcd.Snapshot()
		s.node.Counts.Snapshots++
		s.fleet.Changed(s.node)

		return err
	})
	if err != nil {
		return fmt.Errorf("failed reading etcd snapshot: %w", err)
	}

	for len(data) > 0 {
		part := data[:min(chunk, len(data))]
		data = data[len(part):]

		if err = stream.Send(&common.Data{Bytes: part}); err != nil {
			return err
		}
	}

	return nil
}

// reach returns the etcd that clients of this node reach: its own member, or any control plane's.
func (s *Server) reach(local bool) (*fleet.Etcd, error) {
	if local {
		etcd, _ := s.node.Etcd()
		if etcd == nil || !s.node.EtcdRunning() {
			return nil, fleet.ErrNotRunning
		}

		return etcd, nil
	}

	if etcd := s.fleet.EtcdOf(s.node.ClusterID()); etcd != nil {
		return etcd, nil
	}

	return nil, fleet.ErrNotRunning
}

// withQuorum runs a call that etcd answers only with a leader. Without one it fails after a while, as clients see it.
func (s *Server) withQuorum(ctx context.Context, local bool, change func(*fleet.Etcd) error) error {
	leaderless := false

	err := s.do(func() error {
		etcd, err := s.reach(local)
		if err != nil {
			return err
		}

		if !s.fleet.Quorum(etcd) {
			leaderless = true

			return nil
		}

		return change(etcd)
	})
	if !leaderless {
		return err
	}

	if err = wait(ctx, s.fleet.Timings.Etcd.Duration()); err != nil {
		return err
	}

	return fleet.ErrNoLeader
}

// EtcdMemberList lists the members.
func (s *Server) EtcdMemberList(ctx context.Context, in *machineapi.EtcdMemberListRequest) (*machineapi.EtcdMemberListResponse, error) {
	if err := s.controlPlane(ctx, "member list"); err != nil {
		return nil, err
	}

	members := &machineapi.EtcdMembers{}

	err := s.withQuorum(ctx, in.GetQueryLocal(), func(etcd *fleet.Etcd) error {
		for _, member := range etcd.Members {
			members.LegacyMembers = append(members.LegacyMembers, member.Name)
			members.Members = append(members.Members, &machineapi.EtcdMember{
				Id: member.ID, Hostname: member.Name, PeerUrls: []string{member.PeerURL()},
				ClientUrls: []string{member.ClientURL()}, IsLearner: member.Learner,
			})
		}

		return nil
	})
	if err != nil {
		return nil, err
	}

	return &machineapi.EtcdMemberListResponse{Messages: []*machineapi.EtcdMembers{members}}, nil
}

// EtcdRemoveMemberByID removes a member that cannot leave by itself.
func (s *Server) EtcdRemoveMemberByID(ctx context.Context, in *machineapi.EtcdRemoveMemberByIDRequest) (*machineapi.EtcdRemoveMemberByIDResponse, error) {
	apid.Note(ctx, "member", fmt.Sprintf("%016x", in.GetMemberId()))

	if err := s.controlPlane(ctx, "etcd remove member"); err != nil {
		return nil, err
	}

	err := s.withQuorum(ctx, false, func(etcd *fleet.Etcd) error { return s.fleet.Remove(etcd, in.GetMemberId()) })

	switch {
	case errors.Is(err, fleet.ErrNotFound):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("failed to remove member: %w", err)
	}

	return &machineapi.EtcdRemoveMemberByIDResponse{Messages: []*machineapi.EtcdRemoveMemberByID{{}}}, nil
}

// EtcdLeaveCluster takes this node out of etcd. As in Talos it tries again while the cluster is unhealthy.
func (s *Server) EtcdLeaveCluster(ctx context.Context, _ *machineapi.EtcdLeaveClusterRequest) (*machineapi.EtcdLeaveClusterResponse, error) {
	if err := s.controlPlane(ctx, "etcd leave"); err != nil {
		return nil, err
	}

	ctx, cancel := context.WithTimeout(ctx, s.fleet.Timings.Leave.Duration())
	defer cancel()

	for {
		err := s.withQuorum(ctx, true, func(*fleet.Etcd) error { return s.fleet.Leave(s.node) })
		if err == nil {
			return &machineapi.EtcdLeaveClusterResponse{Messages: []*machineapi.EtcdLeaveCluster{{}}}, nil
		}

		if !errors.Is(err, fleet.ErrUnhealthy) || wait(ctx, s.fleet.Timings.Leave.Duration()/10) != nil {
			return nil, fmt.Errorf("failed to leave cluster: %w", err)
		}
	}
}

// EtcdForfeitLeadership lets another member lead.
func (s *Server) EtcdForfeitLeadership(ctx context.Context, _ *machineapi.EtcdForfeitLeadershipRequest) (*machineapi.EtcdForfeitLeadershipResponse, error) {
	if err := s.controlPlane(ctx, "etcd forfeit leadership"); err != nil {
		return nil, err
	}

	leader := ""

	err := s.withQuorum(ctx, false, func(etcd *fleet.Etcd) error {
		var err error

		leader, err = s.fleet.Forfeit(etcd, s.node)

		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to forfeit leadership: %w", err)
	}

	return &machineapi.EtcdForfeitLeadershipResponse{Messages: []*machineapi.EtcdForfeitLeadership{{Member: leader}}}, nil
}
