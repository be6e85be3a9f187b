package fleet

import (
	"encoding/json"
	"strconv"
)

// Object is what Kubernetes keeps in etcd.
type Object = map[string]any

// Change is a change of an object, for those who watch.
type Change struct {
	Type   string // ADDED, MODIFIED or DELETED
	Key    string
	Index  uint64
	Object Object
	Before Object
}

const changesKept = 2000

// Copy returns an object that may be changed.
func Copy(object Object) Object {
	data, err := json.Marshal(object)
	if err != nil {
		panic(err) // it came from JSON
	}

	var copied Object
	if err = json.Unmarshal(data, &copied); err != nil {
		panic(err)
	}

	return copied
}

// Put stores an object under a key, with a resource version of its own.
func (f *Fleet) Put(e *Etcd, key string, object Object) Object {
	before, known := e.Objects[key]
	f.changed(e)

	object = Copy(object)
	if meta, ok := object["metadata"].(map[string]any); ok {
		meta["resourceVersion"] = strconv.FormatUint(e.Index, 10)
	}

	e.Objects[key] = object
	change := Change{Type: "ADDED", Key: key, Index: e.Index, Object: object}

	if known {
		change.Type, change.Before = "MODIFIED", before
	}

	e.tell(change)

	return object
}

// Drop removes an object.
func (f *Fleet) Drop(e *Etcd, key string) {
	before, known := e.Objects[key]
	if !known {
		return
	}

	f.changed(e)
	delete(e.Objects, key)

	last := Copy(before)
	if meta, ok := last["metadata"].(map[string]any); ok {
		meta["resourceVersion"] = strconv.FormatUint(e.Index, 10)
	}

	e.tell(Change{Type: "DELETED", Key: key, Index: e.Index, Object: last, Before: before})
}

func (e *Etcd) tell(change Change) {
	e.changes = append(e.changes, change)
	if len(e.changes) > changesKept {
		e.changes = e.changes[len(e.changes)-changesKept:]
	}

	for watcher := range e.watchers {
		select {
		case watcher <- change:
		default: // it does not keep up: it is told so by the end of its stream
			delete(e.watchers, watcher)
			close(watcher)
		}
	}
}

// Watch returns the changes behind an index and how to end it, or false when it does not know so far back.
func (e *Etcd) Watch(after uint64) (<-chan Change, func(), bool) {
	if after < e.Index && (len(e.changes) == 0 || e.changes[0].Index > after+1) {
		return nil, nil, false
	}

	watcher := make(chan Change, 2*changesKept)

	for _, change := range e.changes {
		if change.Index > after {
			watcher <- change
		}
	}

	if e.watchers == nil {
		e.watchers = map[chan Change]bool{}
	}

	e.watchers[watcher] = true

	return watcher, func() { delete(e.watchers, watcher) }, true
}
