package machined

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

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

// EtcdStatus tells of the local member; it needs no quorum.
func (s *Server) EtcdStatus(ctx context.Context, _ *emptypb.Empty) (*machineapi.EtcdStatusResponse, error) {
	if err := s.controlPlane(ctx, "etcd status"); err != nil {
		return nil, err
	}

	answer := &machineapi.EtcdMemberStatus{}

	err := s.do(func() error {
		etcd, err := s.reach(true)
		if err != nil {
			return fmt.Errorf("failed to query etcd status: %w", err)
		}

		_, member := s.node.Etcd()
		version := s.etcdVersion()
		*answer = machineapi.EtcdMemberStatus{
			StorageVersion: version[:strings.LastIndex(version, ".")] + ".0", ProtocolVersion: version,
			MemberId: member.ID, DbSize: 8 << 20, DbSizeInUse: 4 << 20, RaftIndex: etcd.Index, RaftTerm: etcd.Term,
			RaftAppliedIndex: etcd.Index, IsLearner: member.Learner,
		}

		if s.fleet.Quorum(etcd) {
			answer.Leader = etcd.Leader
		} else {
			answer.Errors = []string{"etcdserver: no leader"}
		}

		if s.node.Trouble.DiskFull {
			answer.Errors = append(answer.Errors, "memberID:"+fmt.Sprint(member.ID)+" alarm:NOSPACE ")
		}

		return nil
	})
	if err != nil {
		return nil, err
	}

	return &machineapi.EtcdStatusResponse{Messages: []*machineapi.EtcdStatus{{MemberStatus: answer}}}, nil
}

func (s *Server) etcdVersion() string {
	ref := s.node.Config().Cluster().Etcd().Image()
	if at := strings.LastIndex(ref, ":v"); at >= 0 {
		return ref[at+2:]
	}

	return "3.6.9"
}

func (s *Server) alarms() []*machineapi.EtcdMemberAlarm {
	var alarms []*machineapi.EtcdMemberAlarm

	etcd, _ := s.node.Etcd()
	if etcd == nil {
		return nil
	}

	for _, member := range etcd.Members {
		if node := s.fleet.ByName(member.Node); node != nil && node.Trouble.DiskFull {
			alarms = append(alarms, &machineapi.EtcdMemberAlarm{MemberId: member.ID, Alarm: machineapi.EtcdMemberAlarm_NOSPACE})
		}
	}

	return alarms
}

// EtcdAlarmList lists the alarms of all members.
func (s *Server) EtcdAlarmList(ctx context.Context, _ *emptypb.Empty) (*machineapi.EtcdAlarmListResponse, error) {
	if err := s.controlPlane(ctx, "etcd alarm list"); err != nil {
		return nil, err
	}

	var alarms []*machineapi.EtcdMemberAlarm

	err := s.withQuorum(ctx, true, func(*fleet.Etcd) error {
		alarms = s.alarms()

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list etcd alarms: %w", err)
	}

	return &machineapi.EtcdAlarmListResponse{Messages: []*machineapi.EtcdAlarm{{MemberAlarms: alarms}}}, nil
}

// EtcdAlarmDisarm disarms the alarms; that of a disk that is still full comes back at once.
func (s *Server) EtcdAlarmDisarm(ctx context.Context, _ *emptypb.Empty) (*machineapi.EtcdAlarmDisarmResponse, error) {
	if err := s.controlPlane(ctx, "etcd alarm disarm"); err != nil {
		return nil, err
	}

	var alarms []*machineapi.EtcdMemberAlarm

	err := s.withQuorum(ctx, true, func(*fleet.Etcd) error {
		alarms = s.alarms()

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("failed to disarm etcd alarm: %w", err)
	}

	return &machineapi.EtcdAlarmDisarmResponse{Messages: []*machineapi.EtcdAlarmDisarm{{MemberAlarms: alarms}}}, nil
}

// EtcdDefragment has nothing to do here but to need a running member.
func (s *Server) EtcdDefragment(ctx context.Context, _ *emptypb.Empty) (*machineapi.EtcdDefragmentResponse, error) {
	if err := s.controlPlane(ctx, "etcd defragment"); err != nil {
		return nil, err
	}

	if err := s.do(func() error {
		_, err := s.reach(true)

		return err
	}); err != nil {
		return nil, fmt.Errorf("failed to defragment etcd: %w", err)
	}

	return &machineapi.EtcdDefragmentResponse{Messages: []*machineapi.EtcdDefragment{{}}}, nil
}
