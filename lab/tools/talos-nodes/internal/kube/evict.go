package kube

import (
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// evict deletes a pod unless a budget forbids it.
func (w *write) evict() (any, int, error) {
	pod, err := w.current()
	if err != nil {
		return nil, 0, err
	}

	for _, key := range keys(w.etcd, kindOf("poddisruptionbudgets").prefix(w.namespace)) {
		budget := w.etcd.Objects[key]
		if !selects(dig(budget, "spec", "selector"), labelsOf(pod)) {
			continue
		}

		if w.disruptions(budget) < 1 && ready(pod) {
			f := fail(http.StatusTooManyRequests, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
			f.details = map[string]any{"causes": []any{map[string]any{
				"reason": "DisruptionBudget", "message": "The disruption budget " + text(budget, "metadata", "name") + " needs more healthy pods",
			}}}

			return nil, 0, f
		}
	}

	if _, err = w.delete(w.name, nil); err != nil {
		return nil, 0, err
	}

	return map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success"}, http.StatusCreated, nil
}

// disruptions are the pods that a budget allows to go now.
func (w *write) disruptions(budget any) int64 {
	var healthy, all int64

	for _, key := range keys(w.etcd, kindOf("pods").prefix(text(budget, "metadata", "namespace"))) {
		pod := w.etcd.Objects[key]
		if !selects(dig(budget, "spec", "selector"), labelsOf(pod)) || text(pod, "metadata", "deletionTimestamp") != "" {
			continue
		}

		all++

		if ready(pod) {
			healthy++
		}
	}

	if least := dig(budget, "spec", "minAvailable"); least != nil {
		return healthy - share(least, all)
	}

	if most := dig(budget, "spec", "maxUnavailable"); most != nil {
		return share(most, all) - (all - healthy)
	}

	return healthy - 1
}

// share reads a number or a percentage of pods, rounded up as Kubernetes does.
func share(value any, of int64) int64 {
	switch value := value.(type) {
	case float64:
		return int64(value)
	case string:
		percent, err := strconv.ParseInt(strings.TrimSuffix(value, "%"), 10, 64)
		if err != nil {
			return 0
		}

		return (percent*of + 99) / 100
	default:
		return 0
	}
}

// selects says whether a label selector matches.
func selects(selector any, set map[string]string) bool {
	wanted, _ := dig(selector, "matchLabels").(map[string]any)
	expressions, _ := dig(selector, "matchExpressions").([]any)

	for name, value := range wanted {
		if set[name] != value {
			return false
		}
	}

	for _, each := range expressions {
		parts := []string{}
		values, _ := dig(each, "values").([]any)

		for _, value := range values {
			if word, ok := value.(string); ok {
				parts = append(parts, word)
			}
		}

		key := text(each, "key")
		written := map[string]string{
			"In": key + " in (" + strings.Join(parts, ",") + ")", "NotIn": key + " notin (" + strings.Join(parts, ",") + ")",
			"Exists": key, "DoesNotExist": "!" + key,
		}[text(each, "operator")]

		parsed, err := labels.Parse(written)
		if err != nil || !parsed.Matches(labels.Set(set)) {
			return false
		}
	}

	return selector != nil
}

func condition(object any, kind string) string {
	conditions, _ := dig(object, "status", "conditions").([]any)
	for _, each := range conditions {
		if text(each, "type") == kind {
			return text(each, "status")
		}
	}

	return ""
}

func ready(object any) bool { return condition(object, "Ready") == "True" }
