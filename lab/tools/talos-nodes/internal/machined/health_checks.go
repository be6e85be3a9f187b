package machined

import (
	"fmt"
	"sort"

	"github.com/siderolabs/talos/pkg/machinery/api/machine"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

func (h *healthCheck) service(id string, addresses []string) string {
	return h.each(addresses, func(node *fleet.Node) string {
		service := node.Services[id]

		switch {
		case service == nil:
			return fmt.Sprintf("service %q not found", id)
		case service.State != fleet.StateRunning:
			return fmt.Sprintf("service %q not in expected state %q: current state [%s] %s", id, "Running", service.State, service.Message)
		case service.Healthy == nil || !*service.Healthy:
			return "service is not healthy: " + id
		default:
			return ""
		}
	})
}

func (h *healthCheck) consistent() string {
	first := ""

	return h.each(h.controlPlanes, func(node *fleet.Node) string {
		etcd, _ := node.Etcd()
		if etcd == nil {
			return "no etcd member"
		}

		if first == "" {
			first = etcd.ID
		}

		if etcd.ID != first {
			return fmt.Sprintf("found unexpected etcd member %s", node.Hostname())
		}

		for _, member := range etcd.Members {
			if member.Learner {
				return fmt.Sprintf("etcd member %s is still a learner", member.Name)
			}
		}

		return ""
	})
}

func (h *healthCheck) membersAreControlPlanes() string {
	etcd, _ := h.node.Etcd()
	if etcd == nil {
		return "no etcd member"
	}

	var addresses []string

	for _, member := range etcd.Members {
		addresses = append(addresses, member.Address)
	}

	known := map[string]bool{}
	for _, address := range h.controlPlanes {
		known[address] = true
	}

	for _, address := range addresses {
		if !known[address] {
			return fmt.Sprintf("etcd member ips %q are not subset of control plane node ips %q", addresses, h.controlPlanes)
		}
	}

	return ""
}

func (h *healthCheck) reachable() string {
	return h.each(h.all(), func(*fleet.Node) string { return "" })
}

func (h *healthCheck) memory() string {
	return h.each(h.all(), func(node *fleet.Node) string {
		least := uint64(1024)
		if node.ControlPlane() {
			least = 2048 - 150
		}

		if node.Spec.MemoryMiB < least {
			return fmt.Sprintf("does not meet memory requirements: expected at least %d MiB, actual %d MiB", least, node.Spec.MemoryMiB)
		}

		return ""
	})
}

func (h *healthCheck) diagnostics() string {
	return h.each(h.all(), func(node *fleet.Node) string { return node.Trouble.Diagnostic })
}

func (h *healthCheck) booted() string {
	return h.each(h.all(), func(node *fleet.Node) string {
		if stage, _ := node.Stage(); stage != machine.MachineStatusEvent_RUNNING {
			return "boot sequence is not finished: " + stage.String()
		}

		return ""
	})
}

func (h *healthCheck) kubernetes() string {
	if !h.fleet.KubernetesUp(h.node.ClusterID()) {
		return fmt.Sprintf("Get %q: connect: connection refused", h.node.Config().Cluster().Endpoint().String()+"/api/v1/nodes")
	}

	return ""
}

func (h *healthCheck) kubernetesNodes() []fleet.Object {
	return h.fleet.KubernetesNodes(h.node.ClusterID())
}

// reported compares the nodes of Kubernetes with those of Talos: one that is left over is a fault too.
func (h *healthCheck) reported() string {
	if problem := h.kubernetes(); problem != "" {
		return problem
	}

	known := map[string]bool{}
	for _, node := range h.kubernetesNodes() {
		known[internalAddress(node)] = true
	}

	for _, address := range h.all() {
		if !known[address] {
			return fmt.Sprintf("can't find expected node with IPs [%q]", address)
		}

		delete(known, address)
	}

	if len(known) == 0 {
		return ""
	}

	left := make([]string, 0, len(known))
	for address := range known {
		left = append(left, address)
	}

	sort.Strings(left)

	return fmt.Sprintf("unexpected nodes with IPs %q", left)
}

func internalAddress(node fleet.Object) string {
	status, _ := node["status"].(map[string]any)
	addresses, _ := status["addresses"].([]any)

	for _, each := range addresses {
		if address, ok := each.(map[string]any); ok && address["type"] == "InternalIP" {
			text, _ := address["address"].(string)

			return text
		}
	}

	return ""
}

func nameOf(node fleet.Object) string {
	meta, _ := node["metadata"].(map[string]any)
	name, _ := meta["name"].(string)

	return name
}

func isReady(node fleet.Object) bool {
	status, _ := node["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)

	for _, each := range conditions {
		if condition, ok := each.(map[string]any); ok && condition["type"] == "Ready" {
			return condition["status"] == "True"
		}
	}

	return false
}

func (h *healthCheck) nodesReady() string {
	return complain("some nodes are not ready: %v", h.kubernetesNodes(), func(node fleet.Object) bool { return !isReady(node) })
}

func (h *healthCheck) schedulable() string {
	return complain("some nodes are not schedulable: %v", h.kubernetesNodes(), func(node fleet.Object) bool {
		spec, _ := node["spec"].(map[string]any)

		return spec["unschedulable"] == true
	})
}

func complain(format string, nodes []fleet.Object, wrong func(fleet.Object) bool) string {
	var names []string

	for _, node := range nodes {
		if wrong(node) {
			names = append(names, nameOf(node))
		}
	}

	if len(names) == 0 {
		return ""
	}

	return fmt.Sprintf(format, names)
}
