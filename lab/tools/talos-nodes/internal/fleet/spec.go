// Package fleet is the model of the fake nodes: what each has on its disk, what it is doing, and their etcd clusters.
//
// Nothing here speaks gRPC. Time moves on in Tick; calls change the model under the fleet's lock; both leave what must
// survive the process on disk before they return.
package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"
)

// Millis is a time in thousandths of a second, as the JSON files and the control API write it.
type Millis int64

// Duration returns the time as Go has it.
func (m Millis) Duration() time.Duration { return time.Duration(m) * time.Millisecond }

// Timings says how long things take.
type Timings struct {
	Install    Millis `json:"install"`    // from a config in maintenance mode to the end of the installation
	Stop       Millis `json:"stop"`       // stopping everything before a reboot, a reset or a shutdown
	Boot       Millis `json:"boot"`       // a machine is dark
	Services   Millis `json:"services"`   // from the start of a service until it is healthy
	Join       Millis `json:"join"`       // an etcd member asks to join
	Promote    Millis `json:"promote"`    // a learner becomes a voter
	Pull       Millis `json:"pull"`       // an image is pulled
	Installer  Millis `json:"installer"`  // the installer of an upgrade runs
	Leave      Millis `json:"leave"`      // a member that cannot leave etcd goes on trying (5 minutes in Talos)
	Etcd       Millis `json:"etcd"`       // a call that needs quorum waits when there is none
	Kubernetes Millis `json:"kubernetes"` // a static pod is replaced
}

// DefaultTimings are quick, but long enough for a client to see each state.
func DefaultTimings() Timings {
	return Timings{
		Install: 500, Stop: 500, Boot: 1500, Services: 200, Join: 200, Promote: 300,
		Pull: 50, Installer: 200, Leave: 3000, Etcd: 1000, Kubernetes: 300,
	}
}

// Disk is a disk of a machine.
type Disk struct {
	Path       string `json:"path"`
	Size       uint64 `json:"size"`
	Model      string `json:"model"`
	Serial     string `json:"serial"`
	Bus        string `json:"transport"`
	WWID       string `json:"wwid"`
	UUID       string `json:"uuid"`
	Modalias   string `json:"modalias"`
	BusPath    string `json:"busPath"`
	Readonly   bool   `json:"readonly"`
	Rotational bool   `json:"rotational"`
}

// Link is a network interface of a machine.
type Link struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac"`
	Addresses []string `json:"addresses"`
	Driver    string   `json:"driver"`
	Up        *bool    `json:"up"`
}

// NodeSpec is what a machine is before anybody touches it.
type NodeSpec struct {
	Name       string `json:"name"`
	Address    string `json:"address"`
	Listen     string `json:"listen"`
	Talos      string `json:"talos"`
	Installed  bool   `json:"installed"`
	Image      string `json:"image"`
	MemoryMiB  uint64 `json:"memoryMiB"`
	Disks      []Disk `json:"disks"`
	Links      []Link `json:"links"`
	Arch       string `json:"arch"`
	SecureBoot bool   `json:"secureBoot"`
}

// Spec is the fleet as its starter describes it.
type Spec struct {
	Nodes   []NodeSpec `json:"nodes"`
	Timings *Timings   `json:"timings"`
	// Balancer is a loopback address where the Kubernetes API of the living control planes is found.
	Balancer string `json:"balancer"`
	// Server replaces the address in the kubeconfigs that nodes give out: that of the settings leads nowhere here.
	Server string `json:"kubeconfigServer"`
}

// ReadSpec reads and checks a fleet's description.
func ReadSpec(path string) (Spec, error) {
	var spec Spec

	data, err := os.ReadFile(path)
	if err != nil {
		return spec, err
	}

	timings := DefaultTimings()
	spec.Timings = &timings

	if err = json.Unmarshal(data, &spec); err != nil {
		return spec, fmt.Errorf("%s: %w", path, err)
	}

	seen := map[string]string{}

	for i := range spec.Nodes {
		node := &spec.Nodes[i]
		node.complete()

		if err = node.check(); err != nil {
			return spec, fmt.Errorf("%s: node %d: %w", path, i, err)
		}

		for _, key := range []string{"name " + node.Name, "address " + node.Address, "listen " + node.Listen} {
			if other, taken := seen[key]; taken {
				return spec, fmt.Errorf("%s: %s of %s is taken by %s", path, key, node.Name, other)
			}

			seen[key] = node.Name
		}
	}

	return spec, nil
}

func (n *NodeSpec) complete() {
	if n.Talos == "" {
		n.Talos = "v1.13.0"
	}

	if n.Arch == "" {
		n.Arch = "amd64"
	}

	if n.MemoryMiB == 0 {
		n.MemoryMiB = 8192
	}

	if host, _, err := net.SplitHostPort(n.Listen); err == nil && n.Address == "" {
		n.Address = host
	}

	if len(n.Disks) == 0 {
		n.Disks = []Disk{
			{Path: "/dev/sda", Size: 64 << 30, Model: "FAKE DISK", Serial: "fake-" + n.Name + "-sda", Bus: "sata"},
		}
	}

	if len(n.Links) == 0 {
		n.Links = []Link{{Name: "eth0", MAC: macOf(n.Name), Addresses: []string{n.Address + "/24"}, Driver: "virtio_net"}}
	}
}

func (n *NodeSpec) check() error {
	if n.Name == "" {
		return errors.New("it has no name")
	}

	if !strings.HasPrefix(n.Talos, "v") {
		return fmt.Errorf("talos: %q is no version such as v1.13.0", n.Talos)
	}

	host, _, err := net.SplitHostPort(n.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}

	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsLoopback() {
		return fmt.Errorf("listen: %q is no loopback address", host)
	}

	if _, err = netip.ParseAddr(n.Address); err != nil {
		return fmt.Errorf("address: %w", err)
	}

	for _, link := range n.Links {
		for _, address := range link.Addresses {
			if _, err = netip.ParsePrefix(address); err != nil {
				return fmt.Errorf("link %s: %w", link.Name, err)
			}
		}
	}

	return nil
}

// ListenHost is the loopback address where the node's apid listens.
func (n *NodeSpec) ListenHost() string {
	host, _, _ := net.SplitHostPort(n.Listen) //nolint:errcheck // checked when it was read

	return host
}
