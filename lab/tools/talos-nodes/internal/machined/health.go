package machined

import (
	"fmt"
	"sort"
	"strings"
	"time"

	clusterapi "github.com/siderolabs/talos/pkg/machinery/api/cluster"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

const healthEvery = 200 * time.Millisecond

// check is one step of the health check, with what is wrong as its answer.
type check struct {
	what string
	ask  func(*healthCheck) string
}

type healthCheck struct {
	*Server

	controlPlanes []string
	workers       []string
}

// The steps of `talosctl health` (pkg/cluster/check/default.go), asked of the model instead of the network.
var checks = []check{
	{"etcd to be healthy", func(h *healthCheck) string { return h.service("etcd", h.controlPlanes) }},
	{"etcd members to be consistent across nodes", (*healthCheck).consistent},
	{"etcd members to be control plane nodes", (*healthCheck).membersAreControlPlanes},
	{"apid to be ready", (*healthCheck).reachable},
	{"all nodes memory sizes", (*healthCheck).memory},
	{"all nodes disk sizes", func(*healthCheck) string { return "" }},
	{"no diagnostics", (*healthCheck).diagnostics},
	{"kubelet to be healthy", func(h *healthCheck) string { return h.service("kubelet", h.controlPlanes) }},
	{"all nodes to finish boot sequence", (*healthCheck).booted},
	{"all k8s nodes to report", (*healthCheck).reported},
	{"all control plane static pods to be running", (*healthCheck).kubernetes},
	{"all control plane components to be ready", (*healthCheck).kubernetes},
	{"all k8s nodes to report ready", (*healthCheck).nodesReady},
	{"kube-proxy to report ready", (*healthCheck).kubernetes},
	{"coredns to report ready", (*healthCheck).kubernetes},
	{"all k8s nodes to report schedulable", (*healthCheck).schedulable},
}

// HealthCheck runs the steps one after the other and waits for each.
func (s *Server) HealthCheck(in *clusterapi.HealthCheckRequest, stream grpc.ServerStreamingServer[clusterapi.HealthCheckProgress]) error {
	if err := s.controlPlane(stream.Context(), "cluster health check"); err != nil {
		return err
	}

	h := &healthCheck{
		Server: s, controlPlanes: in.GetClusterInfo().GetControlPlaneNodes(), workers: in.GetClusterInfo().GetWorkerNodes(),
	}
	if len(h.controlPlanes)+len(h.workers) == 0 {
		s.fleet.Do(h.discover)
	}

	say := func(text string) error {
		return stream.Send(&clusterapi.HealthCheckProgress{Message: text})
	}

	if err := say(fmt.Sprintf("discovered nodes: %q", append(append([]string{}, h.controlPlanes...), h.workers...))); err != nil {
		return err
	}

	deadline := time.Now().Add(in.GetWaitTimeout().AsDuration())

	for _, each := range checks {
		last := ""

		for {
			line := "waiting for " + each.what + ": ..."
			if last != "" {
				line = ""
			}

			var problem string

			s.fleet.Do(func() { problem = each.ask(h) })

			switch {
			case problem == "":
				line = "waiting for " + each.what + ": OK"
			case problem != last:
				line = "waiting for " + each.what + ": " + problem
			}

			last = problem

			if line != "" {
				if err := say(line); err != nil {
					return err
				}
			}

			if problem == "" {
				break
			}

			if time.Now().After(deadline) {
				return status.Error(codes.DeadlineExceeded, "context deadline exceeded")
			}

			if err := wait(stream.Context(), healthEvery); err != nil {
				return err
			}
		}
	}

	return nil
}

func (h *healthCheck) discover() {
	for _, node := range h.fleet.ClusterNodes(h.node.ClusterID()) {
		switch {
		case node.Phase == fleet.Off:
		case node.ControlPlane():
			h.controlPlanes = append(h.controlPlanes, node.Spec.Address)
		default:
			h.workers = append(h.workers, node.Spec.Address)
		}
	}

	sort.Strings(h.controlPlanes)
	sort.Strings(h.workers)
}

func (h *healthCheck) all() []string {
	return append(append([]string{}, h.controlPlanes...), h.workers...)
}

// each asks every named node and joins what is wrong.
func (h *healthCheck) each(addresses []string, ask func(*fleet.Node) string) string {
	var problems []string

	for _, address := range addresses {
		node := h.fleet.ByAddress(address)

		switch {
		case node == nil || !node.Online() || !node.Configured():
			problems = append(problems, address+": rpc error: code = Unavailable desc = connection refused")
		default:
			if problem := ask(node); problem != "" {
				problems = append(problems, address+": "+problem)
			}
		}
	}

	return strings.Join(problems, "; ")
}
