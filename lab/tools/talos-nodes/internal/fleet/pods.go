package fleet

import (
	"strings"
	"time"
)

// Component is a part of the control plane that the kubelet runs from a manifest on disk.
type Component struct {
	Image   string
	Version string // of the config resource that it was made from
}

// staticPods are the components that run, and those that are to.
type staticPods struct {
	running map[string]Component
	due     time.Time
	seen    map[string]string // the versions of the config resources that clients saw
}

// Components are the static pods of a control plane, by name.
func Components() []string {
	return []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
}

// Component returns what the config asks of a component.
func (n *Node) Component(name string) Component {
	cluster := n.config.Cluster()
	wanted := Component{Version: n.pods.seen[name]}

	if wanted.Version == "" {
		wanted.Version = "1"
	}

	switch name {
	case "kube-apiserver":
		wanted.Image = cluster.APIServer().Image()
	case "kube-controller-manager":
		wanted.Image = cluster.ControllerManager().Image()
	case "kube-scheduler":
		wanted.Image = cluster.Scheduler().Image()
	}

	return wanted
}

// Saw tells the node which version of a component's config resource clients see now.
func (n *Node) Saw(name, version string) {
	if n.pods.seen == nil {
		n.pods.seen = map[string]string{}
	}

	n.pods.seen[name] = version
}

// Running returns a component as it runs, or false while it does not.
func (n *Node) Running(name string) (Component, bool) {
	component, ok := n.pods.running[name]

	return component, ok
}

// runPods lets the kubelet replace components whose manifest changed.
func (n *Node) runPods(now time.Time) {
	if !n.ControlPlane() || !n.EtcdRunning() || !n.kubelet.healthy(n) {
		return
	}

	if n.pods.running == nil {
		n.pods.running = map[string]Component{}
	}

	changed := false

	for _, name := range Components() {
		if running, ok := n.pods.running[name]; ok && running != n.Component(name) {
			delete(n.pods.running, name)

			n.pods.due = now.Add(n.fleet.Timings.Kubernetes.Duration())
			changed = true
		}
	}

	if changed || now.Before(n.pods.due) {
		return
	}

	for _, name := range Components() {
		if _, ok := n.pods.running[name]; !ok {
			n.pods.running[name] = n.Component(name)
		}
	}
}

// kubelet is the kubelet as it runs.
type kubelet struct {
	image string
	key   string
	upAt  time.Time
}

func (kubelet) healthy(n *Node) bool {
	service := n.Services["kubelet"]

	return service != nil && service.State == StateRunning && service.Healthy != nil && *service.Healthy
}

// KubeletVersion is the version of the kubelet that runs.
func (n *Node) KubeletVersion() string { return TagOf(n.kubelet.image) }

// TagOf returns the version in an image's tag, without what Talos puts behind it.
func TagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, version, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")

	return strings.TrimSuffix(strings.TrimSuffix(version, "-fat"), "-slim")
}

// kubeletKey is all that makes Talos restart the kubelet when it changes.
func (n *Node) kubeletKey() string {
	settings, cluster := n.config.Machine().Kubelet(), n.config.Cluster()
	parts := []string{settings.Image()}

	if cluster.IssuingCA() != nil {
		parts = append(parts, string(cluster.IssuingCA().Crt))
	}

	for _, accepted := range cluster.AcceptedCAs() {
		parts = append(parts, string(accepted.Crt))
	}

	if raw := n.config.RawV1Alpha1(); raw != nil && raw.MachineConfig != nil && raw.MachineConfig.MachineKubelet != nil {
		parts = append(parts, digestOf(raw.MachineConfig.MachineKubelet))
	}

	return strings.Join(parts, "\x00")
}

func (n *Node) runKubelet(now time.Time) {
	service := n.Services["kubelet"]
	if service == nil {
		return
	}

	delay := n.fleet.Timings.Services.Duration()
	key := n.kubeletKey()

	switch {
	case n.kubelet.key == "": // it came up with the machine
		n.kubelet = kubelet{image: n.config.Machine().Kubelet().Image(), key: key}
	case n.kubelet.key != key:
		n.kubelet = kubelet{image: n.config.Machine().Kubelet().Image(), key: key, upAt: now.Add(delay)}
		n.SetService("kubelet", StateStopping, "Sending SIGTERM to kubelet")
		n.SetService("kubelet", StateFinished, "Service finished successfully")
	case service.State == StateFinished && !now.Before(n.kubelet.upAt):
		n.SetService("kubelet", StateRunning, "Started task kubelet")
	case service.State == StateRunning && now.Sub(service.Since) >= delay:
		n.SetHealth("kubelet", !n.Trouble.KubeletDown, "connection refused")
	}
}

// RestartKubelet is what the API's restart of the service does.
func (n *Node) RestartKubelet() {
	n.kubelet.upAt = time.Now().Add(n.fleet.Timings.Services.Duration())
	n.SetService("kubelet", StateStopping, "Sending SIGTERM to kubelet")
	n.SetService("kubelet", StateFinished, "Service finished successfully")
}

// KubeletRuns says whether the kubelet runs, healthy or not.
func (n *Node) KubeletRuns() bool {
	service := n.Services["kubelet"]

	return service != nil && service.State == StateRunning && n.kubelet.key != ""
}
