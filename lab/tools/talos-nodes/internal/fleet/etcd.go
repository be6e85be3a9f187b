package fleet

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"sort"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Member is a member of an etcd cluster.
type Member struct {
	ID        uint64    `json:"id,string"`
	Node      string    `json:"node"`
	Name      string    `json:"name"`
	Address   string    `json:"address"`
	Learner   bool      `json:"learner,omitempty"`
	PromoteAt time.Time `json:"promoteAt,omitzero"`
}

// Etcd is one etcd cluster: what its members agree on.
type Etcd struct {
	ID      string            `json:"id"`
	Cluster string            `json:"cluster"`
	Born    time.Time         `json:"born"`
	From    string            `json:"from,omitempty"` // the snapshot that it was restored from
	Members []*Member         `json:"members"`
	Leader  uint64            `json:"leader,string"`
	Term    uint64            `json:"term"`
	Index   uint64            `json:"index"`
	Objects map[string]Object `json:"objects"`

	changes  []Change
	watchers map[chan Change]bool
}

// What etcd answers; the texts and codes are those of etcd's api/v3rpc/rpctypes/error.go.
var (
	ErrNoLeader    = status.Error(codes.Unavailable, "etcdserver: no leader")
	ErrUnhealthy   = status.Error(codes.Unavailable, "etcdserver: unhealthy cluster")
	ErrNotEnough   = status.Error(codes.FailedPrecondition, "etcdserver: re-configuration failed due to not enough started members")
	ErrNotFound    = status.Error(codes.NotFound, "etcdserver: member not found")
	ErrTimeout     = status.Error(codes.Unavailable, "etcdserver: request timed out")
	ErrNotRunning  = status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:2379: connect: connection refused"`)
	ErrNoSpace     = status.Error(codes.ResourceExhausted, "etcdserver: mvcc: database space exceeded")
	errNoEndpoints = status.Error(codes.Unknown, "no controlplane endpoints discovered yet")
)

func randomID() uint64 {
	var bytes [8]byte

	rand.Read(bytes[:]) //nolint:errcheck // it never fails

	return binary.BigEndian.Uint64(bytes[:])
}

// Member returns a member by its ID, or nil.
func (e *Etcd) Member(id uint64) *Member {
	for _, member := range e.Members {
		if member.ID == id {
			return member
		}
	}

	return nil
}

func (e *Etcd) voters() []*Member {
	var voters []*Member

	for _, member := range e.Members {
		if !member.Learner {
			voters = append(voters, member)
		}
	}

	return voters
}

// Name of the member's node in the fleet.
func (f *Fleet) nodeOf(e *Etcd, member *Member) *Node {
	node := f.ByName(member.Node)
	if node == nil || node.Data == nil || node.Data.Etcd != e.ID || node.Data.Member != member.ID {
		return nil // the machine was wiped, or is another member now
	}

	return node
}

func (f *Fleet) active(e *Etcd) int {
	count := 0

	for _, member := range e.voters() {
		if node := f.nodeOf(e, member); node != nil && node.EtcdRunning() {
			count++
		}
	}

	return count
}

// Quorum says whether more than half of the voters are running.
func (f *Fleet) Quorum(e *Etcd) bool {
	return f.active(e) >= len(e.voters())/2+1
}

// EtcdsOf returns the etcd clusters of one Talos cluster, oldest first. More than one is a cluster torn apart.
func (f *Fleet) EtcdsOf(cluster string) []*Etcd {
	var found []*Etcd

	for _, etcd := range f.Etcds {
		if etcd.Cluster == cluster {
			found = append(found, etcd)
		}
	}

	sort.Slice(found, func(i, j int) bool { return found[i].Born.Before(found[j].Born) })

	return found
}

// EtcdOf returns the etcd cluster that a node's clients reach through any control plane: one with a leader before
// one without.
func (f *Fleet) EtcdOf(cluster string) *Etcd {
	var reachable *Etcd

	for _, etcd := range f.EtcdsOf(cluster) {
		if f.Quorum(etcd) {
			return etcd
		}

		if f.active(etcd) > 0 && reachable == nil {
			reachable = etcd
		}
	}

	return reachable
}

