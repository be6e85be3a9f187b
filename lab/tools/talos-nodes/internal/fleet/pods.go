package fleet

import "time"

// staticPods are the control plane's components as the kubelet runs them.
type staticPods struct{}

func (n *Node) runPods(time.Time) {}
