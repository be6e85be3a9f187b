package machined

import (
	"context"
	"fmt"

	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configdiff"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"github.com/siderolabs/talos/pkg/machinery/role"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/apid"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// metal is what machinery's validation asks of the machine.
type metal struct{ installed bool }

func (metal) String() string          { return "metal" }
func (m metal) RequiresInstall() bool { return !m.installed }
func (metal) InContainer() bool       { return false }

// ApplyConfiguration takes a config as Talos does: see v1alpha1_server.go there for the order of its checks.
func (s *Server) ApplyConfiguration(ctx context.Context, in *machineapi.ApplyConfigurationRequest) (*machineapi.ApplyConfigurationResponse, error) {
	apid.Note(ctx, "mode", fleet.ModeName(in.GetMode()))
	apid.Note(ctx, "dryRun", in.GetDryRun())
	apid.Note(ctx, "config", fleet.Digest(string(in.GetData())))

	next, err := configloader.NewFromBytes(in.GetData())

	var answer *machineapi.ApplyConfiguration

	err = s.do(func() error {
		maintenance := !s.node.Configured()

		if !maintenance && !apid.Roles(ctx).Includes(role.Admin) {
			return apid.ErrNotAuthorized
		}

		if err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}

		var failure error

		answer, failure = s.apply(in, next, maintenance)

		return failure
	})
	if err != nil {
		return nil, err
	}

	apid.Note(ctx, "applied", fleet.ModeName(answer.GetMode()))

	return &machineapi.ApplyConfigurationResponse{Messages: []*machineapi.ApplyConfiguration{answer}}, nil
}

func (s *Server) apply(in *machineapi.ApplyConfigurationRequest, next config.Provider, maintenance bool) (*machineapi.ApplyConfiguration, error) {
	if !maintenance && next.RawV1Alpha1() == nil {
		return nil, status.Error(codes.InvalidArgument,
			"the applied machine configuration doesn't contain v1alpha1 config, did you mean to patch the machine config instead?")
	}

	warnings, err := next.Validate(metal{installed: s.node.Installed})
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}

	mode, details, reason := in.GetMode(), "Applied configuration with a reboot", ""
	if maintenance && mode == machineapi.ApplyConfigurationRequest_REBOOT {
		mode = machineapi.ApplyConfigurationRequest_NO_REBOOT
	}

	var immediate error
	if !maintenance {
		immediate = s.node.Immediate(next)
	}

	switch mode {
	case machineapi.ApplyConfigurationRequest_TRY, machineapi.ApplyConfigurationRequest_NO_REBOOT:
		if immediate != nil {
			return nil, status.Error(codes.InvalidArgument, immediate.Error())
		}

		details = "Applied configuration without a reboot"
	case machineapi.ApplyConfigurationRequest_STAGED:
		details = "Staged configuration to be applied after the next reboot"
	case machineapi.ApplyConfigurationRequest_AUTO:
		mode = machineapi.ApplyConfigurationRequest_NO_REBOOT
		details = "Applied configuration without a reboot"

		if immediate != nil {
			mode = machineapi.ApplyConfigurationRequest_REBOOT
			details = "Applied configuration with a reboot"
			reason = ": " + immediate.Error()
		}
	case machineapi.ApplyConfigurationRequest_REBOOT:
	}

	if in.GetDryRun() {
		return s.dryRun(mode, details, next)
	}

	if mode == machineapi.ApplyConfigurationRequest_TRY {
		timeout := constants.ConfigTryTimeout
		if in.GetTryModeTimeout() != nil {
			timeout = in.GetTryModeTimeout().AsDuration()
		}

		details += fmt.Sprintf("\nThe config is applied in 'try' mode and will be automatically reverted back in %s", timeout)

		if err = s.node.TryFor(string(in.GetData()), timeout); err != nil {
			return nil, err
		}
	} else if err = s.keep(mode, string(in.GetData()), maintenance); err != nil {
		return nil, err
	}

	s.node.Counts.Applies++
	s.fleet.Changed(s.node)

	return &machineapi.ApplyConfiguration{Mode: mode, Warnings: warnings, ModeDetails: details + reason}, nil
}

// keep stores the config and lets the machine do what the mode says.
func (s *Server) keep(mode machineapi.ApplyConfigurationRequest_Mode, text string, maintenance bool) error {
	s.node.Try = nil

	if maintenance {
		s.node.Install(text)

		return nil
	}

	if err := s.node.Apply(text, mode == machineapi.ApplyConfigurationRequest_NO_REBOOT, true); err != nil {
		return err
	}

	if mode == machineapi.ApplyConfigurationRequest_REBOOT {
		s.node.Begin(fleet.Sequence{Name: "reboot"})
	}

	return nil
}

func (s *Server) dryRun(mode machineapi.ApplyConfigurationRequest_Mode, details string, next config.Provider) (*machineapi.ApplyConfiguration, error) {
	diff := ""

	if before := s.node.Config(); before != nil {
		var err error
		if diff, err = configdiff.DiffConfigs(before, next); err != nil {
			return nil, fmt.Errorf("failed to generate diff: %w", err)
		}
	}

	if diff == "" {
		diff = "No changes."
	}

	return &machineapi.ApplyConfiguration{
		Mode:        mode,
		ModeDetails: fmt.Sprintf("Dry run summary:\n%s (skipped in dry-run).\nConfig diff:\n\n%s", details, diff),
	}, nil
}
