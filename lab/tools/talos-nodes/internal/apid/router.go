package apid

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/siderolabs/grpc-proxy/proxy"
	"github.com/siderolabs/talos/pkg/machinery/api/common"
	"github.com/siderolabs/talos/pkg/machinery/proto"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// router sends a call to the node itself or to those that its metadata names.
type router struct {
	server *Server
	node   *fleet.Node
}

// The services that may be asked of several nodes in one call.
var toMany = []string{
	"/machine.MachineService/", "/cluster.ClusterService/", "/inspect.InspectService/", "/storage.StorageService/",
	"/time.TimeService/",
}

func (r *router) direct(ctx context.Context, method string) (proxy.Mode, []proxy.Backend, error) {
	local := []proxy.Backend{&backend{router: r, target: ""}}
	md, _ := metadata.FromIncomingContext(ctx)
	one, many := md.Get("node"), md.Get("nodes")

	// A node in maintenance mode asks nobody else, whatever the caller names.
	if r.maintenance() {
		return proxy.One2One, local, nil
	}

	if len(one) > 1 {
		return proxy.One2One, nil, status.Error(codes.InvalidArgument, "node metadata must be single-valued")
	}

	switch {
	case len(many) > 0:
		if !slices.ContainsFunc(toMany, func(prefix string) bool { return strings.HasPrefix(method, prefix) }) {
			return proxy.One2One, nil, status.Errorf(codes.InvalidArgument, "one-2-many proxying is not supported for method %s", method)
		}

		backends := make([]proxy.Backend, len(many))

		for i, target := range many {
			if err := validTarget(target); err != nil {
				return proxy.One2Many, nil, err
			}

			backends[i] = &backend{router: r, target: target}
		}

		return proxy.One2Many, backends, nil
	case len(one) > 0:
		if err := validTarget(one[0]); err != nil {
			return proxy.One2One, nil, err
		}

		return proxy.One2One, []proxy.Backend{&backend{router: r, target: one[0]}}, nil
	default:
		return proxy.One2One, local, nil
	}
}

func validTarget(target string) error {
	if _, _, err := net.SplitHostPort(target); target == "" || err == nil {
		return status.Errorf(codes.Internal, "invalid target %q", target)
	}

	return nil
}

func (r *router) maintenance() bool {
	var yes bool

	r.server.fleet.Do(func() { yes = !r.node.Configured() })

	return yes
}

// backend is one node that a call goes to, as the caller named it.
type backend struct {
	router *router
	target string
}

func (b *backend) String() string { return b.target }

// GetConnection finds the node's own server, or says why it cannot be reached.
func (b *backend) GetConnection(ctx context.Context, _ string) (context.Context, *grpc.ClientConn, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	md = md.Copy()

	for _, name := range []string{":authority", "node", "nodes", rolesKey, fromKey} {
		delete(md, name)
	}

	md.Set(rolesKey, b.router.roles(ctx)...)

	node := b.router.node

	if b.target != "" {
		md.Set(fromKey, node.Spec.Name)

		var err error
		if node, err = b.router.find(b.target); err != nil {
			return metadata.NewOutgoingContext(ctx, md), nil, err
		}
	}

	h := b.router.server.host(node)
	if h == nil {
		return metadata.NewOutgoingContext(ctx, md), nil, refused(b.target)
	}

	return metadata.NewOutgoingContext(ctx, md), h.conn, nil
}

func refused(target string) error {
	return status.Errorf(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp %s: connect: connection refused"`,
		net.JoinHostPort(target, "50000"))
}

func (r *router) find(target string) (*fleet.Node, error) {
	var (
		node *fleet.Node
		err  error
	)

	r.server.fleet.Do(func() {
		node = r.server.fleet.ByAddress(target)

		switch {
		case target == "127.0.0.1", target == "localhost":
			node = r.node
		case node == nil:
			err = status.Errorf(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp %s: i/o timeout"`,
				net.JoinHostPort(target, "50000"))
		case node != r.node && !node.Online():
			err = refused(target)
		case node != r.node && !(node.Trusts(r.node) && r.node.Trusts(node)):
			err = status.Error(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: tls: `+
				`failed to verify certificate: x509: certificate signed by unknown authority"`)
		}
	})

	return node, err
}

// AppendInfo puts the node's name into its answer: protobuf merges what is appended to a message.
func (b *backend) AppendInfo(streaming bool, answer []byte) ([]byte, error) {
	if b.target == "" {
		return answer, nil
	}

	named, err := proto.Marshal(&common.Empty{Metadata: &common.Metadata{Hostname: b.target}})
	if err != nil || streaming {
		return append(answer, named...), err
	}

	// A single answer holds one element of `messages`; the name belongs into that element.
	field, kind, n := protowire.ConsumeTag(answer)
	if n < 0 || field != 1 || kind != protowire.BytesType {
		return nil, fmt.Errorf("unexpected answer: it does not start with a message")
	}

	message, n2 := protowire.ConsumeBytes(answer[n:])
	if n2 < 0 {
		return nil, protowire.ParseError(n2)
	}

	out := protowire.AppendTag(nil, 1, protowire.BytesType)

	return protowire.AppendBytes(out, slices.Concat(message, named)), nil
}

// BuildError makes an answer of a node's error, so that the other nodes' answers arrive.
func (b *backend) BuildError(streaming bool, failure error) ([]byte, error) {
	if b.target == "" {
		return nil, nil
	}

	message := &common.Empty{Metadata: &common.Metadata{
		Hostname: b.target, Error: failure.Error(), Status: status.Convert(failure).Proto(),
	}}

	if streaming {
		return proto.Marshal(message)
	}

	return proto.Marshal(&common.EmptyResponse{Messages: []*common.Empty{message}})
}
