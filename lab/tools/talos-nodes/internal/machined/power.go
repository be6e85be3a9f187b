package machined

import (
	"context"
	"errors"
	"fmt"
	"slices"

	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/apid"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

func (s *Server) begin(sequence fleet.Sequence) string {
	var actor string

	s.fleet.Do(func() { actor = s.node.Begin(sequence) })

	return actor
}

// Reboot starts the reboot sequence.
func (s *Server) Reboot(context.Context, *machineapi.RebootRequest) (*machineapi.RebootResponse, error) {
	actor := s.begin(fleet.Sequence{Name: "reboot"})

	return &machineapi.RebootResponse{Messages: []*machineapi.Reboot{{ActorId: actor}}}, nil
}

// Shutdown starts the shutdown sequence.
func (s *Server) Shutdown(_ context.Context, in *machineapi.ShutdownRequest) (*machineapi.ShutdownResponse, error) {
	actor := s.begin(fleet.Sequence{Name: "shutdown", Force: in.GetForce()})

	return &machineapi.ShutdownResponse{Messages: []*machineapi.Shutdown{{ActorId: actor}}}, nil
}

// Rollback goes back to the Talos before the last upgrade, with a reboot.
func (s *Server) Rollback(context.Context, *machineapi.RollbackRequest) (*machineapi.RollbackResponse, error) {
	err := s.do(func() error {
		if s.node.Previous == nil {
			return errors.New("previous installation not found")
		}

		s.node.Begin(fleet.Sequence{Name: "reboot", Upgrade: s.node.Previous})

		return nil
	})
	if err != nil {
		return nil, err
	}

	return &machineapi.RollbackResponse{Messages: []*machineapi.Rollback{{}}}, nil
}

// Reset wipes the machine, after it left etcd if it is asked to be graceful.
func (s *Server) Reset(ctx context.Context, in *machineapi.ResetRequest) (*machineapi.ResetResponse, error) {
	apid.Note(ctx, "graceful", in.GetGraceful())
	apid.Note(ctx, "reboot", in.GetReboot())

	sequence := fleet.Sequence{Name: "reset", Graceful: in.GetGraceful(), Reboot: in.GetReboot()}

	var actor string

	err := s.do(func() error {
		if len(in.GetUserDisksToWipe()) > 0 && in.GetMode() == machineapi.ResetRequest_SYSTEM_DISK {
			return errors.New("reset failed: invalid input, wipe mode SYSTEM_DISK doesn't support UserDisksToWipe parameter")
		}

		for _, name := range in.GetUserDisksToWipe() {
			if !slices.ContainsFunc(s.node.Spec.Disks, func(disk fleet.Disk) bool { return disk.Path == name }) {
				return fmt.Errorf("reset user disk failed: device %s wasn't found", name)
			}
		}

		if len(in.GetSystemPartitionsToWipe()) > 0 && in.GetMode() == machineapi.ResetRequest_USER_DISKS {
			return errors.New("reset failed: invalid input, wipe mode USER_DISKS doesn't support SystemPartitionsToWipe parameter")
		}

		for _, partition := range in.GetSystemPartitionsToWipe() {
			switch partition.GetLabel() {
			case constants.StatePartitionLabel:
				sequence.WipeState = partition.GetWipe()
			case constants.EphemeralPartitionLabel:
				sequence.WipeEphemeral = partition.GetWipe()
			case constants.MetaPartitionLabel, constants.BootPartitionLabel, constants.EFIPartitionLabel:
			default:
				return fmt.Errorf("failed to get volume status with label %q: resource VolumeStatuses.block.talos.dev(runtime/%s@undefined) doesn't exist",
					partition.GetLabel(), partition.GetLabel())
			}
		}

		sequence.Wipe = in.GetMode() != machineapi.ResetRequest_USER_DISKS && len(in.GetSystemPartitionsToWipe()) == 0
		actor = s.node.Begin(sequence)

		return nil
	})
	if err != nil {
		return nil, err
	}

	return &machineapi.ResetResponse{Messages: []*machineapi.Reset{{ActorId: actor}}}, nil
}

// Upgrade is the upgrade of talosctl before 1.13, and of `talosctl upgrade --legacy`.
func (s *Server) Upgrade(ctx context.Context, in *machineapi.UpgradeRequest) (*machineapi.UpgradeResponse, error) {
	apid.Note(ctx, "image", in.GetImage())

	var actor string

	err := s.do(func() error {
		if !s.node.Installed {
			return status.Errorf(codes.FailedPrecondition, "Talos is not installed")
		}

		image, err := fleet.ImageOf(in.GetImage())
		if err == nil && s.node.Trouble.NoPull {
			err = errors.New("failed to pull image: 404 Not Found")
		}

		if err != nil {
			return fmt.Errorf("error validating installer image %q: %w", in.GetImage(), err)
		}

		if s.node.ControlPlane() && !in.GetForce() {
			if err = s.mayUpgrade(); err != nil {
				return fmt.Errorf("error validating etcd for upgrade: %w", err)
			}
		}

		sequence := fleet.Sequence{Name: "upgrade", Upgrade: &image, Fails: s.installerFails()}

		switch {
		case !s.node.Configured():
			sequence.Name = "maintenanceUpgrade"
		case in.GetStage():
			sequence.Name = "stageUpgrade"
		}

		actor = s.node.Begin(sequence)

		return nil
	})
	if err != nil {
		return nil, err
	}

	return &machineapi.UpgradeResponse{Messages: []*machineapi.Upgrade{{Ack: "Upgrade request received", ActorId: actor}}}, nil
}

// mayUpgrade is internal/pkg/etcd ValidateForUpgrade: only the legacy call asks it.
func (s *Server) mayUpgrade() error {
	etcd := s.fleet.EtcdOf(s.node.ClusterID())
	if etcd == nil {
		return fleet.ErrNotRunning
	}

	if !s.fleet.Quorum(etcd) {
		return fleet.ErrNoLeader
	}

	if len(etcd.Members) == 2 {
		return fmt.Errorf("etcd member count(%d) is insufficient to maintain quorum if upgrade commences", len(etcd.Members))
	}

	for _, member := range etcd.Members {
		if node := s.fleet.ByName(member.Node); node == nil || !node.EtcdRunning() {
			return fmt.Errorf("etcd member %016x is not healthy; all members must be healthy to perform an upgrade: %w",
				member.ID, context.DeadlineExceeded)
		}
	}

	return nil
}

func (s *Server) installerFails() string {
	if s.node.Trouble.DiskFull {
		return "write /boot/EFI/Linux/Talos.efi: no space left on device"
	}

	return s.node.Trouble.UpgradeFails
}
