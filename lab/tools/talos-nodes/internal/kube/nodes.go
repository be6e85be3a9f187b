package kube

import (
	"encoding/json"
	"sort"
	"strings"
	"time"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/manifests"
)

const (
	// A silent node counts as ready for so long; 50 seconds in Kubernetes.
	grace       = 2 * time.Second
	unreachable = "node.kubernetes.io/unreachable"
	planeLabel  = "node-role.kubernetes.io/control-plane"
	owned       = "talos.dev/owned-labels"
	noted       = "talos.dev/owned-annotations"
)

// register lets each living kubelet register its node and report on it, and Talos put its labels and taints on it.
func (c *cluster) register() {
	for name, machine := range c.nodes {
		if !machine.Online() || machine.Phase != fleet.Running || !machine.KubeletRuns() {
			continue
		}

		key := kindOf("nodes").key("", name)

		ready := machine.NodeReady()
		if !c.news(key, c.version(key), ready, machine.BootID, machine.KubeletVersion(), machine.Digest()) {
			continue
		}

		before, known := c.etcd.Objects[key]
		if !known {
			c.add("nodes", fleet.Object{
				"metadata": map[string]any{"name": name, "labels": map[string]any{
					"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": machine.Spec.Arch,
				}},
				"spec": taints(machine),
			})

			before = c.etcd.Objects[key]
		}

		node := fleet.Copy(before)
		label(node, machine)
		annotate(node, machine)
		c.untaint(node)

		healthy := "False"
		if ready {
			healthy = "True"
		}

		put(node, []any{
			map[string]any{"type": "InternalIP", "address": machine.Spec.Address},
			map[string]any{"type": "Hostname", "address": machine.Hostname()},
		}, "status", "addresses")
		put(node, map[string]any{
			"kubeletVersion": machine.KubeletVersion(), "osImage": "Talos (" + machine.Image.Version + ")", "bootID": machine.BootID,
			"machineID": strings.ReplaceAll(machine.UUID, "-", ""), "systemUUID": machine.UUID, "operatingSystem": "linux",
			"architecture": machine.Spec.Arch, "kernelVersion": "6.18.0-talos", "containerRuntimeVersion": "containerd://2.2.0",
			"kubeProxyVersion": "",
		}, "status", "nodeInfo")
		put(node, map[string]any{"cpu": "4", "memory": "8Gi", "pods": "110"}, "status", "capacity")
		put(node, map[string]any{"cpu": "4", "memory": "8Gi", "pods": "110"}, "status", "allocatable")
		setReady(node, healthy, "KubeletReady")
		c.change("nodes", node)
	}
}

func setReady(node fleet.Object, status, reason string) {
	if condition(node, "Ready") == status {
		return
	}

	put(node, []any{map[string]any{
		"type": "Ready", "status": status, "reason": reason, "message": reason, "lastTransitionTime": now(),
		"lastHeartbeatTime": now(),
	}}, "status", "conditions")
}

func taints(machine *fleet.Node) map[string]any {
	spec := map[string]any{}

	if machine.ControlPlane() && !machine.Config().Cluster().ScheduleOnControlPlanes() {
		spec["taints"] = []any{map[string]any{"key": planeLabel, "effect": "NoSchedule"}}
	}

	return spec
}

// label puts the config's labels on a node, and takes those away that the config had before and has no more.
func label(node fleet.Object, machine *fleet.Node) {
	wanted := map[string]any{}
	for name, value := range machine.Config().Machine().NodeLabels() {
		wanted[name] = value
	}

	if machine.ControlPlane() {
		wanted[planeLabel] = ""
	}

	var before []string

	json.Unmarshal([]byte(text(node, "metadata", "annotations", owned)), &before) //nolint:errcheck // then it owns none

	labels, _ := dig(node, "metadata", "labels").(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}

	for _, name := range before {
		if _, still := wanted[name]; !still {
			delete(labels, name)
		}
	}

	names := make([]string, 0, len(wanted))

	for name, value := range wanted {
		labels[name] = value
		names = append(names, name)
	}

	sort.Strings(names)

	list, err := json.Marshal(names)
	if err != nil {
		return
	}

	put(node, labels, "metadata", "labels")
	put(node, string(list), "metadata", "annotations", owned)
}

