package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// api answers the requests that reach one control plane.
type api struct {
	server *Server
	node   *fleet.Node
}

// failure is an answer that is no object.
type failure struct {
	code    int
	reason  string
	message string
	details map[string]any
}

func (f *failure) Error() string { return f.message }

func fail(code int, reason, format string, values ...any) *failure {
	return &failure{code: code, reason: reason, message: fmt.Sprintf(format, values...)}
}

func notFound(kind Kind, name string) *failure {
	f := fail(http.StatusNotFound, "NotFound", "%s %q not found", qualified(kind), name)
	f.details = map[string]any{"name": name, "group": kind.Group, "kind": kind.Plural}

	return f
}

func qualified(kind Kind) string {
	if kind.Group == "" {
		return kind.Plural
	}

	return kind.Plural + "." + kind.Group
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !a.server.trusted(a.node, r) {
		answer(w, nil, fail(http.StatusUnauthorized, "Unauthorized", "Unauthorized"))

		return
	}

	path := strings.Trim(r.URL.Path, "/")

	switch path {
	case "readyz", "livez", "healthz":
		a.healthz(w)

		return
	case "version":
		a.version(w)

		return
	}

	if a.discover(w, r, path) {
		return
	}

	request, err := a.parse(r, path)
	if err != nil {
		var wrong *failure
		if errors.As(err, &wrong) && wrong.code == http.StatusNotFound {
			a.unimplemented(r)
		}

		answer(w, nil, err)

		return
	}

	if request.watch {
		a.watch(w, r, request)

		return
	}

	found, code, err := a.handle(r, request)
	if err != nil {
		answer(w, nil, err)

		return
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(found) //nolint:errcheck // the client went away
}

func (a *api) unimplemented(r *http.Request) {
	a.server.fleet.Log.Add(fleet.Entry{
		Node: a.node.Spec.Name, Kind: "unimplemented", Method: r.Method + " " + r.URL.Path, Text: "the fake Kubernetes API has no such path",
	})
}

func answer(w http.ResponseWriter, body any, err error) {
	w.Header().Set("Content-Type", "application/json")

	if err == nil {
		json.NewEncoder(w).Encode(body) //nolint:errcheck // the client went away

		return
	}

	wrong := &failure{code: http.StatusInternalServerError, reason: "InternalError", message: err.Error()}
	errors.As(err, &wrong)

	w.WriteHeader(wrong.code)
	json.NewEncoder(w).Encode(map[string]any{ //nolint:errcheck // the client went away
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "message": wrong.message,
		"reason": wrong.reason, "details": wrong.details, "code": wrong.code,
	})
}

func (a *api) healthz(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")

	if _, err := a.etcd(); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n")

		return
	}

	fmt.Fprint(w, "ok")
}

func (a *api) version(w http.ResponseWriter) {
	var version string

	a.server.fleet.Do(func() {
		running, _ := a.node.Running("kube-apiserver")
		version = fleet.TagOf(running.Image)
	})

	parts := strings.SplitN(strings.TrimPrefix(version, "v")+"..", ".", 3)

	answer(w, map[string]any{
		"major": parts[0], "minor": parts[1], "gitVersion": version, "gitCommit": "fake", "gitTreeState": "clean",
		"platform": "linux/amd64", "goVersion": "go1", "compiler": "gc", "buildDate": "1970-01-01T00:00:00Z",
	}, nil)
}

// etcd returns the etcd behind this control plane, if it has quorum. The fleet's lock must not be held.
func (a *api) etcd() (*fleet.Etcd, error) {
	var (
		etcd *fleet.Etcd
		err  error
	)

	a.server.fleet.Do(func() { etcd, err = a.locked() })

	return etcd, err
}

// locked is etcd under the fleet's lock.
func (a *api) locked() (*fleet.Etcd, error) {
	etcd, member := a.node.Etcd()
	if etcd == nil || member == nil || !a.server.fleet.Quorum(etcd) {
		return nil, fail(http.StatusInternalServerError, "InternalError", "etcdserver: request timed out")
	}

	return etcd, nil
}

// request is what a path and its query ask.
type request struct {
	kind      Kind
	namespace string
	name      string
	sub       string
	watch     bool
	labels    labels.Selector
	fields    fields.Selector
	dryRun    bool
}

func (a *api) parse(r *http.Request, path string) (*request, error) {
	parts := strings.Split(path, "/")
	group, version := "", ""

	switch {
	case len(parts) >= 3 && parts[0] == "api":
		version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		group, version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, fail(http.StatusNotFound, "NotFound", "the server could not find the requested resource")
	}

	q := &request{watch: r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1"}

	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		q.namespace, parts = parts[1], parts[2:]
	}

	var (
		known bool
		err   error
	)

	a.server.fleet.Do(func() {
		var etcd *fleet.Etcd
		if etcd, err = a.locked(); err == nil {
			q.kind, known = find(etcd, group, version, parts[0])
		}
	})

	if err != nil {
		return nil, err
	}

	if !known {
		return nil, fail(http.StatusNotFound, "NotFound", "the server could not find the requested resource")
	}

	if len(parts) > 1 {
		q.name = parts[1]
	}

	if len(parts) > 2 {
		q.sub = parts[2]
	}

	if q.labels, err = labels.Parse(r.URL.Query().Get("labelSelector")); err != nil {
		return nil, fail(http.StatusBadRequest, "BadRequest", "labelSelector: %v", err)
	}

	if q.fields, err = fields.ParseSelector(r.URL.Query().Get("fieldSelector")); err != nil {
		return nil, fail(http.StatusBadRequest, "BadRequest", "fieldSelector: %v", err)
	}

	q.dryRun = r.URL.Query().Get("dryRun") == "All"

	return q, nil
}

// matches says whether an object is among those that a list or watch is about.
func (q *request) matches(object fleet.Object) bool {
	if q.name != "" && text(object, "metadata", "name") != q.name {
		return false
	}

	if !q.labels.Matches(labels.Set(labelsOf(object))) {
		return false
	}

	set := fields.Set{}
	for _, requirement := range q.fields.Requirements() {
		set[requirement.Field] = text(object, strings.Split(requirement.Field, ".")...)
	}

	return q.fields.Matches(set)
}

func (a *api) list(e *fleet.Etcd, q *request) map[string]any {
	items := []any{}

	for _, key := range keys(e, q.kind.prefix(q.namespace)) {
		if object := e.Objects[key]; q.matches(object) {
			items = append(items, object)
		}
	}

	return map[string]any{
		"kind": q.kind.Kind + "List", "apiVersion": q.kind.apiVersion(),
		"metadata": map[string]any{"resourceVersion": fmt.Sprint(e.Index)}, "items": items,
	}
}
