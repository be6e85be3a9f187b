package apid

import (
	"context"
	"sync"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/constants"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// call is one call of a node's server, as the log will show it.
type call struct {
	mu      sync.Mutex
	n       int
	node    *fleet.Node
	method  string
	details map[string]any
	handled bool
}

type callKey struct{}

// Note adds to what the log says of the call.
func Note(ctx context.Context, key string, value any) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.mu.Lock()
		defer c.mu.Unlock()

		c.details[key] = value
	}
}

// Unimplemented logs that a client asked for what these nodes do not have.
func Unimplemented(ctx context.Context, text string) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.node.Fleet().Log.Add(fleet.Entry{
			Node: c.node.Spec.Name, Kind: "unimplemented", Method: c.method, Of: c.n, Text: text,
		})
	}
}

func (s *Server) begin(ctx context.Context, node *fleet.Node, method string) (context.Context, *call) {
	md, _ := metadata.FromIncomingContext(ctx)
	entry := fleet.Entry{Node: node.Spec.Name, Kind: "call", Method: method, Detail: map[string]any{"roles": md.Get(rolesKey)}}

	if from := md.Get(fromKey); len(from) > 0 {
		entry.Detail["from"] = from[0]
	}

	c := &call{node: node, method: method, details: map[string]any{}, n: s.fleet.Log.Add(entry)}

	return context.WithValue(ctx, callKey{}, c), c
}

func (s *Server) end(c *call, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	code := status.Code(err)
	entry := fleet.Entry{Node: c.node.Spec.Name, Kind: "answer", Method: c.method, Of: c.n, Code: code.String(), Detail: c.details}

	if err != nil {
		entry.Text = status.Convert(err).Message()
	}

	s.fleet.Log.Add(entry)

	// What Talos itself answers so (a worker asked for etcd) has been handled.
	if code == codes.Unimplemented && !c.handled {
		s.fleet.Log.Add(fleet.Entry{Node: c.node.Spec.Name, Kind: "unimplemented", Method: c.method, Of: c.n, Text: entry.Text})
	}
}

// Handled marks a call whose answer Unimplemented is Talos's own.
func Handled(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.mu.Lock()
		defer c.mu.Unlock()

		c.handled = true
	}
}

func (s *Server) backServer(node *fleet.Node) *grpc.Server {
	return grpc.NewServer(
		grpc.MaxRecvMsgSize(constants.GRPCMaxMessageSize),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			ctx, c := s.begin(ctx, node, info.FullMethod)

			var answer any

			err := s.serve(ctx, c, func(context.Context) error {
				var failure error

				answer, failure = handler(ctx, req)

				return failure
			})
			s.end(c, err)

			return answer, err
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			ctx, c := s.begin(stream.Context(), node, info.FullMethod)
			err := s.serve(ctx, c, func(ctx context.Context) error {
				return handler(srv, &watched{ServerStream: stream, ctx: ctx, server: s, call: c})
			})
			s.end(c, err)

			return err
		}),
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			return status.Error(codes.Unimplemented, "the fake nodes do not have this method")
		}),
	)
}

type faultKey struct{}

// serve handles a call of a caller that may ask for it, with the faults that it meets.
func (s *Server) serve(ctx context.Context, c *call, handle func(context.Context) error) error {
	fault := s.fleet.Faults.Meet(c.node.Spec.Name, c.method)
	if fault != nil {
		Note(ctx, "fault", fault.Kind)

		switch fault.Kind {
		case "slow":
			select {
			case <-time.After(fault.Delay.Duration()):
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
		case "hang":
			<-ctx.Done()

			return status.FromContextError(ctx.Err()).Err()
		case "refuse":
			return status.Error(codeOf(fault.Code), fault.Text)
		case "die":
			if fault.After == 0 {
				return s.cut(ctx, c.node, fault.Boot)
			}

			ctx = context.WithValue(ctx, faultKey{}, fault)
		}
	}

	if !allowed(Roles(ctx), c.method) {
		return ErrNotAuthorized
	}

	err := handle(ctx)

	if fault != nil && fault.Kind == "lose" {
		return errLost
	}

	if fault != nil && fault.Kind == "perish" {
		return s.cut(ctx, c.node, fault.Boot)
	}

	return err
}

// What a gRPC client makes of a connection that ends before the answer.
var errLost = status.Error(codes.Unavailable, "error reading from server: EOF")

// cut takes the machine's power away and waits for the connection to follow.
func (s *Server) cut(ctx context.Context, node *fleet.Node, boot bool) error {
	s.fleet.Do(func() { node.Cut(boot) })

	select {
	case <-ctx.Done():
	case <-time.After(2 * time.Second):
	}

	return errLost
}

func codeOf(name string) codes.Code {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code.String() == name {
			return code
		}
	}

	return codes.Unavailable
}

// watched is a stream that can die after some messages.
type watched struct {
	grpc.ServerStream

	ctx    context.Context //nolint:containedctx // a stream has one
	server *Server
	call   *call
	sent   int
}

// Context returns the stream's context with the call that it belongs to.
func (w *watched) Context() context.Context { return w.ctx }

// SendMsg sends a message, unless a fault ends the machine now.
func (w *watched) SendMsg(message any) error {
	if fault, ok := w.ctx.Value(faultKey{}).(*fleet.Fault); ok && w.sent >= fault.After {
		return w.server.cut(w.ctx, w.call.node, fault.Boot)
	}

	w.sent++

	return w.ServerStream.SendMsg(message)
}