// annotate does for annotations what label does for labels.
func annotate(node fleet.Object, machine *fleet.Node) {
	wanted := machine.Config().Machine().NodeAnnotations()

	var before []string

	json.Unmarshal([]byte(text(node, "metadata", "annotations", noted)), &before) //nolint:errcheck // then it owns none

	annotations, _ := dig(node, "metadata", "annotations").(map[string]any)
	for _, name := range before {
		if _, still := wanted[name]; !still {
			delete(annotations, name)
		}
	}

	names := make([]string, 0, len(wanted))

	for name, value := range wanted {
		put(node, value, "metadata", "annotations", name)
		names = append(names, name)
	}

	sort.Strings(names)

	list, err := json.Marshal(names)
	if err != nil {
		return
	}

	put(node, string(list), "metadata", "annotations", noted)
}

// watchNodes is the node controller: who is silent for long is not known to be ready.
func (c *cluster) watchNodes() {
	for _, object := range c.objects("nodes") {
		machine := c.nodes[text(object, "metadata", "name")]
		if machine != nil && machine.Online() && machine.Phase == fleet.Running && machine.KubeletRuns() {
			machine.Heard = c.now

			continue
		}

		if machine != nil && c.now.Sub(machine.Heard) < grace {
			continue
		}

		node := fleet.Copy(object)
		setReady(node, "Unknown", "NodeStatusUnknown")

		list, _ := dig(node, "spec", "taints").([]any)
		if !hasTaint(list, unreachable) {
			put(node, append(list,
				map[string]any{"key": unreachable, "effect": "NoSchedule"},
				map[string]any{"key": unreachable, "effect": "NoExecute"},
			), "spec", "taints")
		}

		c.change("nodes", node)
	}
}

func hasTaint(list []any, key string) bool {
	for _, each := range list {
		if text(each, "key") == key {
			return true
		}
	}

	return false
}

func (c *cluster) untaint(node fleet.Object) {
	list, _ := dig(node, "spec", "taints").([]any)
	if !hasTaint(list, unreachable) {
		return
	}

	kept := []any{}

	for _, each := range list {
		if text(each, "key") != unreachable {
			kept = append(kept, each)
		}
	}

	put(node, kept, "spec", "taints")
}

// mirror shows the static pods of the control planes.
func (c *cluster) mirror() {
	for name, machine := range c.nodes {
		if !machine.ControlPlane() || !machine.Online() || machine.Phase != fleet.Running {
			continue
		}

		node := c.etcd.Objects[kindOf("nodes").key("", name)]
		if node == nil {
			continue
		}

		for _, component := range fleet.Components() {
			key := kindOf("pods").key("kube-system", component+"-"+name)

			running, ok := machine.Running(component)
			if !c.news(key, c.version(key), running, ok, machine.BootID) {
				continue
			}

			if !ok {
				if before, known := c.etcd.Objects[key]; known && ready(before) {
					pod := fleet.Copy(before)
					put(pod, []any{map[string]any{"type": "Ready", "status": "False"}}, "status", "conditions")
					c.change("pods", pod)
				}

				continue
			}

			pod := manifests.StaticPod(machine, component, running)
			put(pod, component+"-"+name, "metadata", "name")
			put(pod, "true", "metadata", "annotations", "kubernetes.io/config.mirror")
			put(pod, "file", "metadata", "annotations", "kubernetes.io/config.source")
			put(pod, []any{map[string]any{
				"apiVersion": "v1", "kind": "Node", "name": name, "uid": text(node, "metadata", "uid"), "controller": true,
			}}, "metadata", "ownerReferences")
			put(pod, name, "spec", "nodeName")
			put(pod, manifests.PodStatus(machine, component, running.Image), "status")

			before, known := c.etcd.Objects[key]
			if !known {
				c.add("pods", pod)

				continue
			}

			next := fleet.Copy(before)
			next["spec"], next["status"] = pod["spec"], pod["status"]
			put(next, dig(pod, "metadata", "annotations"), "metadata", "annotations")
			c.change("pods", fleet.Copy(next))
		}
	}
}
