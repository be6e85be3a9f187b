package machined

import (
	"context"
	"fmt"

	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// ServiceList lists the services.
func (s *Server) ServiceList(context.Context, *emptypb.Empty) (*machineapi.ServiceListResponse, error) {
	var infos []*machineapi.ServiceInfo

	s.fleet.Do(func() { infos = s.node.ServiceInfos() })

	return &machineapi.ServiceListResponse{Messages: []*machineapi.ServiceList{{Services: infos}}}, nil
}

// ServiceRestart restarts a service that allows it.
func (s *Server) ServiceRestart(_ context.Context, in *machineapi.ServiceRestartRequest) (*machineapi.ServiceRestartResponse, error) {
	err := s.do(func() error {
		if s.node.Services[in.GetId()] == nil {
			return fmt.Errorf("service %q not defined", in.GetId())
		}

		if !fleet.Restartable(in.GetId()) {
			return fmt.Errorf("service %q doesn't support restart operation via API", in.GetId())
		}

		s.node.RestartKubelet()

		return nil
	})
	if err != nil {
		return nil, err
	}

	return &machineapi.ServiceRestartResponse{Messages: []*machineapi.ServiceRestart{
		{Resp: fmt.Sprintf("Service %q restarted", in.GetId())},
	}}, nil
}

// ServiceStart starts a service that allows it; one that runs already is left alone.
func (s *Server) ServiceStart(_ context.Context, in *machineapi.ServiceStartRequest) (*machineapi.ServiceStartResponse, error) {
	err := s.do(func() error {
		service := s.node.Services[in.GetId()]
		if service == nil {
			return fmt.Errorf("service %q not defined", in.GetId())
		}

		if service.State != fleet.StateRunning {
			return fmt.Errorf("service %q doesn't support start operation via API", in.GetId())
		}

		return nil
	})
	if err != nil {
		return nil, err
	}

	return &machineapi.ServiceStartResponse{Messages: []*machineapi.ServiceStart{
		{Resp: fmt.Sprintf("Service %q started", in.GetId())},
	}}, nil
}

// ServiceStop stops no service: only extensions allow it, and the fake nodes have none.
func (s *Server) ServiceStop(_ context.Context, in *machineapi.ServiceStopRequest) (*machineapi.ServiceStopResponse, error) {
	return nil, s.do(func() error {
		if s.node.Services[in.GetId()] == nil {
			return fmt.Errorf("service %q not defined", in.GetId())
		}

		return fmt.Errorf("service %q doesn't support stop operation via API", in.GetId())
	})
}

// Events streams the machine's events, after an empty one that says that it has begun.
func (s *Server) Events(in *machineapi.EventsRequest, stream grpc.ServerStreamingServer[machineapi.Event]) error {
	if err := stream.Send(fleet.NewEvent(in.GetWithActorId(), nil)); err != nil {
		return err
	}

	var machine *fleet.MachineEvents

	s.fleet.Do(func() { machine = s.node.Machine })

	events, end := machine.Watch(int(in.GetTailEvents()), in.GetTailId(), in.GetWithActorId())
	defer end()

	for {
		select {
		case event := <-events:
			if err := stream.Send(event); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}
