package kube

import (
	"net/http"
	"sort"
	"strings"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// discover answers what clients ask to learn the kinds, and says whether it did.
func (a *api) discover(w http.ResponseWriter, r *http.Request, path string) bool {
	parts := strings.Split(path, "/")

	core := parts[0] == "api" && len(parts) <= 2
	groups := parts[0] == "apis" && len(parts) <= 3

	if !core && !groups || r.Method != http.MethodGet {
		return false
	}

	var (
		all []Kind
		err error
	)

	a.server.fleet.Do(func() {
		var etcd *fleet.Etcd
		if etcd, err = a.locked(); err == nil {
			all = known(etcd)
		}
	})

	switch {
	case err != nil:
		answer(w, nil, err)
	case path == "api":
		answer(w, map[string]any{"kind": "APIVersions", "versions": []any{"v1"}}, nil)
	case core:
		answer(w, resources(all, "", parts[1]), nil)
	case path == "apis":
		list := []any{}
		for _, name := range groupNames(all) {
			list = append(list, group(all, name))
		}

		answer(w, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": list}, nil)
	case len(parts) == 2:
		answer(w, group(all, parts[1]), nil)
	default:
		answer(w, resources(all, parts[1], parts[2]), nil)
	}

	return true
}

func groupNames(all []Kind) []string {
	seen := map[string]bool{"": true}

	var names []string

	for _, kind := range all {
		if !seen[kind.Group] {
			seen[kind.Group] = true
			names = append(names, kind.Group)
		}
	}

	sort.Strings(names)

	return names
}

func group(all []Kind, name string) map[string]any {
	versions, seen := []any{}, map[string]bool{}

	for _, kind := range all {
		if kind.Group == name && !seen[kind.Version] {
			seen[kind.Version] = true
			versions = append(versions, map[string]any{"groupVersion": name + "/" + kind.Version, "version": kind.Version})
		}
	}

	made := map[string]any{"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": versions}
	if len(versions) > 0 {
		made["preferredVersion"] = versions[0]
	}

	return made
}

func resources(all []Kind, name, version string) map[string]any {
	list := []any{}
	verbs := []any{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

	for _, kind := range all {
		if kind.Group != name || kind.Version != version {
			continue
		}

		list = append(list, map[string]any{
			"name": kind.Plural, "singularName": strings.ToLower(kind.Kind), "namespaced": kind.Namespaced, "kind": kind.Kind,
			"verbs": verbs, "shortNames": kind.Short,
		})

		if kind.Status {
			list = append(list, map[string]any{
				"name": kind.Plural + "/status", "singularName": "", "namespaced": kind.Namespaced, "kind": kind.Kind,
				"verbs": []any{"get", "patch", "update"},
			})
		}

		if kind.Plural == "pods" {
			list = append(list, map[string]any{
				"name": "pods/eviction", "singularName": "", "namespaced": true, "kind": "Eviction", "group": "policy",
				"version": "v1", "verbs": []any{"create"},
			})
		}
	}

	full := version
	if name != "" {
		full = name + "/" + version
	}

	return map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": full, "resources": list}
}
