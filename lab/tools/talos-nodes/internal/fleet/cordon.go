package fleet

import (
	"sort"
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/constants"
)

const (
	nodeKeys = "/registry/core/nodes/"
	podKeys  = "/registry/core/pods/"
)

// List returns the objects under a prefix, by key.
func (e *Etcd) List(prefix string) []Object {
	var found []string

	for key := range e.Objects {
		if strings.HasPrefix(key, prefix) {
			found = append(found, key)
		}
	}

	sort.Strings(found)

	objects := make([]Object, 0, len(found))
	for _, key := range found {
		objects = append(objects, e.Objects[key])
	}

	return objects
}

// KubernetesNodes returns the nodes that a cluster's Kubernetes knows.
func (f *Fleet) KubernetesNodes(cluster string) []Object {
	etcd := f.EtcdOf(cluster)
	if etcd == nil || !f.Quorum(etcd) {
		return nil
	}

	return etcd.List(nodeKeys)
}

func section(object Object, name string) map[string]any {
	part, ok := object[name].(map[string]any)
	if !ok {
		part = map[string]any{}
		object[name] = part
	}

	return part
}

// cordon keeps new pods from the node, with Talos's mark that it was Talos, and evicts those that are there.
func (n *Node) cordon() {
	etcd := n.fleet.EtcdOf(n.ClusterID())
	if etcd == nil || !n.fleet.Quorum(etcd) {
		return // Talos logs the error and goes on
	}

	key := nodeKeys + n.Nodename()
	if before, ok := etcd.Objects[key]; ok {
		node := Copy(before)
		section(node, "spec")["unschedulable"] = true
		section(section(node, "metadata"), "annotations")[constants.AnnotationCordonedKey] = constants.AnnotationCordonedValue
		n.fleet.Put(etcd, key, node)
	}

	for _, pod := range etcd.List(podKeys) {
		if section(pod, "spec")["nodeName"] != n.Nodename() || stays(pod) {
			continue
		}

		meta := section(pod, "metadata")
		space, _ := meta["namespace"].(string)
		name, _ := meta["name"].(string)
		n.fleet.Drop(etcd, podKeys+space+"/"+name)
	}
}

// stays says whether a pod is of a DaemonSet or of the node itself.
func stays(pod Object) bool {
	owners, _ := section(pod, "metadata")["ownerReferences"].([]any)
	for _, each := range owners {
		owner, _ := each.(map[string]any)
		if owner["kind"] == "DaemonSet" || owner["kind"] == "Node" {
			return true
		}
	}

	return false
}

// uncordon opens a node that Talos cordoned, once it is booted again.
func (n *Node) uncordon() {
	etcd := n.fleet.EtcdOf(n.ClusterID())
	if etcd == nil || !n.fleet.Quorum(etcd) {
		return
	}

	key := nodeKeys + n.Nodename()

	before, ok := etcd.Objects[key]
	if !ok {
		return
	}

	if section(section(before, "metadata"), "annotations")[constants.AnnotationCordonedKey] != constants.AnnotationCordonedValue {
		return
	}

	node := Copy(before)
	delete(section(node, "spec"), "unschedulable")
	delete(section(section(node, "metadata"), "annotations"), constants.AnnotationCordonedKey)
	n.fleet.Put(etcd, key, node)
}
