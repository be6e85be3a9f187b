package fleet

import (
	"sort"
	"time"

	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The states of a service, as Talos spells them.
const (
	StatePreparing = "Preparing"
	StateWaiting   = "Waiting"
	StateStarting  = "Starting"
	StateRunning   = "Running"
	StateStopping  = "Stopping"
	StateFinished  = "Finished"
	StateFailed    = "Failed"
)

// Service is a service of Talos.
type Service struct {
	ID      string
	State   string
	Healthy *bool // nil: it has no health check
	Message string
	Changed time.Time
	Since   time.Time // in this state
	History []*machineapi.ServiceEvent
}

// Names of the services that every configured node runs; control planes have etcd and trustd besides.
var everywhere = []string{"apid", "auditd", "containerd", "cri", "dashboard", "kubelet", "machined", "syslogd", "udevd"}

// Only these may be restarted through the API; in Talos only they allow it.
var restartable = map[string]bool{"kubelet": true}

// Restartable says whether the API may restart a service.
func Restartable(id string) bool { return restartable[id] }

var checked = map[string]bool{
	"apid": true, "containerd": true, "cri": true, "etcd": true, "kubelet": true, "machined": true, "syslogd": true,
	"trustd": true, "udevd": true, "auditd": true,
}

var actions = map[string]machineapi.ServiceStateEvent_Action{
	StatePreparing: machineapi.ServiceStateEvent_PREPARING,
	StateWaiting:   machineapi.ServiceStateEvent_WAITING,
	StateStarting:  machineapi.ServiceStateEvent_STARTING,
	StateRunning:   machineapi.ServiceStateEvent_RUNNING,
	StateStopping:  machineapi.ServiceStateEvent_STOPPING,
	StateFinished:  machineapi.ServiceStateEvent_FINISHED,
	StateFailed:    machineapi.ServiceStateEvent_FAILED,
}

// Service returns a service of the node, made if it is new.
func (n *Node) service(id string) *Service {
	if n.Services == nil {
		n.Services = map[string]*Service{}
	}

	service := n.Services[id]
	if service == nil {
		service = &Service{ID: id}
		n.Services[id] = service
	}

	return service
}

// SetService moves a service to a state, which the machine's events show.
func (n *Node) SetService(id, state, message string) {
	service := n.service(id)
	if service.State == state && service.Message == message {
		return
	}

	now := time.Now()
	if service.State != state {
		service.Since = now
	}

	service.State, service.Message = state, message
	service.History = append(service.History, &machineapi.ServiceEvent{Msg: message, State: state, Ts: timestamppb.New(now)})

	if len(service.History) > 16 {
		service.History = service.History[len(service.History)-16:]
	}

	if state != StateRunning {
		service.Healthy = nil
	}

	n.Machine.Publish("", &machineapi.ServiceStateEvent{
		Service: id, Action: actions[state], Message: message, Health: service.health(),
	})
}

// SetHealth says how a running service's health check went.
func (n *Node) SetHealth(id string, healthy bool, message string) {
	service := n.service(id)
	if service.Healthy != nil && *service.Healthy == healthy {
		return
	}

	service.Healthy = &healthy
	service.Changed = time.Now()

	text := "Health check successful"
	if !healthy {
		text = "Health check failed: " + message
	}

	service.History = append(service.History, &machineapi.ServiceEvent{
		Msg: text, State: service.State, Ts: timestamppb.New(service.Changed),
	})
	n.Machine.Publish("", &machineapi.ServiceStateEvent{
		Service: id, Action: actions[service.State], Message: text, Health: service.health(),
	})
}

func (s *Service) health() *machineapi.ServiceHealth {
	if s.Healthy == nil {
		return &machineapi.ServiceHealth{Unknown: true}
	}

	return &machineapi.ServiceHealth{Healthy: *s.Healthy, LastChange: timestamppb.New(s.Changed)}
}

// ServiceInfos returns the services as the API shows them, by name.
func (n *Node) ServiceInfos() []*machineapi.ServiceInfo {
	infos := make([]*machineapi.ServiceInfo, 0, len(n.Services))

	for _, service := range n.Services {
		infos = append(infos, &machineapi.ServiceInfo{
			Id: service.ID, State: service.State, Health: service.health(),
			Events: &machineapi.ServiceEvents{Events: append([]*machineapi.ServiceEvent{}, service.History...)},
		})
	}

	sort.Slice(infos, func(i, j int) bool { return infos[i].GetId() < infos[j].GetId() })

	return infos
}
