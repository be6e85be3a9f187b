package fleet

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
)

// Node is one fake machine. Its fields belong to the fleet's lock.
type Node struct {
	fleet *Fleet
	Spec  NodeSpec
	State

	// What a reboot loses.
	config   config.Provider
	digest   string
	Machine  *MachineEvents
	Started  time.Time // its apid came up
	Booted   bool      // the boot sequence is over
	Identity *Identity
	Services map[string]*Service
	joinAt   time.Time
	status   string
	online   bool
	pods     staticPods
	Heard    time.Time // Kubernetes last heard of its kubelet
	failure  string    // why the last bootstrap failed
	kubelet  kubelet
}

// Config returns the active config, or nil.
func (n *Node) Config() config.Provider { return n.config }

// Digest returns the short name of the active config.
func (n *Node) Digest() string { return n.digest }

// Fleet returns the fleet of the node.
func (n *Node) Fleet() *Fleet { return n.fleet }

func (n *Node) parse() error {
	n.config, n.digest = nil, Digest(n.Active)

	if n.Active == "" {
		return nil
	}

	provider, err := configloader.NewFromBytes([]byte(n.Active))
	if err != nil {
		return err
	}

	n.config = provider

	return nil
}

// Configured says whether the node has a config that it can run with.
func (n *Node) Configured() bool {
	return n.config != nil && n.config.Machine() != nil && n.config.Cluster() != nil
}

// Online says whether the network reaches the node's apid.
func (n *Node) Online() bool { return n.online && !n.Trouble.Dark }

// ControlPlane says whether the node's config makes it a control plane.
func (n *Node) ControlPlane() bool {
	return n.Configured() && n.config.Machine().Type() != machine.TypeWorker
}

// ClusterID returns the cluster that the config names, or nothing.
func (n *Node) ClusterID() string {
	if !n.Configured() {
		return ""
	}

	return n.config.Cluster().ID()
}

// Hostname is what the config says, or the name that Talos would find by itself.
func (n *Node) Hostname() string {
	if n.config != nil {
		if named := n.config.NetworkHostnameConfig(); named != nil && named.Hostname() != "" {
			return named.Hostname()
		}
	}

	return "talos-" + hexOf(n.UUID)[:6]
}

// Nodename is the name of the Kubernetes node.
func (n *Node) Nodename() string {
	return strings.ToLower(n.Hostname())
}

// Addresses are what the node's links have.
func (n *Node) Addresses() []netip.Prefix {
	var all []netip.Prefix

	for _, link := range n.Spec.Links {
		for _, text := range link.Addresses {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				all = append(all, prefix)
			}
		}
	}

	return all
}

// Etcd returns the etcd cluster that the node's data directory belongs to, and its member there; both may be absent.
func (n *Node) Etcd() (*Etcd, *Member) {
	if n.Data == nil {
		return nil, nil
	}

	etcd := n.fleet.Etcds[n.Data.Etcd]
	if etcd == nil {
		return nil, nil
	}

	return etcd, etcd.Member(n.Data.Member)
}

// EtcdRunning says whether the node's etcd serves as the member that its data says it is.
func (n *Node) EtcdRunning() bool {
	_, member := n.Etcd()
	service := n.Services["etcd"]

	return member != nil && service != nil && service.State == StateRunning && n.Online()
}

func (n *Node) log(kind, text string, detail map[string]any) {
	n.fleet.Log.Add(Entry{Node: n.Spec.Name, Kind: kind, Text: text, Detail: detail})
}

// Lost tells the fleet's log of a change that a test makes.
func (n *Node) Note(kind, text string) { n.log(kind, text, nil) }

var (
	tag       = regexp.MustCompile(`^(.+):(v\d+\.\d+\.\d+[-.+0-9A-Za-z]*)(@sha256:[0-9a-f]{64})?$`)
	schematic = regexp.MustCompile(`/([0-9a-f]{64}):`)
)

// ImageOf reads what an installer's reference says of the Talos in it.
func ImageOf(ref string) (Image, error) {
	found := tag.FindStringSubmatch(ref)
	if found == nil {
		return Image{}, fmt.Errorf("the fake nodes read the version from the tag of the installer image, and %q has none such as :v1.13.0", ref)
	}

	return Image{Version: found[2], Ref: ref, Schematic: schematicOf(ref)}, nil
}

func schematicOf(ref string) string {
	found := schematic.FindStringSubmatch(ref)
	if found == nil {
		return ""
	}

	return found[1]
}