func (f *Fleet) changed(e *Etcd) {
	e.Index++
	f.dirtyEtcd = true
}

func newMember(node *Node) *Member {
	return &Member{ID: randomID(), Node: node.Spec.Name, Name: node.Hostname(), Address: node.Spec.Address}
}

// PeerURL and ClientURL are where a member would listen.
func (m *Member) PeerURL() string   { return "https://" + net.JoinHostPort(m.Address, "2380") }
func (m *Member) ClientURL() string { return "https://" + net.JoinHostPort(m.Address, "2379") }

// Remove takes a member out, as far as etcd's own checks allow (server/etcdserver/server.go mayRemoveMember).
func (f *Fleet) Remove(e *Etcd, id uint64) error {
	if !f.Quorum(e) {
		return ErrNoLeader
	}

	member := e.Member(id)
	if member == nil {
		return ErrNotFound
	}

	if !member.Learner {
		voters := e.voters()
		if len(voters) == 1 {
			return ErrNotEnough
		}

		node := f.nodeOf(e, member)
		runs := node != nil && node.EtcdRunning()

		if runs && f.active(e)-1 < 1+(len(voters)-1)/2 {
			return ErrUnhealthy
		}
	}

	kept := make([]*Member, 0, len(e.Members))

	for _, each := range e.Members {
		if each.ID != id {
			kept = append(kept, each)
		}
	}

	e.Members = kept
	f.changed(e)
	f.Log.Add(Entry{Node: member.Node, Kind: "etcd", Text: "member removed", Detail: map[string]any{
		"etcd": e.ID, "member": fmt.Sprintf("%016x", id), "voters": len(e.voters()),
	}})

	return nil
}

// add lets a node join as a learner, as far as etcd allows (mayAddMember: all voters must be connected).
func (f *Fleet) add(e *Etcd, node *Node, now time.Time) bool {
	if !f.Quorum(e) {
		return false
	}

	for _, member := range append([]*Member{}, e.Members...) {
		if member.Name == node.Hostname() {
			if f.Remove(e, member.ID) != nil {
				return false
			}
		}
	}

	for _, member := range e.Members {
		if member.Learner {
			return false // etcdserver: too many learner members in cluster
		}
	}

	if f.active(e) < len(e.voters()) {
		return false
	}

	member := newMember(node)
	member.Learner = true
	member.PromoteAt = now.Add(f.Timings.Promote.Duration())
	e.Members = append(e.Members, member)
	node.Data = &Data{Etcd: e.ID, Member: member.ID}
	f.changed(e)
	f.Changed(node)
	f.Log.Add(Entry{Node: node.Spec.Name, Kind: "etcd", Text: "member added", Detail: map[string]any{
		"etcd": e.ID, "member": fmt.Sprintf("%016x", member.ID),
	}})

	return true
}

// tickEtcd lets learners become voters and leaders be chosen.
func (f *Fleet) tickEtcd(now time.Time) {
	for _, e := range f.Etcds {
		if !f.Quorum(e) {
			continue
		}

		for _, member := range e.Members {
			node := f.nodeOf(e, member)
			if member.Learner && node != nil && node.EtcdRunning() && !now.Before(member.PromoteAt) {
				member.Learner = false
				f.changed(e)
				f.Log.Add(Entry{Node: member.Node, Kind: "etcd", Text: "member promoted", Detail: map[string]any{
					"etcd": e.ID, "voters": len(e.voters()),
				}})
			}
		}

		if leader := e.Member(e.Leader); leader == nil || f.nodeOf(e, leader) == nil || !f.nodeOf(e, leader).EtcdRunning() {
			for _, member := range e.voters() {
				if node := f.nodeOf(e, member); node != nil && node.EtcdRunning() {
					e.Leader = member.ID
					e.Term++
					f.changed(e)

					break
				}
			}
		}
	}
}
