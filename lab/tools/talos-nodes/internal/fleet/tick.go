package fleet

import (
	"time"

	"github.com/google/uuid"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
)

// tick moves every machine and every etcd cluster on to now.
func (f *Fleet) tick(now time.Time) {
	for _, node := range f.Nodes {
		node.tick(now)
	}

	f.tickEtcd(now)

	for _, node := range f.Nodes {
		node.publishStatus()
	}

	for _, each := range f.tickers {
		each(now)
	}
}

func (n *Node) tick(now time.Time) {
	due := !now.Before(n.Until)

	switch n.Phase {
	case Off:
	case Booting:
		if due && !n.Trouble.BootStuck {
			n.boot(now)
		}
	case Installing:
		if due {
			n.installed(now)
		}
	case Stopping:
		n.stopping(now)
	case Maintenance, Running:
		if n.Try != nil && !now.Before(n.Try.Until) {
			n.revert()
		}
	}

	if n.listens() && n.Identity == nil {
		n.start(now)
	}

	if n.Phase == Running {
		n.runServices(now)
	}

	n.connect()
}

func (n *Node) listens() bool {
	return n.Phase == Maintenance || n.Phase == Running || n.Phase == Stopping
}

// connect lets the network follow what the machine is doing.
func (n *Node) connect() {
	want := n.listens() && n.Identity != nil && !n.Trouble.Dark
	if want == n.online {
		return
	}

	n.online = want
	hook := n.fleet.down

	if want {
		hook = n.fleet.up
	}

	n.fleet.hooks <- func() { hook(n) }
}

func (n *Node) enter(phase Phase, until time.Time) {
	n.Phase, n.Until = phase, until
	n.fleet.Changed(n)
	n.log("phase", string(phase), map[string]any{"boot": n.BootID})
}

// Dark ends all that runs on the machine: its network is gone at once.
func (n *Node) goDark(phase Phase, until time.Time) {
	n.Identity, n.Services, n.Booted, n.joinAt, n.Sequence, n.status = nil, nil, false, time.Time{}, nil, ""
	n.failure, n.pods, n.kubelet = "", staticPods{}, kubelet{}
	n.enter(phase, until)
	n.connect()
}

func (n *Node) boot(now time.Time) {
	n.BootID = uuid.NewString()
	n.Counts.Boots++
	n.Machine = NewMachineEvents()
	n.Left = false
	n.Try = nil
	n.Active = n.Persisted

	if n.Next != nil {
		previous := n.Image
		n.Previous, n.Image, n.Next = &previous, *n.Next, nil
		n.log("upgraded", n.Image.Version, map[string]any{"from": previous.Version, "image": n.Image.Ref})
	}

	if err := n.parse(); err != nil { // it was parsed before it was kept
		n.log("config", err.Error(), nil)
	}

	if n.Configured() {
		n.enter(Running, time.Time{})
	} else {
		n.enter(Maintenance, time.Time{})
	}

	n.start(now)
}

// start brings the machine's apid up, if it can have an identity.
func (n *Node) start(now time.Time) {
	var err error

	if n.Configured() {
		n.Identity, err = n.configured()
	} else {
		n.Identity, err = n.maintenance()
	}

	if err != nil {
		n.Identity = nil

		if n.status != err.Error() {
			n.status = err.Error()
			n.log("apid", "has no certificate yet: "+err.Error(), nil)
		}

		return
	}

	n.status = ""
	n.Started = now
	n.Services = nil

	n.Machine.Publish("", &machineapi.SequenceEvent{Sequence: "boot", Action: machineapi.SequenceEvent_START})

	if !n.Configured() {
		for _, id := range []string{"apid", "auditd", "containerd", "machined", "syslogd", "udevd"} {
			n.SetService(id, StateRunning, "Started task "+id)
			n.SetHealth(id, true, "")
		}

		return
	}

	for _, id := range everywhere {
		n.SetService(id, StateRunning, "Started task "+id)

		if checked[id] && id != "kubelet" {
			n.SetHealth(id, true, "")
		}
	}

	if n.ControlPlane() {
		n.SetService("trustd", StateRunning, "Started task trustd")
		n.SetHealth("trustd", true, "")
		n.SetService("etcd", StatePreparing, "Running pre state")
	}

	n.connect()
}

func (n *Node) runServices(now time.Time) {
	if n.Identity == nil || n.Sequence != nil {
		return
	}

	settled := now.Sub(n.Started) >= n.fleet.Timings.Services.Duration()

	n.runKubelet(now)

	if n.ControlPlane() {
		n.runEtcd(now, settled)
	}

	if etcd := n.Services["etcd"]; settled && !n.Booted && (etcd == nil || etcd.State == StateRunning) {
		n.Booted = true
		n.uncordon()
		n.Machine.Publish("", &machineapi.SequenceEvent{Sequence: "boot", Action: machineapi.SequenceEvent_STOP})
	}

	n.runPods(now)
}

func (n *Node) runEtcd(now time.Time, settled bool) {
	etcd, member := n.Etcd()
	service := n.service("etcd")

	switch {
	case n.Left:
	case n.failure != "":
		n.SetService("etcd", StateFailed, n.failure)
	case n.Trouble.EtcdDown:
		n.SetService("etcd", StateFailed, "Failed to run task: etcd exited with status 1")
	case n.Data != nil && member == nil:
		n.SetService("etcd", StateFailed, "Failed to run task: the member has been permanently removed from the cluster")
	case member != nil:
		if service.State != StateRunning && service.State != StateStarting {
			n.SetService("etcd", StateStarting, "Starting service")
		}

		if service.State == StateStarting && now.Sub(service.Since) >= n.fleet.Timings.Services.Duration() {
			n.SetService("etcd", StateRunning, "Started task etcd")
		}

		if service.State == StateRunning {
			n.SetHealth("etcd", n.fleet.Quorum(etcd), "context deadline exceeded")
		}
	case settled: // no data: it waits to join
		n.SetService("etcd", StatePreparing, "Running pre state")

		target := n.fleet.EtcdOf(n.ClusterID())
		if target == nil {
			n.joinAt = time.Time{}

			return
		}

		if n.joinAt.IsZero() {
			n.joinAt = now.Add(n.fleet.Timings.Join.Duration())
		}

		if !now.Before(n.joinAt) {
			n.fleet.add(target, n, now)
		}
	}
}
