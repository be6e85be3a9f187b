package kube

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

const bodyLimit = 8 << 20

// handle does what a request asks, and returns the answer and its code.
func (a *api) handle(r *http.Request, q *request) (any, int, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit))
	if err != nil {
		return nil, 0, fail(http.StatusBadRequest, "BadRequest", "%v", err)
	}

	if body, err = plain(body); err != nil {
		return nil, 0, err
	}

	var (
		found any
		code  = http.StatusOK
	)

	a.server.fleet.Do(func() {
		var etcd *fleet.Etcd
		if etcd, err = a.locked(); err != nil {
			return
		}

		w := &write{api: a, etcd: etcd, request: q, apply: r.Header.Get("Content-Type")}

		switch {
		case r.Method == http.MethodGet && q.name == "":
			found = fleet.Copy(a.list(etcd, q))
		case r.Method == http.MethodGet:
			found, err = w.get()
		case r.Method == http.MethodPost && q.sub == "eviction":
			found, code, err = w.evict()
		case r.Method == http.MethodPost && q.name == "":
			found, err = w.create(body)
			code = http.StatusCreated
		case r.Method == http.MethodPut:
			found, err = w.replace(body)
		case r.Method == http.MethodPatch:
			found, code, err = w.patch(body)
		case r.Method == http.MethodDelete && q.name == "":
			found, err = w.deleteAll()
		case r.Method == http.MethodDelete:
			found, err = w.delete(q.name, body)
		default:
			err = fail(http.StatusMethodNotAllowed, "MethodNotAllowed", "the server does not allow this method on the requested resource")
		}
	})

	return found, code, err
}

// write is a request under the fleet's lock.
type write struct {
	*request

	api   *api
	etcd  *fleet.Etcd
	apply string
}

func (w *write) fleet() *fleet.Fleet { return w.api.server.fleet }

func (w *write) current() (fleet.Object, error) {
	object, ok := w.etcd.Objects[w.kind.key(w.namespace, w.name)]
	if !ok {
		return nil, notFound(w.kind, w.name)
	}

	return fleet.Copy(object), nil
}

func (w *write) get() (any, error) {
	object, err := w.current()

	return object, err
}

func decode(body []byte) (fleet.Object, error) {
	var object fleet.Object

	if err := json.Unmarshal(body, &object); err != nil {
		return nil, fail(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "the fake Kubernetes API reads JSON only: %v", err)
	}

	return object, nil
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

func (w *write) create(body []byte) (any, error) {
	object, err := decode(body)
	if err != nil {
		return nil, err
	}

	return w.add(object)
}

func (w *write) add(object fleet.Object) (fleet.Object, error) {
	name := text(object, "metadata", "name")
	if prefix := text(object, "metadata", "generateName"); name == "" && prefix != "" {
		name = prefix + uuid.NewString()[:5]
		put(object, name, "metadata", "name")
	}

	if name == "" {
		return nil, fail(http.StatusUnprocessableEntity, "Invalid", "%s \"\" is invalid: metadata.name: Required value: name or generateName is required", w.kind.Kind)
	}

	if w.kind.Namespaced {
		if w.namespace == "" {
			w.namespace = text(object, "metadata", "namespace")
		}

		if _, ok := w.etcd.Objects[kindOf("namespaces").key("", w.namespace)]; !ok {
			return nil, notFound(kindOf("namespaces"), w.namespace)
		}

		put(object, w.namespace, "metadata", "namespace")
	}

	key := w.kind.key(w.namespace, name)
	if _, taken := w.etcd.Objects[key]; taken {
		f := fail(http.StatusConflict, "AlreadyExists", "%s %q already exists", qualified(w.kind), name)
		f.details = map[string]any{"name": name, "group": w.kind.Group, "kind": w.kind.Plural}

		return nil, f
	}

	object["kind"], object["apiVersion"] = w.kind.Kind, w.kind.apiVersion()
	put(object, uuid.NewString(), "metadata", "uid")
	put(object, now(), "metadata", "creationTimestamp")
	put(object, int64(1), "metadata", "generation")

	if w.kind.Status && w.kind.Plural != "pods" && w.kind.Plural != "nodes" {
		delete(object, "status")
	}

	w.defaults(object)

	if w.dryRun {
		return object, nil
	}

	return fleet.Copy(w.fleet().Put(w.etcd, key, object)), nil
}

// defaults are the few without which clients or the controllers would stumble.
func (w *write) defaults(object fleet.Object) {
	switch w.kind.Plural {
	case "namespaces":
		put(object, "Active", "status", "phase")
		put(object, text(object, "metadata", "name"), "metadata", "labels", "kubernetes.io/metadata.name")
	case "pods":
		if text(object, "status", "phase") == "" {
			put(object, "Pending", "status", "phase")
		}
	case "deployments", "statefulsets", "replicasets":
		if dig(object, "spec", "replicas") == nil {
			put(object, int64(1), "spec", "replicas")
		}
	case "customresourcedefinitions":
		put(object, []any{map[string]any{"type": "Established", "status": "True"}, map[string]any{"type": "NamesAccepted", "status": "True"}},
			"status", "conditions")
	}
}

func (w *write) replace(body []byte) (any, error) {
	next, err := decode(body)
	if err != nil {
		return nil, err
	}

	before, err := w.current()
	if err != nil {
		return nil, err
	}

	return w.store(before, next)
}

// store puts a changed object in place of another.
func (w *write) store(before, next fleet.Object) (fleet.Object, error) {
	if asked := text(next, "metadata", "resourceVersion"); asked != "" && asked != text(before, "metadata", "resourceVersion") {
		f := fail(http.StatusConflict, "Conflict", "Operation cannot be fulfilled on %s %q: the object has been modified; "+
			"please apply your changes to the latest version and try again", qualified(w.kind), w.name)
		f.details = map[string]any{"name": w.name, "group": w.kind.Group, "kind": w.kind.Plural}

		return nil, f
	}

	switch {
	case w.sub == "status":
		status := next["status"]
		next = fleet.Copy(before)
		next["status"] = status
	case w.kind.Status && before["status"] != nil:
		next["status"] = before["status"]
	case w.kind.Status:
		delete(next, "status")
	}

	next["kind"], next["apiVersion"] = w.kind.Kind, w.kind.apiVersion()

	for _, name := range []string{"uid", "creationTimestamp", "generation", "name", "namespace", "deletionTimestamp"} {
		if value := dig(before, "metadata", name); value != nil {
			put(next, value, "metadata", name)
		}
	}

	if !same(before["spec"], next["spec"]) {
		put(next, number(before, "metadata", "generation")+1, "metadata", "generation")
	}

	put(next, text(before, "metadata", "resourceVersion"), "metadata", "resourceVersion")

	if same(before, next) || w.dryRun {
		return next, nil
	}

	key := w.kind.key(w.namespace, w.name)
	finalizers, _ := dig(next, "metadata", "finalizers").([]any)

	if text(next, "metadata", "deletionTimestamp") != "" && len(finalizers) == 0 && w.kind.Plural != "pods" {
		w.fleet().Drop(w.etcd, key)

		return next, nil
	}

	return fleet.Copy(w.fleet().Put(w.etcd, key, next)), nil
}

func same(a, b any) bool {
	left, err := json.Marshal(a)
	if err != nil {
		return false
	}

	right, err := json.Marshal(b)

	return err == nil && string(left) == string(right)
}

func parseIndex(version string) uint64 {
	index, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}

	return index
}
