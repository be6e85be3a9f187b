package kube

import (
	"sort"
	"strings"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/manifests"
)

// fits says whether a node takes the pods of a template, or a pod itself.
func fits(owner fleet.Object, node any, daemon bool) bool {
	spec := dig(owner, "spec", "template", "spec")
	if spec == nil {
		spec = owner["spec"]
	}

	selector, _ := dig(spec, "nodeSelector").(map[string]any)
	for name, value := range selector {
		if labelsOf(node)[name] != value {
			return false
		}
	}

	if unschedulable, _ := dig(node, "spec", "unschedulable").(bool); unschedulable && !daemon {
		return false
	}

	list, _ := dig(node, "spec", "taints").([]any)
	for _, taint := range list {
		if daemon && strings.HasPrefix(text(taint, "key"), "node.kubernetes.io/") {
			continue
		}

		if text(taint, "effect") != "PreferNoSchedule" && !tolerates(spec, taint) {
			return false
		}
	}

	return true
}

func tolerates(spec, taint any) bool {
	list, _ := dig(spec, "tolerations").([]any)
	for _, each := range list {
		key := text(each, "key")
		if key != "" && key != text(taint, "key") {
			continue
		}

		if effect := text(each, "effect"); effect != "" && effect != text(taint, "effect") {
			continue
		}

		if text(each, "operator") == "Exists" || text(each, "value") == text(taint, "value") {
			return true
		}
	}

	return false
}

// schedule puts pods on ready nodes, the emptiest first.
func (c *cluster) schedule() {
	load := map[string]int{}

	for _, pod := range c.objects("pods") {
		load[text(pod, "spec", "nodeName")]++
	}

	for _, pod := range c.objects("pods") {
		if text(pod, "spec", "nodeName") != "" || leaving(pod) {
			continue
		}

		var names []string

		for _, node := range c.objects("nodes") {
			if ready(node) && fits(pod, node, false) {
				names = append(names, text(node, "metadata", "name"))
			}
		}

		if len(names) == 0 {
			continue
		}

		sort.Slice(names, func(i, j int) bool {
			if load[names[i]] != load[names[j]] {
				return load[names[i]] < load[names[j]]
			}

			return names[i] < names[j]
		})

		next := fleet.Copy(pod)
		put(next, names[0], "spec", "nodeName")
		c.change("pods", next)

		load[names[0]]++
	}
}

// run is what the kubelets do with the pods of their nodes: start them, and end those that are deleted.
func (c *cluster) run() {
	for _, pod := range c.objects("pods") {
		name := text(pod, "spec", "nodeName")
		if name == "" || text(pod, "metadata", "annotations", "kubernetes.io/config.mirror") != "" {
			continue
		}

		machine := c.nodes[name]
		if machine == nil || !machine.NodeReady() {
			node := c.etcd.Objects[kindOf("nodes").key("", name)]
			if node == nil { // the pod collector's: its node is gone
				c.drop("pods", pod)
			} else if condition(node, "Ready") == "Unknown" && ready(pod) {
				next := fleet.Copy(pod)
				put(next, []any{map[string]any{"type": "Ready", "status": "False", "reason": "NodeNotReady"}}, "status", "conditions")
				c.change("pods", next)
			}

			continue
		}

		if leaving(pod) {
			c.drop("pods", pod)

			continue
		}

		if !ready(pod) {
			containers, _ := dig(pod, "spec", "containers").([]any)
			next := fleet.Copy(pod)

			if len(containers) > 0 {
				put(next, manifests.PodStatus(machine, text(containers[0], "name"), text(containers[0], "image")), "status")
				c.change("pods", fleet.Copy(next))
			}
		}
	}
}
