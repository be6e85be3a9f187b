package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"gopkg.in/yaml.v3"
)

// Phase is what a machine is doing.
type Phase string

// The phases of a machine. In all but Off, Booting and Installing its apid listens.
const (
	Off         Phase = "off"
	Booting     Phase = "booting"
	Maintenance Phase = "maintenance"
	Installing  Phase = "installing"
	Running     Phase = "running"
	Stopping    Phase = "stopping"
)

// Image is an installed Talos.
type Image struct {
	Version   string `json:"version"`
	Ref       string `json:"ref"`
	Schematic string `json:"schematic,omitempty"`
}

// Sequence is what a machine does while it is stopping, and what follows.
type Sequence struct {
	Name          string    `json:"name"` // reboot, upgrade, stageUpgrade, reset, shutdown
	Actor         string    `json:"actor"`
	Upgrade       *Image    `json:"upgrade,omitempty"`
	Fails         string    `json:"fails,omitempty"`
	Graceful      bool      `json:"graceful,omitempty"`
	Force         bool      `json:"force,omitempty"`
	Reboot        bool      `json:"reboot,omitempty"`
	Wipe          bool      `json:"wipe,omitempty"`
	WipeState     bool      `json:"wipeState,omitempty"`
	WipeEphemeral bool      `json:"wipeEphemeral,omitempty"`
	LeaveBy       time.Time `json:"leaveBy,omitzero"`
	Step          int       `json:"step"`
}

// Data is the content of a node's etcd data directory.
type Data struct {
	Etcd   string `json:"etcd"`
	Member uint64 `json:"member,string"`
}

// Try is a config that goes away again by itself.
type Try struct {
	Until  time.Time `json:"until"`
	Before string    `json:"before"`
}

// Trouble is what tests break on a node until they repair it.
type Trouble struct {
	EtcdDown       bool   `json:"etcdDown"`       // etcd does not run
	KubeletDown    bool   `json:"kubeletDown"`    // the kubelet is not healthy
	KubernetesDown bool   `json:"kubernetesDown"` // its kube-apiserver does not serve
	DiskFull       bool   `json:"diskFull"`       // nothing can be installed or pulled, etcd has the NOSPACE alarm
	UpgradeFails   string `json:"upgradeFails"`   // what the installer says before it fails
	NoPull         bool   `json:"noPull"`         // images cannot be pulled
	TimeUnsynced   bool   `json:"timeUnsynced"`
	Diagnostic     string `json:"diagnostic"` // a warning that stands among the node's diagnostics
	Dark           bool   `json:"dark"`       // the network does not reach the node
	BootStuck      bool   `json:"bootStuck"`  // once it is down it does not come up
}

// Counts are what tests hold against what should have happened once.
type Counts struct {
	Applies    int `json:"applies"`
	Bootstraps int `json:"bootstraps"`
	Recoveries int `json:"recoveries"`
	Boots      int `json:"boots"`
	Reboots    int `json:"reboots"`
	Upgrades   int `json:"upgrades"`
	Resets     int `json:"resets"`
	Leaves     int `json:"leaves"`
	Snapshots  int `json:"snapshots"`
}

// Disk state of a node: all of it survives the process, and all but the phase what happens to a machine.
type State struct {
	Phase     Phase             `json:"phase"`
	Until     time.Time         `json:"until,omitzero"`
	Sequence  *Sequence         `json:"sequence,omitempty"`
	Active    string            `json:"active"`
	Persisted string            `json:"persisted"`
	Try       *Try              `json:"try,omitempty"`
	BootID    string            `json:"bootID"`
	UUID      string            `json:"uuid"`
	Installed bool              `json:"installed"`
	Image     Image             `json:"image"`
	Next      *Image            `json:"next,omitempty"`
	Previous  *Image            `json:"previous,omitempty"`
	Data      *Data             `json:"data,omitempty"`
	Left      bool              `json:"left"`
	Pulled    map[string]string `json:"pulled"`
	Meta      map[string]string `json:"meta"`
	Trouble   Trouble           `json:"trouble"`
	Counts    Counts            `json:"counts"`
}

func macOf(name string) string {
	sum := sha256.Sum256([]byte(name))

	return fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", sum[0], sum[1], sum[2], sum[3], sum[4])
}

func hexOf(data string) string {
	sum := sha256.Sum256([]byte(data))

	return hex.EncodeToString(sum[:])
}

// Digest returns the short name of a config: what logs show instead of its content.
func Digest(config string) string {
	if config == "" {
		return ""
	}

	return hexOf(config)[:12]
}

func digestOf(part any) string {
	text, err := yaml.Marshal(part)
	if err != nil {
		return err.Error()
	}

	return hexOf(string(text))
}
