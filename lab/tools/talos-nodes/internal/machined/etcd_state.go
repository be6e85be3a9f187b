package machined

import (
	"context"
	"fmt"
	"strings"

	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/types/known/emptypb"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

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
