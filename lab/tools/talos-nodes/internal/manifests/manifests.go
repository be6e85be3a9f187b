// Package manifests has what a cluster's control planes bring into Kubernetes: static pods and bootstrap manifests.
//
// They are much shorter than those of Talos: what clients look at is there (names, labels, images, owners).
package manifests

import (
	"strings"

	"github.com/siderolabs/talos/pkg/machinery/config/config"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// File is a bootstrap manifest.
type File struct {
	Name    string
	Objects []map[string]any
}

const namespace = "kube-system"

func object(api, kind, space, name string, rest map[string]any) map[string]any {
	meta := map[string]any{"name": name}
	if space != "" {
		meta["namespace"] = space
	}

	made := map[string]any{"apiVersion": api, "kind": kind, "metadata": meta}
	for key, value := range rest {
		made[key] = value
	}

	return made
}

func labelled(made map[string]any, labels map[string]any) map[string]any {
	made["metadata"].(map[string]any)["labels"] = labels //nolint:forcetypeassert // made above

	return made
}

// Bootstrap are the manifests that Talos applies once the API is there (its names of the files).
func Bootstrap(cluster config.ClusterConfig) []File {
	files := []File{{Name: "01-csr-node-bootstrap", Objects: []map[string]any{
		binding("system-bootstrap-node-bootstrapper", "system:node-bootstrapper", "Group", "system:bootstrappers:nodes"),
	}}}

	if cluster.Network().CNI().Name() == "flannel" {
		files = append(files, File{Name: "05-flannel", Objects: []map[string]any{
			account("flannel"),
			daemonSet("kube-flannel", map[string]any{"tier": "node", "k8s-app": "flannel"}, "kube-flannel", "ghcr.io/siderolabs/flannel:v0.28.1"),
		}})
	}

	if cluster.Proxy().Enabled() {
		files = append(files, File{Name: "10-kube-proxy", Objects: []map[string]any{
			account("kube-proxy"),
			binding("kube-proxy", "system:node-proxier", "ServiceAccount", "kube-proxy"),
			daemonSet("kube-proxy", map[string]any{"tier": "node", "k8s-app": "kube-proxy"}, "kube-proxy", cluster.Proxy().Image()),
		}})
	}

	if cluster.CoreDNS().Enabled() {
		files = append(files, File{Name: "11-core-dns", Objects: coreDNS(cluster)})
	}

	for _, inline := range cluster.InlineManifests() {
		files = append(files, File{Name: "99-" + inline.Name(), Objects: parse(inline.Contents())})
	}

	return files
}

func account(name string) map[string]any {
	return object("v1", "ServiceAccount", namespace, name, nil)
}

func binding(name, role, kind, subject string) map[string]any {
	who := map[string]any{"kind": kind, "name": subject}
	if kind == "ServiceAccount" {
		who["namespace"] = namespace
	} else {
		who["apiGroup"] = "rbac.authorization.k8s.io"
	}

	return object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", name, map[string]any{
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{who},
	})
}

func daemonSet(name string, labels map[string]any, container, image string) map[string]any {
	return labelled(object("apps/v1", "DaemonSet", namespace, name, map[string]any{
		"spec": map[string]any{
			"selector":       map[string]any{"matchLabels": map[string]any{"k8s-app": labels["k8s-app"]}},
			"updateStrategy": map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(1)}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"hostNetwork":        true,
					"serviceAccountName": labels["k8s-app"],
					"containers":         []any{map[string]any{"name": container, "image": image}},
					"tolerations":        []any{map[string]any{"operator": "Exists"}},
				},
			},
		},
	}), map[string]any{"k8s-app": labels["k8s-app"]})
}

func coreDNS(cluster config.ClusterConfig) []map[string]any {
	labels := map[string]any{"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}

	return []map[string]any{
		account("coredns"),
		object("v1", "ConfigMap", namespace, "coredns", map[string]any{
			"data": map[string]any{"Corefile": ".:53 {\n    kubernetes " + cluster.Network().DNSDomain() + "\n}\n"},
		}),
		labelled(object("apps/v1", "Deployment", namespace, "coredns", map[string]any{
			"spec": map[string]any{
				"replicas": int64(2),
				"selector": map[string]any{"matchLabels": map[string]any{"k8s-app": "kube-dns"}},
				"template": map[string]any{
					"metadata": map[string]any{"labels": map[string]any{"k8s-app": "kube-dns"}},
					"spec": map[string]any{
						"serviceAccountName": "coredns",
						"containers":         []any{map[string]any{"name": "coredns", "image": cluster.CoreDNS().Image()}},
						"tolerations": []any{map[string]any{
							"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule",
						}},
					},
				},
			},
		}), labels),
		labelled(object("v1", "Service", namespace, "kube-dns", map[string]any{
			"spec": map[string]any{
				"selector": map[string]any{"k8s-app": "kube-dns"},
				"ports":    []any{map[string]any{"name": "dns", "port": int64(53), "protocol": "UDP"}},
			},
		}), labels),
	}
}

// StaticPod is the pod of a control plane's component on a node.
func StaticPod(n *fleet.Node, name string, component fleet.Component) map[string]any {
	return map[string]any{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata": map[string]any{
			"name":      name,
			"namespace": namespace,
			"annotations": map[string]any{
				"talos.dev/config-version":  component.Version,
				"talos.dev/secrets-version": "1",
			},
			"labels": map[string]any{
				"tier": "control-plane", "k8s-app": name, "component": name,
				"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "Talos",
			},
		},
		"spec": map[string]any{
			"priority": int64(2000000000), "priorityClassName": "system-cluster-critical", "hostNetwork": true,
			"containers": []any{map[string]any{
				"name": name, "image": component.Image, "command": []any{"/usr/local/bin/" + name},
			}},
		},
	}
}

// PodStatus is the status of a pod that runs on a node.
func PodStatus(n *fleet.Node, container, image string) map[string]any {
	return map[string]any{
		"phase":  "Running",
		"hostIP": n.Spec.Address,
		"podIP":  n.Spec.Address,
		"conditions": []any{
			map[string]any{"type": "Initialized", "status": "True"},
			map[string]any{"type": "Ready", "status": "True"},
			map[string]any{"type": "ContainersReady", "status": "True"},
			map[string]any{"type": "PodScheduled", "status": "True"},
		},
		"containerStatuses": []any{map[string]any{
			"name": container, "image": image, "imageID": "", "ready": true, "restartCount": int64(0),
			"state": map[string]any{"running": map[string]any{"startedAt": n.Started.UTC().Format("2006-01-02T15:04:05Z")}},
		}},
	}
}

func parse(text string) []map[string]any {
	var found []map[string]any

	for _, part := range strings.Split("\n"+text, "\n---") {
		var made map[string]any
		if decode(part, &made) == nil && made["kind"] != nil {
			found = append(found, made)
		}
	}

	return found
}
