package fleet

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (f *Fleet) newEtcd(node *Node, from *Snapshot) *Etcd {
	var id [8]byte

	rand.Read(id[:]) //nolint:errcheck // it never fails

	member := newMember(node)
	etcd := &Etcd{
		ID: hex.EncodeToString(id[:]), Cluster: node.ClusterID(), Born: time.Now(), Members: []*Member{member},
		Leader: member.ID, Term: 2, Index: 4, Objects: map[string]Object{},
	}

	if from != nil {
		etcd.From, etcd.Index = from.Digest, from.Index+1

		for key, value := range from.Objects {
			etcd.Objects[key] = value
		}
	}

	f.Etcds[etcd.ID] = etcd
	f.dirtyEtcd = true
	node.Data = &Data{Etcd: etcd.ID, Member: member.ID}
	f.Changed(node)

	return etcd
}

// Bootstrap makes the node's etcd the first member of a new cluster.
func (f *Fleet) Bootstrap(n *Node, recoverEtcd, skipHash bool) error {
	if n.Phase != Running || !n.Configured() {
		return status.Error(codes.FailedPrecondition, "bootstrap is not available yet")
	}

	if n.Trouble.TimeUnsynced {
		return status.Error(codes.FailedPrecondition, "time is not in sync yet")
	}

	if n.Data != nil {
		return status.Error(codes.AlreadyExists, "etcd data directory is not empty")
	}

	var from *Snapshot

	n.failure = ""

	if recoverEtcd {
		var err error
		if from, err = n.recovery(skipHash); err != nil {
			// Talos has answered by then: its etcd service is what fails.
			n.failure = "Failed to run pre stage: " + err.Error()
			n.log("bootstrap", n.failure, nil)

			return nil
		}

		n.Counts.Recoveries++
	}

	others := len(f.EtcdsOf(n.ClusterID()))
	etcd := f.newEtcd(n, from)
	n.Counts.Bootstraps++
	n.Left = false
	n.SetService("etcd", StateStarting, "Starting service")
	n.log("bootstrap", "etcd cluster made", map[string]any{"etcd": etcd.ID, "others": others, "recovered": recoverEtcd})

	return nil
}

// Leave takes the node's member out of its cluster and its data away.
func (f *Fleet) Leave(n *Node) error {
	etcd, member := n.Etcd()
	if etcd == nil {
		return ErrNotRunning
	}

	if member != nil {
		if err := f.Remove(etcd, member.ID); err != nil {
			return err
		}
	}

	n.Data, n.Left = nil, true
	n.Counts.Leaves++
	n.SetService("etcd", StateFinished, "Service finished successfully")
	f.Changed(n)
	n.log("etcd", "left", map[string]any{"etcd": etcd.ID})

	return nil
}

// Forfeit moves the leadership from a node's member to another that runs, and returns that one's name.
func (f *Fleet) Forfeit(e *Etcd, n *Node) (string, error) {
	if len(e.Members) == 1 {
		return "", fmt.Errorf("cannot forfeit leadership, only one member")
	}

	_, member := n.Etcd()
	if member == nil {
		return "", ErrNotFound
	}

	if e.Leader != member.ID {
		return "", nil
	}

	for _, other := range e.voters() {
		if node := f.nodeOf(e, other); other.ID != member.ID && node != nil && node.EtcdRunning() {
			e.Leader = other.ID
			e.Term++
			f.changed(e)

			return other.Name, nil
		}
	}

	return "", ErrTimeout
}
