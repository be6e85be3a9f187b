package kube

import (
	"fmt"
	"time"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/manifests"
)

// control is what the kubelets and, if all is to be done, the controllers and schedulers of every living cluster do.
func (s *Server) control(now time.Time, all bool) {
	done := map[string]bool{}

	for _, node := range s.fleet.Nodes {
		etcd, _ := node.Etcd()
		if etcd == nil || done[etcd.ID] || !s.wants[node] || !s.fleet.Quorum(etcd) {
			continue
		}

		done[etcd.ID] = true
		c := &cluster{fleet: s.fleet, etcd: etcd, now: now, nodes: map[string]*fleet.Node{}, told: s.told}

		for _, each := range s.fleet.ClusterNodes(etcd.Cluster) {
			// Nodes of another etcd of the same cluster have another Kubernetes.
			if each.Data == nil || each.Data.Etcd == etcd.ID {
				c.nodes[each.Nodename()] = each
			}
		}

		c.begin(node)
		c.register()
		c.mirror()

		if !all {
			continue
		}

		c.watchNodes()
		c.allot()
		c.daemonSets()
		c.deployments()
		c.replicaSets()
		c.schedule()
		c.run()
		c.kiloAgents()
		c.collect()
	}
}

// cluster is one Kubernetes under the controllers.
type cluster struct {
	fleet *fleet.Fleet
	etcd  *fleet.Etcd
	now   time.Time
	nodes map[string]*fleet.Node
	told  map[string]string
}

// news says whether something differs from the last time, and keeps it: what is as it was needs no look at each tick.
func (c *cluster) news(key string, state ...any) bool {
	text := fmt.Sprint(state...)
	if c.told[key] == text {
		return false
	}

	c.told[key] = text

	return true
}

func (c *cluster) version(key string) string {
	return text(c.etcd.Objects[key], "metadata", "resourceVersion")
}

func (c *cluster) objects(plural string) []fleet.Object {
	var found []fleet.Object
	for _, key := range keys(c.etcd, kindOf(plural).prefix("")) {
		found = append(found, c.etcd.Objects[key])
	}

	return found
}

// add creates an object that is not there yet.
func (c *cluster) add(plural string, object fleet.Object) {
	w := &write{request: &request{kind: kindOf(plural)}, api: &api{server: &Server{fleet: c.fleet}}, etcd: c.etcd}
	w.add(fleet.Copy(object)) //nolint:errcheck // it is there already
}

// change stores an object if it differs from what is there.
func (c *cluster) change(plural string, object fleet.Object) {
	kind := kindOf(plural)
	key := kind.key(text(object, "metadata", "namespace"), text(object, "metadata", "name"))

	if before := c.etcd.Objects[key]; !same(before, object) {
		if !same(dig(before, "spec"), object["spec"]) {
			put(object, number(before, "metadata", "generation")+1, "metadata", "generation")
		}

		c.fleet.Put(c.etcd, key, object)
	}
}

func (c *cluster) drop(plural string, object fleet.Object) {
	c.fleet.Drop(c.etcd, kindOf(plural).key(text(object, "metadata", "namespace"), text(object, "metadata", "name")))
}

// begin brings in what a new cluster has: namespaces, and the bootstrap manifests that are not there.
func (c *cluster) begin(node *fleet.Node) {
	if _, ok := c.etcd.Objects[kindOf("namespaces").key("", "kube-system")]; !ok {
		for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			c.add("namespaces", fleet.Object{"metadata": map[string]any{"name": name}})
		}

		for _, file := range manifests.Bootstrap(node.Config().Cluster()) {
			for _, object := range file.Objects {
				for _, kind := range builtin {
					if kind.Kind == text(object, "kind") && kind.apiVersion() == text(object, "apiVersion") {
						c.add(kind.Plural, object)
					}
				}
			}
		}
	}
}

// collect drops what belonged to objects that are gone.
func (c *cluster) collect() {
	alive := map[string]bool{}
	for _, object := range c.etcd.Objects {
		alive[text(object, "metadata", "uid")] = true
	}

	for _, plural := range []string{"pods", "replicasets"} {
		for _, object := range c.objects(plural) {
			owners, _ := dig(object, "metadata", "ownerReferences").([]any)

			gone := len(owners) > 0
			for _, owner := range owners {
				gone = gone && !alive[text(owner, "uid")] && text(owner, "kind") != "Node"
			}

			if gone {
				c.drop(plural, object)
			}
		}
	}
}
