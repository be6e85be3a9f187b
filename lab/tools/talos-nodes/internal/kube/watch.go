package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// watch streams changes until the client or the server goes.
func (a *api) watch(w http.ResponseWriter, r *http.Request, q *request) {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") != "" {
		// Clients go back to a list and a watch then.
		answer(w, nil, fail(http.StatusUnprocessableEntity, "Invalid", "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: "+
			"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"))

		return
	}

	var (
		initial []fleet.Change
		changes <-chan fleet.Change
		end     func()
		known   = true
		err     error
	)

	a.server.fleet.Do(func() {
		var etcd *fleet.Etcd
		if etcd, err = a.locked(); err != nil {
			return
		}

		after := parseIndex(query.Get("resourceVersion"))
		if after == 0 {
			for _, key := range keys(etcd, q.kind.prefix(q.namespace)) {
				initial = append(initial, fleet.Change{Type: "ADDED", Key: key, Object: fleet.Copy(etcd.Objects[key])})
			}

			after = etcd.Index
		}

		changes, end, known = etcd.Watch(after)
	})

	if err != nil {
		answer(w, nil, err)

		return
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)

	stream := &stream{w: w, q: q}

	if !known {
		stream.send("ERROR", map[string]any{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": http.StatusGone,
			"message": fmt.Sprintf("too old resource version: %s", query.Get("resourceVersion")),
		})

		return
	}

	defer a.server.fleet.Do(end)

	for _, change := range initial {
		stream.change(change)
	}

	stream.flush()
	stream.run(r, changes, timeoutOf(query.Get("timeoutSeconds")))
}

func timeoutOf(text string) time.Duration {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds <= 0 {
		return 30 * time.Minute
	}

	return time.Duration(seconds) * time.Second
}

type stream struct {
	w http.ResponseWriter
	q *request
}

func (s *stream) run(r *http.Request, changes <-chan fleet.Change, timeout time.Duration) {
	over := time.NewTimer(timeout)
	defer over.Stop()

	for {
		select {
		case change, ok := <-changes:
			if !ok {
				return
			}

			s.change(change)
			s.flush()
		case <-over.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (s *stream) flush() {
	if flusher, ok := s.w.(http.Flusher); ok {
		flusher.Flush()
	}
}

// change sends a change as the watcher sees it: an object that no longer matches is gone for it.
func (s *stream) change(change fleet.Change) {
	if !strings.HasPrefix(change.Key, s.q.kind.prefix(s.q.namespace)) {
		return
	}

	matches := s.q.matches(change.Object)
	matched := change.Before != nil && s.q.matches(change.Before)

	switch {
	case change.Type == "MODIFIED" && matches && !matched:
		s.send("ADDED", change.Object)
	case change.Type == "MODIFIED" && !matches && matched:
		s.send("DELETED", change.Object)
	case matches:
		s.send(change.Type, change.Object)
	}
}

func (s *stream) send(kind string, object any) {
	json.NewEncoder(s.w).Encode(map[string]any{"type": kind, "object": object}) //nolint:errcheck // the client went away
}
