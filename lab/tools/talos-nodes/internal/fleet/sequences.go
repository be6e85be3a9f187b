package fleet

import (
	"time"

	"github.com/google/uuid"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/proto"
)

func sequenceStage(sequence *Sequence) machineapi.MachineStatusEvent_MachineStage {
	if sequence == nil {
		return machineapi.MachineStatusEvent_UNKNOWN
	}

	switch sequence.Name {
	case "install":
		return machineapi.MachineStatusEvent_INSTALLING
	case "reset":
		return machineapi.MachineStatusEvent_RESETTING
	case "shutdown":
		return machineapi.MachineStatusEvent_SHUTTING_DOWN
	case "upgrade", "stageUpgrade", "maintenanceUpgrade":
		return machineapi.MachineStatusEvent_UPGRADING
	default:
		return machineapi.MachineStatusEvent_REBOOTING
	}
}

// Begin starts a sequence that stops the machine, and returns its actor's ID. One that runs already goes on alone:
// Talos holds a lock for the running sequence.
func (n *Node) Begin(sequence Sequence) string {
	sequence.Actor = uuid.NewString()

	if n.Sequence != nil && n.Phase == Stopping {
		n.Machine.Publish(sequence.Actor, failed(sequence.Name, "locked"))

		return sequence.Actor
	}

	now := time.Now()
	sequence.LeaveBy = now.Add(n.fleet.Timings.Leave.Duration())
	n.Sequence = &sequence

	switch sequence.Name {
	case "reset":
		n.Counts.Resets++
	case "upgrade", "stageUpgrade", "maintenanceUpgrade":
		n.Counts.Upgrades++
	case "reboot":
		n.Counts.Reboots++
	}

	n.enter(Stopping, now.Add(n.fleet.Timings.Stop.Duration()/4))
	n.log("sequence", sequence.Name, map[string]any{"actor": sequence.Actor})
	n.publish(&machineapi.SequenceEvent{Sequence: sequence.Name, Action: machineapi.SequenceEvent_START})

	return sequence.Actor
}

func (n *Node) publish(payload proto.Message) {
	actor := ""
	if n.Sequence != nil {
		actor = n.Sequence.Actor
	}

	n.Machine.Publish(actor, payload)
}

// drains says whether Talos empties the node first: not for the reboot that talosctl has asked for.
func (s *Sequence) drains() bool {
	return s.Name == "upgrade" || s.Name == "shutdown" && !s.Force || s.Name == "reset" && s.Graceful
}

// The steps of a sequence: clean up and leave etcd, stop all services, be gone.
const (
	stepCleanup = iota
	stepServices
	stepGone
)

func (n *Node) stopping(now time.Time) {
	if now.Before(n.Until) {
		return
	}

	sequence := n.Sequence
	half := n.fleet.Timings.Stop.Duration() / 2

	switch sequence.Step {
	case stepCleanup:
		if sequence.drains() && n.Configured() {
			n.publish(&machineapi.PhaseEvent{Phase: "drain", Action: machineapi.PhaseEvent_START})
			n.cordon()
		}

		if sequence.Name == "reset" && sequence.Graceful && n.ControlPlane() && n.Data != nil && !n.leave(now) {
			return
		}

		if sequence.Fails != "" {
			n.abort(sequence.Fails, true)

			return
		}

		n.publish(&machineapi.PhaseEvent{Phase: "stopEverything", Action: machineapi.PhaseEvent_START})
		n.publish(&machineapi.TaskEvent{Task: "stopAllServices", Action: machineapi.TaskEvent_START})

		sequence.Step = stepServices
		n.Until = now.Add(half)
	case stepServices:
		for id := range n.Services {
			if id != "apid" && id != "machined" {
				n.SetService(id, StateFinished, "Service finished successfully")
			}
		}

		n.publish(&machineapi.TaskEvent{Task: "stopAllServices", Action: machineapi.TaskEvent_STOP})
		n.publish(&machineapi.SequenceEvent{Sequence: sequence.Name, Action: machineapi.SequenceEvent_STOP})

		sequence.Step = stepGone
		n.Until = now.Add(half / 2)
	case stepGone:
		n.gone(now)
	}

	n.fleet.Changed(n)
}

