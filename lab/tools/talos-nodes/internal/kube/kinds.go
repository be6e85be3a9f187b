// Package kube is the Kubernetes API of a fake cluster: objects in the model's etcd, served by each control plane with
// the cluster's own Kubernetes CA, and the controllers without which clients would wait for ever.
//
// It is no Kubernetes: no admission, no validation of fields, no RBAC (who has a client certificate of the cluster may do
// all), server-side apply is a merge without owners of fields. Where that matters, tests use the real kube-apiserver.
package kube

import (
	"sort"
	"strings"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// Kind is a kind of objects.
type Kind struct {
	Group      string
	Version    string
	Kind       string
	Plural     string
	Short      []string
	Namespaced bool
	Status     bool // it has a status subresource
}

func kinds(group, version string, namespaced bool, names ...string) []Kind {
	found := make([]Kind, 0, len(names))

	for _, name := range names {
		status := strings.HasSuffix(name, "+")
		name = strings.TrimSuffix(name, "+")
		parts := strings.Split(name, "/")
		found = append(found, Kind{
			Group: group, Version: version, Kind: parts[0], Plural: parts[1], Short: parts[2:], Namespaced: namespaced, Status: status,
		})
	}

	return found
}

var builtin = join(
	kinds("", "v1", false, "Namespace/namespaces/ns+", "Node/nodes/no+", "PersistentVolume/persistentvolumes/pv+"),
	kinds("", "v1", true, "Pod/pods/po+", "Service/services/svc+", "ConfigMap/configmaps/cm", "Secret/secrets",
		"ServiceAccount/serviceaccounts/sa", "Endpoints/endpoints/ep", "Event/events/ev", "PersistentVolumeClaim/persistentvolumeclaims/pvc+",
		"ResourceQuota/resourcequotas/quota+", "LimitRange/limitranges/limits"),
	kinds("apps", "v1", true, "Deployment/deployments/deploy+", "DaemonSet/daemonsets/ds+", "StatefulSet/statefulsets/sts+",
		"ReplicaSet/replicasets/rs+", "ControllerRevision/controllerrevisions"),
	kinds("batch", "v1", true, "Job/jobs+", "CronJob/cronjobs/cj+"),
	kinds("policy", "v1", true, "PodDisruptionBudget/poddisruptionbudgets/pdb+"),
	kinds("coordination.k8s.io", "v1", true, "Lease/leases"),
	kinds("rbac.authorization.k8s.io", "v1", false, "ClusterRole/clusterroles", "ClusterRoleBinding/clusterrolebindings"),
	kinds("rbac.authorization.k8s.io", "v1", true, "Role/roles", "RoleBinding/rolebindings"),
	kinds("apiextensions.k8s.io", "v1", false, "CustomResourceDefinition/customresourcedefinitions/crd+"),
	kinds("storage.k8s.io", "v1", false, "StorageClass/storageclasses/sc", "CSINode/csinodes", "VolumeAttachment/volumeattachments+"),
	kinds("networking.k8s.io", "v1", true, "NetworkPolicy/networkpolicies/netpol", "Ingress/ingresses/ing+"),
	kinds("discovery.k8s.io", "v1", true, "EndpointSlice/endpointslices"),
	kinds("certificates.k8s.io", "v1", false, "CertificateSigningRequest/certificatesigningrequests/csr+"),
	kinds("scheduling.k8s.io", "v1", false, "PriorityClass/priorityclasses/pc"),
	kinds("admissionregistration.k8s.io", "v1", false, "ValidatingWebhookConfiguration/validatingwebhookconfigurations",
		"MutatingWebhookConfiguration/mutatingwebhookconfigurations"),
)

func join(lists ...[]Kind) []Kind {
	var all []Kind
	for _, list := range lists {
		all = append(all, list...)
	}

	return all
}

// known returns the kinds of a cluster: those built in and those that its CustomResourceDefinitions make.
func known(e *fleet.Etcd) []Kind {
	all := append([]Kind{}, builtin...)

	for _, key := range keys(e, "/registry/apiextensions.k8s.io/customresourcedefinitions/") {
		definition := e.Objects[key]
		names, _ := dig(definition, "spec", "names").(map[string]any)
		versions, _ := dig(definition, "spec", "versions").([]any)

		for _, each := range versions {
			version, _ := each.(map[string]any)
			all = append(all, Kind{
				Group: text(definition, "spec", "group"), Version: text(version, "name"), Kind: text(names, "kind"),
				Plural: text(names, "plural"), Namespaced: text(definition, "spec", "scope") == "Namespaced",
				Status: dig(version, "subresources", "status") != nil,
			})
		}
	}

	return all
}

func find(e *fleet.Etcd, group, version, plural string) (Kind, bool) {
	for _, kind := range known(e) {
		if kind.Group == group && kind.Version == version && kind.Plural == plural {
			return kind, true
		}
	}

	return Kind{}, false
}

func (k Kind) apiVersion() string {
	if k.Group == "" {
		return k.Version
	}

	return k.Group + "/" + k.Version
}

func (k Kind) prefix(namespace string) string {
	group := k.Group
	if group == "" {
		group = "core"
	}

	prefix := "/registry/" + group + "/" + k.Plural + "/"
	if k.Namespaced && namespace != "" {
		prefix += namespace + "/"
	}

	return prefix
}

func (k Kind) key(namespace, name string) string { return k.prefix(namespace) + name }

func kindOf(plural string) Kind {
	for _, kind := range builtin {
		if kind.Plural == plural {
			return kind
		}
	}

	panic("no such kind: " + plural)
}

func keys(e *fleet.Etcd, prefix string) []string {
	var found []string

	for key := range e.Objects {
		if strings.HasPrefix(key, prefix) {
			found = append(found, key)
		}
	}

	sort.Strings(found)

	return found
}

// dig returns what stands at a path of an object, or nil.
func dig(object any, path ...string) any {
	for _, name := range path {
		fields, ok := object.(map[string]any)
		if !ok {
			return nil
		}

		object = fields[name]
	}

	return object
}

func text(object any, path ...string) string {
	found, _ := dig(object, path...).(string)

	return found
}

func number(object any, path ...string) int64 {
	switch found := dig(object, path...).(type) {
	case float64:
		return int64(found)
	case int64:
		return found
	default:
		return 0
	}
}

// put sets what stands at a path of an object, and makes the way there.
func put(object map[string]any, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		next, ok := object[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			object[name] = next
		}

		object = next
	}

	object[path[len(path)-1]] = value
}

func labelsOf(object any) map[string]string {
	found := map[string]string{}
	raw, _ := dig(object, "metadata", "labels").(map[string]any)

	for name, value := range raw {
		found[name], _ = value.(string)
	}

	return found
}
