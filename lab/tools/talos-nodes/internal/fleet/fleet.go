package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Fleet is all machines of one process.
type Fleet struct {
	mu      sync.Mutex
	folder  string
	Spec    Spec
	Timings Timings
	Log     *Log
	Nodes   []*Node
	Etcds   map[string]*Etcd
	Faults  *Faults

	hooks     chan func()
	up        func(*Node)
	down      func(*Node)
	dirty     map[*Node]bool
	dirtyEtcd bool
	tickers   []func(time.Time)
}

// Open returns the fleet that the folder holds, or a new one.
func Open(folder string, spec Spec) (*Fleet, error) {
	for _, name := range []string{folder, filepath.Join(folder, "nodes")} {
		if err := os.MkdirAll(name, 0o700); err != nil {
			return nil, err
		}
	}

	log, err := OpenLog(filepath.Join(folder, "events.jsonl"))
	if err != nil {
		return nil, err
	}

	f := &Fleet{
		folder: folder, Spec: spec, Timings: *spec.Timings, Log: log, Etcds: map[string]*Etcd{},
		Faults: &Faults{}, hooks: make(chan func(), 1024), dirty: map[*Node]bool{},
	}

	if err = readJSON(filepath.Join(folder, "etcd.json"), &f.Etcds); err != nil {
		return nil, err
	}

	for _, each := range spec.Nodes {
		node, err := f.open(each)
		if err != nil {
			return nil, err
		}

		f.Nodes = append(f.Nodes, node)
	}

	return f, nil
}

func (f *Fleet) open(spec NodeSpec) (*Node, error) {
	node := &Node{fleet: f, Spec: spec, Machine: NewMachineEvents()}

	err := readJSON(f.path(node), &node.State)
	if err != nil {
		return nil, err
	}

	if node.State.UUID == "" { // never seen before
		ref := spec.Image
		if ref == "" {
			ref = "ghcr.io/siderolabs/installer:" + spec.Talos
		}

		node.State = State{
			Phase: Booting, UUID: uuid.NewString(), Installed: spec.Installed, BootID: uuid.NewString(),
			Image: Image{Version: spec.Talos, Ref: ref, Schematic: schematicOf(ref)},
		}
		f.dirty[node] = true
	}

	// The process that ended held the machines' memory: what was up comes up again, in the same boot.
	if node.Pulled == nil {
		node.Pulled = map[string]string{}
	}

	if node.Meta == nil {
		node.Meta = map[string]string{}
	}

	if err = node.parse(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path(node), err)
	}

	return node, nil
}

func (f *Fleet) path(n *Node) string {
	return filepath.Join(f.folder, "nodes", n.Spec.Name+".json")
}

// Start calls up and down when a machine's network comes and goes, one at a time and in order, and lets time pass.
func (f *Fleet) Start(up, down func(*Node), stop <-chan struct{}) {
	f.up, f.down = up, down

	go func() {
		for {
			select {
			case hook := <-f.hooks:
				hook()
			case <-stop:
				return
			}
		}
	}()

	f.Do(func() {
		for _, node := range f.Nodes {
			switch node.Phase {
			case Maintenance, Running, Stopping:
				node.start(time.Now())
			case Off, Booting, Installing:
			}
		}
	})

	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()

		for {
			select {
			case now := <-ticker.C:
				f.Do(func() { f.tick(now) })
			case <-stop:
				return
			}
		}
	}()
}

// OnTick adds what is to be done whenever time moves on; it must be called before Start.
func (f *Fleet) OnTick(do func(time.Time)) { f.tickers = append(f.tickers, do) }

// Later runs something without the fleet's lock, after what was given before.
func (f *Fleet) Later(hook func()) { f.hooks <- hook }

// Do runs a change of the model alone, and saves what it changed.
func (f *Fleet) Do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()

	change()
	f.save()
}

func (f *Fleet) save() {
	if f.dirtyEtcd {
		f.dirtyEtcd = false
		f.must(writeJSON(filepath.Join(f.folder, "etcd.json"), f.Etcds))
	}

	for node := range f.dirty {
		delete(f.dirty, node)
		f.must(writeJSON(f.path(node), node.State))
	}
}

// A fleet that cannot keep its state must not go on as if it had.
func (f *Fleet) must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "talos-nodes: state cannot be saved:", err)
		os.Exit(1)
	}
}

// Changed marks a node whose state must be saved.
func (f *Fleet) Changed(n *Node) { f.dirty[n] = true }

// ByName returns a node by the name that the fleet's description gives it.
func (f *Fleet) ByName(name string) *Node {
	for _, node := range f.Nodes {
		if node.Spec.Name == name {
			return node
		}
	}

	return nil
}

// ByAddress returns the node that a client means by an address or a hostname.
func (f *Fleet) ByAddress(target string) *Node {
	for _, node := range f.Nodes {
		if target == node.Spec.Address || target == node.Spec.ListenHost() {
			return node
		}

		for _, address := range node.Addresses() {
			if target == address.Addr().String() {
				return node
			}
		}
	}

	for _, node := range f.Nodes {
		if strings.EqualFold(target, node.Hostname()) {
			return node
		}
	}

	return nil
}

// ClusterNodes returns the nodes whose configs belong to one cluster, by name.
func (f *Fleet) ClusterNodes(cluster string) []*Node {
	var found []*Node

	for _, node := range f.Nodes {
		if node.ClusterID() == cluster && cluster != "" {
			found = append(found, node)
		}
	}

	sort.Slice(found, func(i, j int) bool { return found[i].Spec.Name < found[j].Spec.Name })

	return found
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return err
	}

	if err = json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}

	return nil
}

func writeJSON(path string, what any) error {
	data, err := json.Marshal(what)
	if err != nil {
		return err
	}

	draft := path + ".new"
	if err = os.WriteFile(draft, data, 0o600); err != nil {
		return err
	}

	return os.Rename(draft, path)
}
