package fleet

import (
	"fmt"
	"sort"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
)

// Stage returns the stage of the machine and what keeps it from being ready.
func (n *Node) Stage() (machineapi.MachineStatusEvent_MachineStage, map[string]string) {
	unmet := map[string]string{}

	switch n.Phase {
	case Maintenance:
		return machineapi.MachineStatusEvent_MAINTENANCE, unmet
	case Installing:
		return machineapi.MachineStatusEvent_INSTALLING, unmet
	case Stopping:
		return sequenceStage(n.Sequence), unmet
	case Off, Booting:
		return machineapi.MachineStatusEvent_UNKNOWN, unmet
	case Running:
	}

	var problems []string

	for id, service := range n.Services {
		switch {
		case service.State != StateRunning:
			problems = append(problems, id+" not running")
		case service.Healthy != nil && !*service.Healthy, service.Healthy == nil && checked[id]:
			problems = append(problems, id+" not healthy")
		}
	}

	if len(problems) > 0 {
		sort.Strings(problems)
		unmet["services"] = strings.Join(problems, ", ")
	}

	if n.Trouble.TimeUnsynced {
		unmet["time"] = "time is not synced"
	}

	if !n.NodeReady() {
		unmet["nodeReady"] = fmt.Sprintf("node %q is not ready", n.Nodename())
	}

	if !n.Booted {
		return machineapi.MachineStatusEvent_BOOTING, unmet
	}

	return machineapi.MachineStatusEvent_RUNNING, unmet
}

// NodeReady says whether the Kubernetes node would report itself ready.
func (n *Node) NodeReady() bool {
	kubelet := n.Services["kubelet"]

	return n.Online() && n.Phase == Running && kubelet != nil && kubelet.Healthy != nil && *kubelet.Healthy &&
		n.fleet.KubernetesUp(n.ClusterID())
}

// KubernetesUp says whether a control plane of the cluster serves the Kubernetes API.
func (f *Fleet) KubernetesUp(cluster string) bool {
	for _, node := range f.ClusterNodes(cluster) {
		etcd, _ := node.Etcd()
		if node.Phase == Running && node.EtcdRunning() && f.Quorum(etcd) {
			return true
		}
	}

	return false
}

func (n *Node) publishStatus() {
	if n.Identity == nil {
		return
	}

	stage, unmet := n.Stage()
	event := &machineapi.MachineStatusEvent{
		Stage: stage, Status: &machineapi.MachineStatusEvent_MachineStatus{Ready: len(unmet) == 0},
	}

	names := make([]string, 0, len(unmet))
	for name := range unmet {
		names = append(names, name)
	}

	sort.Strings(names)

	for _, name := range names {
		event.Status.UnmetConditions = append(event.Status.UnmetConditions,
			&machineapi.MachineStatusEvent_MachineStatus_UnmetCondition{Name: name, Reason: unmet[name]})
	}

	if text := event.String(); text != n.status {
		n.status = text
		n.Machine.Publish("", event)
	}
}

func failed(sequence string, err string) *machineapi.SequenceEvent {
	return &machineapi.SequenceEvent{
		Sequence: sequence, Action: machineapi.SequenceEvent_NOOP,
		Error: &common.Error{Code: common.Code_FATAL, Message: err},
	}
}
