package fleet

import (
	"path"
	"sync"
)

// Fault is what happens to calls until it is used up.
type Fault struct {
	ID     int    `json:"id"`
	Node   string `json:"node"`   // a node's name, or * for all
	Method string `json:"method"` // a pattern for what stands behind the last slash, such as Etcd*
	Kind   string `json:"kind"`   // slow, hang, refuse, die, lose
	Times  int    `json:"times"`  // how many calls; 0 for all until it is taken away
	Skip   int    `json:"skip"`   // so many calls go through first
	Delay  Millis `json:"delay"`  // slow: how long a call waits
	Code   string `json:"code"`   // refuse: a gRPC code such as Unavailable
	Text   string `json:"text"`   // refuse: the message
	After  int    `json:"after"`  // die: so many messages of a stream are still sent
	Boot   bool   `json:"boot"`   // die: whether the machine comes up again
	Done   int    `json:"done"`   // calls that it met
}

// Faults are the faults that wait for a call.
type Faults struct {
	mu   sync.Mutex
	next int
	list []*Fault
}

// Add arms a fault and returns its number.
func (f *Faults) Add(fault Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.next++
	fault.ID, fault.Done = f.next, 0
	f.list = append(f.list, &fault)

	return fault.ID
}

// Remove disarms a fault, or all with 0.
func (f *Faults) Remove(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()

	kept := f.list[:0]

	for _, fault := range f.list {
		if id != 0 && fault.ID != id {
			kept = append(kept, fault)
		}
	}

	f.list = kept
}

// List returns the faults.
func (f *Faults) List() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()

	all := make([]Fault, 0, len(f.list))
	for _, fault := range f.list {
		all = append(all, *fault)
	}

	return all
}

// Meet returns the first fault that a call meets, or nil, and counts it.
func (f *Faults) Meet(node, method string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()

	for _, fault := range f.list {
		if fault.Node != "*" && fault.Node != node {
			continue
		}

		if ok, err := path.Match(fault.Method, path.Base(method)); err != nil || !ok {
			continue
		}

		if fault.Skip > 0 {
			fault.Skip--

			continue
		}

		if fault.Times > 0 && fault.Done >= fault.Times {
			continue
		}

		fault.Done++
		met := *fault

		return &met
	}

	return nil
}
