package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
)

// Snapshot is what a node was given to recover its etcd from.
type Snapshot struct {
	Digest  string
	Index   uint64
	Objects map[string]Object
}

func (n *Node) recoveryPath() string {
	return filepath.Join(n.fleet.folder, "nodes", n.Spec.Name+".snapshot")
}

// KeepRecovery stores an uploaded snapshot for the bootstrap that follows; only that looks into it.
func (n *Node) KeepRecovery(data []byte) error {
	return os.WriteFile(n.recoveryPath(), data, 0o600)
}

func (n *Node) forgetRecovery() { os.Remove(n.recoveryPath()) } //nolint:errcheck // there may be none

func (n *Node) recovery(skipHash bool) (*Snapshot, error) {
	data, err := os.ReadFile(n.recoveryPath())
	if err != nil {
		return nil, errors.New("error verifying snapshot: no snapshot was uploaded")
	}

	snapshot, err := ReadSnapshot(data, skipHash)
	if err != nil {
		return nil, fmt.Errorf("error recovering from the snapshot: %w", err)
	}

	n.forgetRecovery()

	return snapshot, nil
}

const originKey = "/talos-nodes/etcd"

// Snapshot writes what the cluster holds as etcd would: a bbolt database with etcd's buckets and its records of
// keys (api/mvccpb/kv.proto), and its SHA-256 behind it. etcdutl and talosctl read it.
func (e *Etcd) Snapshot() ([]byte, error) {
	file, err := os.CreateTemp("", "talos-nodes-snapshot-")
	if err != nil {
		return nil, err
	}

	file.Close()                 //nolint:errcheck // bbolt opens it again
	defer os.Remove(file.Name()) //nolint:errcheck // a temporary file

	db, err := bbolt.Open(file.Name(), 0o600, nil)
	if err != nil {
		return nil, err
	}

	if err = db.Update(e.fill); err == nil {
		err = db.Close()
	}

	if err != nil {
		return nil, err
	}

	data, err := os.ReadFile(file.Name())
	if err != nil {
		return nil, err
	}

	sum := sha256.Sum256(data)

	return append(data, sum[:]...), nil
}

func (e *Etcd) fill(tx *bbolt.Tx) error {
	keys, err := tx.CreateBucket([]byte("key"))
	if err != nil {
		return err
	}

	names := make([]string, 0, len(e.Objects))
	for name := range e.Objects {
		names = append(names, name)
	}

	sort.Strings(names)

	origin, err := json.Marshal(map[string]any{"etcd": e.ID, "cluster": e.Cluster, "index": e.Index})
	if err != nil {
		return err
	}

	revision := uint64(2)
	put := func(name string, value []byte) error {
		defer func() { revision++ }()

		return keys.Put(revisionKey(revision), keyValue(name, value, revision))
	}

	if err = put(originKey, origin); err != nil {
		return err
	}

	for _, name := range names {
		value, err := json.Marshal(e.Objects[name])
		if err != nil {
			return err
		}

		if err = put(name, value); err != nil {
			return err
		}
	}

	meta, err := tx.CreateBucket([]byte("meta"))
	if err != nil {
		return err
	}

	return errors.Join(
		meta.Put([]byte("consistent_index"), binary.BigEndian.AppendUint64(nil, e.Index)),
		meta.Put([]byte("term"), binary.BigEndian.AppendUint64(nil, e.Term)),
		meta.Put([]byte("storageVersion"), []byte("3.6.0")),
	)
}

// A revision is its main part, an underscore and its sub part (server/storage/mvcc/revision.go).
func revisionKey(main uint64) []byte {
	key := binary.BigEndian.AppendUint64(nil, main)
	key = append(key, '_')

	return binary.BigEndian.AppendUint64(key, 0)
}

// The fields of mvccpb.KeyValue.
const (
	fieldKey            = 1
	fieldCreateRevision = 2
	fieldModRevision    = 3
	fieldVersion        = 4
	fieldValue          = 5
)

func keyValue(name string, value []byte, revision uint64) []byte {
	var out []byte

	out = protowire.AppendTag(out, fieldKey, protowire.BytesType)
	out = protowire.AppendString(out, name)

	for _, field := range []protowire.Number{fieldCreateRevision, fieldModRevision} {
		out = protowire.AppendTag(out, field, protowire.VarintType)
		out = protowire.AppendVarint(out, revision)
	}

	out = protowire.AppendTag(out, fieldVersion, protowire.VarintType)
	out = protowire.AppendVarint(out, 1)
	out = protowire.AppendTag(out, fieldValue, protowire.BytesType)

	return protowire.AppendBytes(out, value)
}

// ReadSnapshot checks and reads a snapshot that a fake node made.
func ReadSnapshot(data []byte, skipHash bool) (*Snapshot, error) {
	content := data

	if len(data)%512 == sha256.Size {
		content = data[:len(data)-sha256.Size]
		sum := sha256.Sum256(content)

		if !skipHash && !bytes.Equal(sum[:], data[len(content):]) {
			return nil, errors.New("expected sha256 of the snapshot does not match its content")
		}
	} else if !skipHash {
		return nil, errors.New("snapshot missing hash but --skip-hash-check=false")
	}

	file, err := os.CreateTemp("", "talos-nodes-recovery-")
	if err != nil {
		return nil, err
	}

	defer os.Remove(file.Name()) //nolint:errcheck // a temporary file

	if _, err = file.Write(content); err != nil {
		return nil, err
	}

	file.Close() //nolint:errcheck // bbolt opens it again

	db, err := bbolt.Open(file.Name(), 0o400, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}

	defer db.Close() //nolint:errcheck // only read

	sum := sha256.Sum256(content)
	snapshot := &Snapshot{Digest: hex.EncodeToString(sum[:]), Objects: map[string]Object{}}

	return snapshot, db.View(snapshot.read)
}

func (s *Snapshot) read(tx *bbolt.Tx) error {
	keys := tx.Bucket([]byte("key"))
	if keys == nil {
		return errors.New("the snapshot has no keys")
	}

	var origin struct {
		Index uint64 `json:"index"`
	}

	err := keys.ForEach(func(_, record []byte) error {
		name, value, err := parseKeyValue(record)
		if err != nil {
			return err
		}

		if name == originKey {
			return json.Unmarshal(value, &origin)
		}

		var object Object
		if err = json.Unmarshal(value, &object); err != nil {
			return fmt.Errorf("the fake nodes read their own snapshots only: %q is no JSON", name)
		}

		s.Objects[name] = object

		return nil
	})
	s.Index = origin.Index

	return err
}

func parseKeyValue(record []byte) (name string, value []byte, err error) {
	for len(record) > 0 {
		field, kind, n := protowire.ConsumeTag(record)
		if n < 0 {
			return "", nil, protowire.ParseError(n)
		}

		record = record[n:]

		if kind == protowire.BytesType && (field == fieldKey || field == fieldValue) {
			part, n := protowire.ConsumeBytes(record)
			if n < 0 {
				return "", nil, protowire.ParseError(n)
			}

			if field == fieldKey {
				name = string(part)
			} else {
				value = part
			}
		}

		n = protowire.ConsumeFieldValue(field, kind, record)
		if n < 0 {
			return "", nil, protowire.ParseError(n)
		}

		record = record[n:]
	}

	return name, value, nil
}