// leave takes the member out of etcd; it says false as long as it has to try again.
func (n *Node) leave(now time.Time) bool {
	n.publish(&machineapi.PhaseEvent{Phase: "leave", Action: machineapi.PhaseEvent_START})

	err := n.fleet.Leave(n)
	if err == nil {
		return true
	}

	if now.Before(n.Sequence.LeaveBy) && retryable(err) {
		n.Until = now.Add(100 * time.Millisecond)

		return false
	}

	n.abort("failed to leave cluster: "+err.Error(), false)

	return false
}

func retryable(err error) bool { return err != ErrNotEnough } //nolint:errorlint // it is that very value

// abort ends a sequence that failed: the machine goes on, or comes up again as it was.
func (n *Node) abort(reason string, reboot bool) {
	n.publish(failed(n.Sequence.Name, reason))
	n.log("sequence failed", reason, map[string]any{"sequence": n.Sequence.Name})

	if reboot {
		n.Sequence.Name, n.Sequence.Fails, n.Sequence.Upgrade = "reboot", "", nil
		n.fleet.Changed(n)

		return
	}

	n.Sequence = nil
	n.Started = time.Now()
	n.enter(Running, time.Time{})
}

// gone is the end of a sequence: what it does to the disk, and what comes then.
func (n *Node) gone(now time.Time) {
	sequence := *n.Sequence

	if sequence.Name == "install" {
		n.goDark(Installing, now.Add(n.fleet.Timings.Install.Duration()))

		return
	}

	if sequence.Upgrade != nil {
		n.Next = sequence.Upgrade
	}

	if sequence.Wipe || sequence.WipeEphemeral {
		n.Data = nil
		n.forgetRecovery()
		n.Pulled = map[string]string{}
	}

	if sequence.Wipe || sequence.WipeState {
		n.Active, n.Persisted, n.Try, n.config = "", "", nil, nil
		n.Meta = map[string]string{}
	}

	if sequence.Wipe {
		n.Installed = n.Spec.Installed
	}

	if sequence.Name == "shutdown" || sequence.Name == "reset" && !sequence.Reboot {
		n.goDark(Off, time.Time{})

		return
	}

	n.goDark(Booting, now.Add(n.fleet.Timings.Boot.Duration()))
}

// Cut ends the machine in the middle of what it does, as a power failure would.
func (n *Node) Cut(boot bool) {
	n.log("cut", "power failure", map[string]any{"boots": boot})

	if n.Phase == Off {
		return
	}

	if boot {
		n.goDark(Booting, time.Now().Add(n.fleet.Timings.Boot.Duration()))
	} else {
		n.goDark(Off, time.Time{})
	}
}

// PowerOn starts a machine that is off.
func (n *Node) PowerOn() {
	if n.Phase == Off {
		n.enter(Booting, time.Now().Add(n.fleet.Timings.Boot.Duration()))
	}
}

// Replace makes the machine a new one: nothing on its disks, another UUID.
func (n *Node) Replace() {
	n.log("replaced", "a new machine", nil)
	n.goDark(Booting, time.Now().Add(n.fleet.Timings.Boot.Duration()))

	ref := n.Spec.Image
	if ref == "" {
		ref = "ghcr.io/siderolabs/installer:" + n.Spec.Talos
	}

	counts := n.Counts
	n.State = State{
		Phase: n.Phase, Until: n.Until, UUID: uuid.NewString(), BootID: uuid.NewString(), Installed: n.Spec.Installed,
		Image: Image{Version: n.Spec.Talos, Ref: ref, Schematic: schematicOf(ref)}, Counts: counts,
		Pulled: map[string]string{}, Meta: map[string]string{},
	}
	n.config = nil
	n.fleet.Changed(n)
}

// LoseEtcd empties the node's etcd data directory behind its back.
func (n *Node) LoseEtcd() {
	n.log("etcd", "data lost", nil)
	n.Data = nil
	n.joinAt = time.Time{}

	if n.Services["etcd"] != nil {
		n.SetService("etcd", StatePreparing, "Running pre state")
	}

	n.fleet.Changed(n)
}
