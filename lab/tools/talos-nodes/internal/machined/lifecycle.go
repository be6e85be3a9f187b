package machined

import (
	"fmt"

	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/apid"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// lifecycle is the service by which talosctl 1.13 installs and upgrades.
type lifecycle struct {
	machineapi.UnimplementedLifecycleServiceServer
	*Server
}

// Upgrade writes another Talos to the system disk; the machine runs it after its next boot.
func (l *lifecycle) Upgrade(in *machineapi.LifecycleServiceUpgradeRequest, out grpc.ServerStreamingServer[machineapi.LifecycleServiceUpgradeResponse]) error {
	ref := in.GetSource().GetImageName()
	apid.Note(out.Context(), "image", ref)

	return l.install(ref, out.Context().Done(), func(progress *machineapi.LifecycleServiceInstallProgress) error {
		return out.Send(&machineapi.LifecycleServiceUpgradeResponse{Progress: progress})
	}, func() error {
		if !l.node.Installed {
			return status.Error(codes.FailedPrecondition, "machine is not installed")
		}

		return nil
	}, func(image fleet.Image) { l.node.Next = &image })
}

// Install writes Talos to the disk of a machine that has none.
func (l *lifecycle) Install(in *machineapi.LifecycleServiceInstallRequest, out grpc.ServerStreamingServer[machineapi.LifecycleServiceInstallResponse]) error {
	ref := in.GetSource().GetImageName()
	apid.Note(out.Context(), "image", ref)

	return l.install(ref, out.Context().Done(), func(progress *machineapi.LifecycleServiceInstallProgress) error {
		return out.Send(&machineapi.LifecycleServiceInstallResponse{Progress: progress})
	}, func() error {
		if l.node.Installed {
			return status.Error(codes.AlreadyExists, "machine is already installed")
		}

		if in.GetDestination().GetDisk() == "" {
			return status.Error(codes.InvalidArgument, "destination disk is required")
		}

		return nil
	}, func(image fleet.Image) { l.node.Installed, l.node.Image = true, image })
}

func (l *lifecycle) install(
	ref string, gone <-chan struct{}, send func(*machineapi.LifecycleServiceInstallProgress) error,
	check func() error, done func(fleet.Image),
) error {
	if !l.installer.TryLock() {
		return status.Error(codes.FailedPrecondition, "another installation/upgrade is already in progress")
	}
	defer l.installer.Unlock()

	var (
		image fleet.Image
		fails string
	)

	err := l.do(func() error {
		if err := check(); err != nil {
			return err
		}

		if ref == "" {
			return status.Error(codes.InvalidArgument, "installer image name is required")
		}

		if _, pulled := l.node.Pulled[ref]; !pulled {
			return status.Errorf(codes.Internal, "upgrade failed: installer image %q not found in containerd store: image %q: not found", ref, ref)
		}

		var err error
		if image, err = fleet.ImageOf(ref); err != nil {
			return status.Errorf(codes.Internal, "upgrade failed: %v", err)
		}

		fails = l.installerFails()

		return nil
	})
	if err != nil {
		return err
	}

	say := func(text string) error {
		return send(&machineapi.LifecycleServiceInstallProgress{
			Response: &machineapi.LifecycleServiceInstallProgress_Message{Message: text},
		})
	}

	if err = say(fmt.Sprintf("running Talos installer %s\n", image.Version)); err != nil {
		return err
	}

	if !l.passes(gone) {
		return status.Error(codes.Canceled, "context canceled")
	}

	code := int32(0)
	text := "installation of " + image.Version + " complete\n"

	if fails != "" {
		code, text = 1, "error: "+fails+"\n"
	} else {
		l.fleet.Do(func() {
			done(image)
			l.fleet.Changed(l.node)
		})
	}

	if err = say(text); err != nil {
		return err
	}

	return send(&machineapi.LifecycleServiceInstallProgress{
		Response: &machineapi.LifecycleServiceInstallProgress_ExitCode{ExitCode: code},
	})
}
