package fleet

import (
	"strings"
	"sync"

	"github.com/rs/xid"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const eventCapacity = 1000

// MachineEvents is what a machine tells those who watch it. A reboot forgets it.
type MachineEvents struct {
	mu       sync.Mutex
	events   []*machineapi.Event
	watchers map[chan *machineapi.Event]bool
}

// NewMachineEvents returns an empty stream.
func NewMachineEvents() *MachineEvents {
	return &MachineEvents{watchers: map[chan *machineapi.Event]bool{}}
}

// NewEvent packs a payload as Talos does.
func NewEvent(actor string, payload proto.Message) *machineapi.Event {
	event := &machineapi.Event{Id: xid.New().String(), ActorId: actor}

	if payload != nil {
		value, err := proto.Marshal(payload)
		if err == nil {
			name := "talos/runtime/" + string(payload.ProtoReflect().Descriptor().FullName())
			event.Data = &anypb.Any{TypeUrl: name, Value: value}
		}
	} else {
		event.Data = &anypb.Any{TypeUrl: "talos/runtime/"}
	}

	return event
}

// Publish sends an event to all watchers. One that does not keep up loses events, as in Talos.
func (m *MachineEvents) Publish(actor string, payload proto.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()

	event := NewEvent(actor, payload)
	m.events = append(m.events, event)

	if len(m.events) > eventCapacity {
		m.events = m.events[len(m.events)-eventCapacity:]
	}

	for watcher := range m.watchers {
		select {
		case watcher <- event:
		default:
		}
	}
}

// Watch returns a stream of past events (all if tail is negative) and new ones, and how to end it.
func (m *MachineEvents) Watch(tail int, afterID, actor string) (<-chan *machineapi.Event, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()

	past := m.events
	if tail >= 0 && tail < len(past) {
		past = past[len(past)-tail:]
	}

	if afterID != "" {
		past = m.events
		for i, event := range past {
			if strings.Compare(event.GetId(), afterID) > 0 {
				past = past[i:]

				break
			}
		}
	}

	ch := make(chan *machineapi.Event, 2*eventCapacity)

	for _, event := range past {
		if actor == "" || event.GetActorId() == actor {
			ch <- event
		}
	}

	m.watchers[ch] = true

	return ch, func() {
		m.mu.Lock()
		defer m.mu.Unlock()

		delete(m.watchers, ch)
	}
}
