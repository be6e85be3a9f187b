// Package control is how tests look at a fleet and break it: JSON over HTTP, on loopback.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// Handler serves the control API of a fleet.
//
//	GET    /nodes            every node's state           GET    /etcd             the etcd clusters
//	GET    /events?after=N   the log behind entry N       POST   /nodes/NAME/ACTION
//	POST   /faults           arm a fault                  GET    /faults           DELETE /faults?id=N
//	PUT    /nodes/NAME/trouble   what is broken on a node PUT    /timings
func Handler(f *fleet.Fleet) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, serve func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := serve(r)
			write(w, answer, err)
		})
	}

	handle("GET /nodes", func(*http.Request) (any, error) { return Nodes(f), nil })
	handle("GET /etcd", func(*http.Request) (any, error) { return etcds(f), nil })
	handle("GET /events", func(r *http.Request) (any, error) {
		after, err := strconv.Atoi(orZero(r.URL.Query().Get("after")))
		if err != nil {
			return nil, bad("after: %v", err)
		}

		return f.Log.After(after), nil
	})
	handle("GET /faults", func(*http.Request) (any, error) { return f.Faults.List(), nil })
	handle("POST /faults", func(r *http.Request) (any, error) { return arm(f, r) })
	handle("DELETE /faults", func(r *http.Request) (any, error) {
		id, err := strconv.Atoi(orZero(r.URL.Query().Get("id")))
		if err != nil {
			return nil, bad("id: %v", err)
		}

		f.Faults.Remove(id)

		return map[string]any{}, nil
	})
	handle("PUT /timings", func(r *http.Request) (any, error) { return timings(f, r) })
	handle("PUT /nodes/{name}/trouble", func(r *http.Request) (any, error) { return trouble(f, r) })
	handle("POST /nodes/{name}/{action}", func(r *http.Request) (any, error) { return act(f, r) })

	return mux
}

type badRequest struct{ error }

func bad(format string, values ...any) error { return badRequest{fmt.Errorf(format, values...)} }

func orZero(text string) string {
	if text == "" {
		return "0"
	}

	return text
}

func write(w http.ResponseWriter, answer any, err error) {
	w.Header().Set("Content-Type", "application/json")

	if err != nil {
		code := http.StatusInternalServerError

		var wrong badRequest
		if errors.As(err, &wrong) {
			code = http.StatusBadRequest
		}

		w.WriteHeader(code)

		answer = map[string]string{"error": err.Error()}
	}

	json.NewEncoder(w).Encode(answer) //nolint:errcheck // the client went away
}

// read decodes a body into what already holds the values that the body may leave out.
func read(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()

	if err := decoder.Decode(into); err != nil {
		return bad("body: %v", err)
	}

	return nil
}

func arm(f *fleet.Fleet, r *http.Request) (any, error) {
	fault := fleet.Fault{Node: "*", Method: "*", Times: 1, Code: "Unavailable", Text: "refused by the test"}
	if err := read(r, &fault); err != nil {
		return nil, err
	}

	switch fault.Kind {
	case "slow", "hang", "refuse", "lose", "die", "perish":
	default:
		return nil, bad("kind: %q is none of slow, hang, refuse, lose, die, perish", fault.Kind)
	}

	if fault.Node != "*" && f.ByName(fault.Node) == nil {
		return nil, bad("node: there is no %q", fault.Node)
	}

	return map[string]int{"id": f.Faults.Add(fault)}, nil
}

func timings(f *fleet.Fleet, r *http.Request) (any, error) {
	var (
		next fleet.Timings
		err  error
	)

	f.Do(func() { next = f.Timings })

	if err = read(r, &next); err != nil {
		return nil, err
	}

	f.Do(func() { f.Timings = next })

	return next, nil
}

func trouble(f *fleet.Fleet, r *http.Request) (any, error) {
	node := f.ByName(r.PathValue("name"))
	if node == nil {
		return nil, bad("there is no node %q", r.PathValue("name"))
	}

	var next fleet.Trouble

	f.Do(func() { next = node.Trouble })

	if err := read(r, &next); err != nil {
		return nil, err
	}

	f.Do(func() {
		node.Trouble = next
		f.Changed(node)
	})

	return next, nil
}

func act(f *fleet.Fleet, r *http.Request) (any, error) {
	node := f.ByName(r.PathValue("name"))
	if node == nil {
		return nil, bad("there is no node %q", r.PathValue("name"))
	}

	known := true

	f.Do(func() {
		switch r.PathValue("action") {
		case "reboot":
			node.Cut(true)
		case "off":
			node.Cut(false)
		case "on":
			node.PowerOn()
		case "replace":
			node.Replace()
		case "lose-etcd":
			node.LoseEtcd()
		default:
			known = false
		}
	})

	if !known {
		return nil, bad("%q is none of reboot, off, on, replace, lose-etcd", r.PathValue("action"))
	}

	return map[string]any{}, nil
}
