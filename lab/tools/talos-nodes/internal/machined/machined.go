// Package machined answers the Talos machine API for one fake node, from the fleet's model.
//
// Texts and codes of errors are those of Talos 1.13 (siderolabs/talos internal/app/machined, internal/app/lifecycle).
// A method that is not here is answered with Unimplemented, which the fleet's log shows as such.
package machined

import (
	"context"
	"sync"
	"time"

	cosiv1alpha1 "github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/state/protobuf/server"
	clusterapi "github.com/siderolabs/talos/pkg/machinery/api/cluster"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	storageapi "github.com/siderolabs/talos/pkg/machinery/api/storage"
	timeapi "github.com/siderolabs/talos/pkg/machinery/api/time"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/apid"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/cosi"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// Server is a node's machined.
type Server struct {
	machineapi.UnimplementedMachineServiceServer
	clusterapi.UnimplementedClusterServiceServer

	fleet     *fleet.Fleet
	node      *fleet.Node
	resources *cosi.State
	installer sync.Mutex
}

// Register adds a node's services to its server.
func Register(f *fleet.Fleet) func(*fleet.Node, *grpc.Server) {
	return func(node *fleet.Node, to *grpc.Server) {
		s := &Server{fleet: f, node: node, resources: cosi.New(f, node)}

		machineapi.RegisterMachineServiceServer(to, s)
		machineapi.RegisterImageServiceServer(to, &images{Server: s})
		machineapi.RegisterLifecycleServiceServer(to, &lifecycle{Server: s})
		clusterapi.RegisterClusterServiceServer(to, s)
		storageapi.RegisterStorageServiceServer(to, &storage{Server: s})
		timeapi.RegisterTimeServiceServer(to, &clock{Server: s})
		cosiv1alpha1.RegisterStateServer(to, server.NewState(s.resources))
	}
}

// do runs a change of the model alone.
func (s *Server) do(change func() error) error {
	var err error

	s.fleet.Do(func() { err = change() })

	return err
}

// controlPlane is the check that stands before all calls about etcd and Kubernetes.
func (s *Server) controlPlane(ctx context.Context, what string) error {
	var err error

	s.fleet.Do(func() {
		switch {
		case !s.node.Configured():
			err = status.Errorf(codes.Unimplemented, "machine type is not set, cannot use %s API", what)
		case !s.node.ControlPlane():
			err = status.Errorf(codes.Unimplemented, "%s is only available on control plane nodes", what)
		}
	})

	if err != nil {
		apid.Handled(ctx)
	}

	return err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
