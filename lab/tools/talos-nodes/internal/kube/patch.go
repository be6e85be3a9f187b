package kube

import (
	"encoding/json"
	"net/http"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"gopkg.in/yaml.v3"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// patch changes an object as the patch's media type says. Server-side apply is a merge, which may also create.
func (w *write) patch(body []byte) (any, int, error) {
	kind, _, _ := strings.Cut(w.apply, ";")
	before, err := w.current()

	if kind == "application/apply-patch+yaml" {
		part, failure := applied(body)
		if failure != nil {
			return nil, 0, failure
		}

		if err != nil {
			put(part, w.name, "metadata", "name")

			object, failure := w.add(part)

			return object, http.StatusCreated, failure
		}

		delete(part["metadata"].(map[string]any), "resourceVersion") //nolint:forcetypeassert // every object has one

		object, failure := w.store(before, merge(fleet.Copy(before), part).(fleet.Object)) //nolint:forcetypeassert // of objects

		return object, http.StatusOK, failure
	}

	if err != nil {
		return nil, 0, err
	}

	next, err := patched(kind, before, body)
	if err != nil {
		return nil, 0, err
	}

	object, err := w.store(before, next)

	return object, http.StatusOK, err
}

func applied(body []byte) (fleet.Object, error) {
	var made any

	if err := yaml.Unmarshal(body, &made); err != nil {
		return nil, fail(http.StatusBadRequest, "BadRequest", "%v", err)
	}

	data, err := json.Marshal(made)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "BadRequest", "%v", err)
	}

	object, err := decode(data)
	if err != nil {
		return nil, err
	}

	if _, ok := object["metadata"].(map[string]any); !ok {
		object["metadata"] = map[string]any{}
	}

	return object, nil
}

func patched(kind string, before fleet.Object, body []byte) (fleet.Object, error) {
	document, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}

	switch kind {
	case "application/json-patch+json":
		patch, err := jsonpatch.DecodePatch(body)
		if err != nil {
			return nil, fail(http.StatusBadRequest, "BadRequest", "%v", err)
		}

		document, err = patch.Apply(document)
		if err != nil {
			return nil, fail(http.StatusUnprocessableEntity, "Invalid", "the server rejected our request due to an error in our request: %v", err)
		}

		return decode(document)
	case "application/merge-patch+json":
		if document, err = jsonpatch.MergePatch(document, body); err != nil {
			return nil, fail(http.StatusBadRequest, "BadRequest", "%v", err)
		}

		return decode(document)
	case "application/strategic-merge-patch+json":
		part, err := decode(body)
		if err != nil {
			return nil, err
		}

		return merge(fleet.Copy(before), part).(fleet.Object), nil //nolint:forcetypeassert // of objects
	default:
		return nil, fail(http.StatusUnsupportedMediaType, "UnsupportedMediaType", "the body of the request was in an unknown format: %s", kind)
	}
}

// By these fields the items of a list are told apart, the first that all of them have.
var mergeKeys = []string{"type", "name", "key", "containerPort", "port", "uid", "ip"}

// merge puts a part into what is there: maps by name, lists of maps by their key, all else as a whole.
func merge(there, part any) any {
	switch part := part.(type) {
	case map[string]any:
		into, ok := there.(map[string]any)
		if !ok {
			into = map[string]any{}
		}

		for name, value := range part {
			switch {
			case value == nil:
				delete(into, name)
			case strings.HasPrefix(name, "$"):
			default:
				into[name] = merge(into[name], value)
			}
		}

		return into
	case []any:
		list, ok := there.([]any)
		key := keyOf(part)

		if !ok || key == "" {
			return part
		}

		return mergeList(list, part, key)
	default:
		return part
	}
}

func keyOf(list []any) string {
	for _, key := range mergeKeys {
		all := len(list) > 0

		for _, item := range list {
			if dig(item, key) == nil {
				all = false
			}
		}

		if all {
			return key
		}
	}

	return ""
}

func mergeList(list, part []any, key string) []any {
	merged := append([]any{}, list...)

	for _, item := range part {
		at := -1

		for i, each := range merged {
			if dig(each, key) == dig(item, key) {
				at = i
			}
		}

		switch {
		case text(item, "$patch") == "delete":
			if at >= 0 {
				merged = append(merged[:at], merged[at+1:]...)
			}
		case at >= 0:
			merged[at] = merge(merged[at], item)
		default:
			merged = append(merged, item)
		}
	}

	return merged
}
