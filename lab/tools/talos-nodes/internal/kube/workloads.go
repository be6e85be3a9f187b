package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/google/uuid"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

func templateHash(object fleet.Object) string {
	data, err := json.Marshal(dig(object, "spec", "template"))
	if err != nil {
		return ""
	}

	sum := sha256.Sum256(data)

	return hex.EncodeToString(sum[:])[:10]
}

const hashLabel = "pod-template-hash"

func ownedBy(object any, owner fleet.Object) bool {
	owners, _ := dig(object, "metadata", "ownerReferences").([]any)
	for _, each := range owners {
		if text(each, "uid") == text(owner, "metadata", "uid") {
			return true
		}
	}

	return false
}

func reference(owner fleet.Object) []any {
	return []any{map[string]any{
		"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": text(owner, "metadata", "name"),
		"uid": text(owner, "metadata", "uid"), "controller": true, "blockOwnerDeletion": true,
	}}
}

// podFor makes a pod of an owner's template.
func podFor(owner fleet.Object, hash string) fleet.Object {
	template, _ := dig(owner, "spec", "template").(map[string]any)
	pod := fleet.Copy(template)
	put(pod, text(owner, "metadata", "name")+"-"+uuid.NewString()[:5], "metadata", "name")
	put(pod, text(owner, "metadata", "namespace"), "metadata", "namespace")
	put(pod, hash, "metadata", "labels", hashLabel)
	put(pod, reference(owner), "metadata", "ownerReferences")

	return pod
}

func (c *cluster) podsOf(owner fleet.Object) []fleet.Object {
	var found []fleet.Object

	for _, pod := range c.objects("pods") {
		if ownedBy(pod, owner) {
			found = append(found, pod)
		}
	}

	return found
}

func leaving(pod any) bool { return text(pod, "metadata", "deletionTimestamp") != "" }

// daemonSets keep one pod on every node that its selector and tolerations allow.
func (c *cluster) daemonSets() {
	for _, set := range c.objects("daemonsets") {
		hash := templateHash(set)
		on := map[string]fleet.Object{}

		for _, pod := range c.podsOf(set) {
			name := text(pod, "spec", "nodeName")
			_, known := c.etcd.Objects[kindOf("nodes").key("", name)]

			if !known || (labelsOf(pod)[hashLabel] != hash && !leaving(pod)) {
				c.drop("pods", pod)

				continue
			}

			on[name] = pod
		}

		var wanted, readyNow int64

		for _, node := range c.objects("nodes") {
			name := text(node, "metadata", "name")
			if !fits(set, node, true) {
				continue
			}

			wanted++

			pod, there := on[name]
			if !there {
				made := podFor(set, hash)
				put(made, name, "spec", "nodeName")
				c.add("pods", made)

				continue
			}

			if ready(pod) {
				readyNow++
			}
		}

		next := fleet.Copy(set)
		put(next, map[string]any{
			"desiredNumberScheduled": wanted, "currentNumberScheduled": wanted, "numberReady": readyNow,
			"numberAvailable": readyNow, "updatedNumberScheduled": wanted, "numberMisscheduled": int64(0),
			"numberUnavailable": wanted - readyNow, "observedGeneration": number(set, "metadata", "generation"),
		}, "status")
		c.change("daemonsets", fleet.Copy(next))
	}
}

// deployments keep one replica set of the newest template; older ones are emptied at once.
func (c *cluster) deployments() {
	for _, deployment := range c.objects("deployments") {
		hash := templateHash(deployment)
		name := text(deployment, "metadata", "name") + "-" + hash
		space := text(deployment, "metadata", "namespace")
		replicas := number(deployment, "spec", "replicas")

		var current fleet.Object

		for _, set := range c.objects("replicasets") {
			if !ownedBy(set, deployment) {
				continue
			}

			next := fleet.Copy(set)
			if text(set, "metadata", "name") == name {
				current = set

				put(next, replicas, "spec", "replicas")
			} else {
				put(next, int64(0), "spec", "replicas")
			}

			c.change("replicasets", fleet.Copy(next))
		}

		if current == nil {
			template, _ := dig(deployment, "spec", "template").(map[string]any)
			c.add("replicasets", fleet.Object{
				"metadata": map[string]any{"name": name, "namespace": space, "ownerReferences": reference(deployment)},
				"spec": map[string]any{
					"replicas": replicas, "template": fleet.Copy(template), "selector": dig(deployment, "spec", "selector"),
				},
			})
		}

		readyNow := number(current, "status", "readyReplicas")
		available := "False"

		if readyNow >= replicas {
			available = "True"
		}

		next := fleet.Copy(deployment)
		put(next, map[string]any{
			"replicas": number(current, "status", "replicas"), "updatedReplicas": number(current, "status", "replicas"),
			"readyReplicas": readyNow, "availableReplicas": readyNow, "observedGeneration": number(deployment, "metadata", "generation"),
			"conditions": []any{
				map[string]any{"type": "Available", "status": available},
				map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
			},
		}, "status")
		c.change("deployments", fleet.Copy(next))
	}
}

func (c *cluster) replicaSets() {
	for _, set := range c.objects("replicasets") {
		hash := templateHash(set)

		var alive []fleet.Object

		for _, pod := range c.podsOf(set) {
			if !leaving(pod) {
				alive = append(alive, pod)
			}
		}

		want := int(number(set, "spec", "replicas"))

		for len(alive) > want {
			last := alive[len(alive)-1]
			alive = alive[:len(alive)-1]
			c.drop("pods", last)
		}

		for missing := want - len(alive); missing > 0; missing-- {
			c.add("pods", podFor(set, hash))
		}

		var readyNow int64

		for _, pod := range alive {
			if ready(pod) {
				readyNow++
			}
		}

		next := fleet.Copy(set)
		put(next, map[string]any{
			"replicas": int64(want), "readyReplicas": readyNow, "availableReplicas": readyNow,
			"observedGeneration": number(set, "metadata", "generation"),
		}, "status")
		c.change("replicasets", fleet.Copy(next))
	}
}
