package kube

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

const kilo = "kilo.squat.ai/"

// allot gives each node its range of pod addresses, as kube-controller-manager does: the first free /24.
func (c *cluster) allot() {
	taken := map[string]bool{}
	for _, node := range c.objects("nodes") {
		taken[text(node, "spec", "podCIDR")] = true
	}

	for _, object := range c.objects("nodes") {
		machine := c.nodes[text(object, "metadata", "name")]
		if machine == nil || text(object, "spec", "podCIDR") != "" {
			continue
		}

		if cidr := free(machine.Config().Cluster().Network().PodCIDRs(), taken); cidr != "" {
			taken[cidr] = true
			node := fleet.Copy(object)
			put(node, cidr, "spec", "podCIDR")
			put(node, []any{cidr}, "spec", "podCIDRs")
			c.change("nodes", node)
		}
	}
}

// free returns the first /24 of the first IPv4 range that is not taken.
func free(ranges []string, taken map[string]bool) string {
	for _, each := range ranges {
		whole, err := netip.ParsePrefix(each)
		if err != nil || !whole.Addr().Is4() {
			continue
		}

		for at := whole.Masked().Addr(); whole.Contains(at); {
			if cidr := at.String() + "/24"; !taken[cidr] {
				return cidr
			}

			bytes := at.As4()
			number := (int(bytes[0])<<16 | int(bytes[1])<<8 | int(bytes[2])) + 1
			at = netip.AddrFrom4([4]byte{byte(number >> 16), byte(number >> 8), byte(number), 0})
		}
	}

	return ""
}

// kiloAgents are simulated: where a pod of Kilo's runs, its node is told of as the agent would (squat/kilo 0.7.0
// pkg/k8s/backend.go, Set). No packet flows. A key stays with its machine's disk, here with the machine's identity.
func (c *cluster) kiloAgents() {
	numbers := map[string]int{}
	for _, node := range c.objects("nodes") {
		if number, err := strconv.Atoi(text(node, "metadata", "annotations", numbered)); err == nil {
			numbers[text(node, "metadata", "name")] = number
		}
	}

	for _, pod := range c.objects("pods") {
		port, subnet, granularity, ours := agent(pod)
		name := text(pod, "spec", "nodeName")
		machine := c.nodes[name]
		object, known := c.etcd.Objects[kindOf("nodes").key("", name)]

		if !ours || !ready(pod) || machine == nil || !known || !machine.NodeReady() {
			continue
		}

		if _, has := numbers[name]; !has {
			numbers[name] = lowest(numbers)
		}

		sum := sha256.Sum256([]byte("kilo " + machine.UUID))
		address := machine.Spec.Address
		node := fleet.Copy(object)
		said := map[string]string{
			"endpoint": address + ":" + port, "internal-ip": address + "/32", "granularity": granularity,
			"key": base64.StdEncoding.EncodeToString(sum[:]), "wireguard-ip": inside(subnet, numbers[name]),
		}

		for _, word := range []string{"endpoint", "internal-ip"} {
			if forced := text(node, "metadata", "annotations", kilo+"force-"+word); forced != "" && forced != "-" {
				said[word] = forced
			}
		}

		changed := text(node, "metadata", "annotations", kilo+"last-seen") == ""
		for word, value := range said {
			changed = changed || text(node, "metadata", "annotations", kilo+word) != value
			put(node, value, "metadata", "annotations", kilo+word)
		}

		// An agent checks in every half minute, which would be all that ever changes here.
		if !changed && !c.news("kilo "+name, c.now.Unix()/30) {
			continue
		}

		put(node, strconv.FormatInt(c.now.Unix(), 10), "metadata", "annotations", kilo+"last-seen")
		put(node, strconv.Itoa(numbers[name]), "metadata", "annotations", numbered)
		c.change("nodes", node)
	}
}

// numbered is the fake cluster's own annotation: which address of the mesh a node has.
const numbered = "lab.hybrid-talos.dev/mesh-number"

// agent returns the port, the range and the granularity that a pod's agent was started with, and whether it is one.
func agent(pod fleet.Object) (port, subnet, granularity string, ours bool) {
	port, subnet, granularity = "51820", "10.4.0.0/16", "location" // the agent's defaults
	containers, _ := dig(pod, "spec", "containers").([]any)

	for _, container := range containers {
		if !strings.Contains(text(container, "image"), "/kilo:") && !strings.Contains(text(container, "image"), "/kilo@") {
			continue
		}

		ours = true
		args, _ := dig(container, "args").([]any)

		for _, each := range args {
			flag, value, _ := strings.Cut(fmt.Sprint(each), "=")

			switch flag {
			case "--port":
				port = value
			case "--subnet":
				subnet = value
			case "--mesh-granularity":
				granularity = value
			}
		}
	}

	return port, subnet, granularity, ours
}

func lowest(numbers map[string]int) int {
	taken := map[int]bool{}
	for _, number := range numbers {
		taken[number] = true
	}

	number := 1
	for taken[number] {
		number++
	}

	return number
}

// inside returns the address of a number in a range, with the range's length.
func inside(subnet string, number int) string {
	prefix, err := netip.ParsePrefix(subnet)
	if err != nil {
		return ""
	}

	at := prefix.Masked().Addr()
	for range number {
		at = at.Next()
	}

	return netip.PrefixFrom(at, prefix.Bits()).String()
}
