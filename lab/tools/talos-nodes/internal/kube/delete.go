package kube

import (
	"encoding/json"
	"net/http"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

func (w *write) delete(name string, body []byte) (any, error) {
	key := w.kind.key(w.namespace, name)

	object, ok := w.etcd.Objects[key]
	if !ok {
		return nil, notFound(w.kind, name)
	}

	object = fleet.Copy(object)

	var options struct {
		GracePeriodSeconds *int64 `json:"gracePeriodSeconds"`
		Preconditions      struct {
			UID string `json:"uid"`
		} `json:"preconditions"`
	}

	if len(body) > 0 {
		if err := json.Unmarshal(body, &options); err != nil {
			return nil, fail(http.StatusBadRequest, "BadRequest", "%v", err)
		}
	}

	if uid := options.Preconditions.UID; uid != "" && uid != text(object, "metadata", "uid") {
		return nil, fail(http.StatusConflict, "Conflict", "the UID in the precondition (%s) does not match the UID in record (%s)",
			uid, text(object, "metadata", "uid"))
	}

	if w.dryRun {
		return object, nil
	}

	finalizers, _ := dig(object, "metadata", "finalizers").([]any)
	forced := options.GracePeriodSeconds != nil && *options.GracePeriodSeconds == 0
	// A kubelet ends a pod before it is gone; without one it stays, as those of a lost machine do.
	waits := w.kind.Plural == "pods" && text(object, "spec", "nodeName") != "" && !forced

	if len(finalizers) > 0 || waits {
		if text(object, "metadata", "deletionTimestamp") == "" {
			put(object, now(), "metadata", "deletionTimestamp")
			put(object, int64(30), "metadata", "deletionGracePeriodSeconds")

			return fleet.Copy(w.fleet().Put(w.etcd, key, object)), nil
		}

		return object, nil
	}

	w.fleet().Drop(w.etcd, key)

	if w.kind.Plural == "namespaces" {
		for _, kind := range known(w.etcd) {
			if kind.Namespaced {
				for _, inside := range keys(w.etcd, kind.prefix(name)) {
					w.fleet().Drop(w.etcd, inside)
				}
			}
		}
	}

	return map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success",
		"details": map[string]any{"name": name, "group": w.kind.Group, "kind": w.kind.Plural, "uid": text(object, "metadata", "uid")},
	}, nil
}

func (w *write) deleteAll() (any, error) {
	list := w.api.list(w.etcd, w.request)

	for _, item := range list["items"].([]any) { //nolint:forcetypeassert // made by list
		w.namespace = text(item, "metadata", "namespace")
		if _, err := w.delete(text(item, "metadata", "name"), nil); err != nil {
			return nil, err
		}
	}

	return list, nil
}
