// Package apid is the door of the fake nodes: TLS, roles, routing between nodes, faults and the log of all calls.
//
// As in Talos it passes calls on without reading them (siderolabs/grpc-proxy) to the node's own server, here through
// memory, and for other nodes to theirs.
package apid

import (
	"context"
	"crypto/tls"
	stdx509 "crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/siderolabs/grpc-proxy/proxy"
	"github.com/siderolabs/talos/pkg/machinery/constants"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// Register adds a node's services to its server.
type Register func(*fleet.Node, *grpc.Server)

// Server serves the apid of every node of a fleet.
type Server struct {
	fleet    *fleet.Fleet
	register Register

	mu    sync.Mutex
	hosts map[*fleet.Node]*host
}

// host is what runs of a node while it is up.
type host struct {
	node  *fleet.Node
	front *grpc.Server
	back  *grpc.Server
	conn  *grpc.ClientConn
}

// New returns a server for a fleet whose nodes offer what register adds.
func New(f *fleet.Fleet, register Register) *Server {
	return &Server{fleet: f, register: register, hosts: map[*fleet.Node]*host{}}
}

// Up opens a node's port.
func (s *Server) Up(node *fleet.Node) {
	listener, err := listen(node.Spec.Listen)
	if err != nil {
		// Another process has the port: the fleet cannot be what its starter was told.
		fmt.Fprintf(os.Stderr, "talos-nodes: %s: %v\n", node.Spec.Name, err)
		os.Exit(1)
	}

	h := &host{node: node}

	pipe := bufconn.Listen(1 << 20)
	h.back = s.backServer(node)
	s.register(node, h.back)

	go h.back.Serve(pipe) //nolint:errcheck // it ends when the node goes down

	h.conn, err = grpc.NewClient("passthrough:///"+node.Spec.Name,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(constants.GRPCMaxMessageSize), grpc.ForceCodecV2(proxy.Codec())),
	)
	if err != nil {
		fmt.Fprintf(os.Stderr, "talos-nodes: %s: %v\n", node.Spec.Name, err)
		os.Exit(1)
	}

	h.front = s.frontServer(node)

	s.mu.Lock()
	s.hosts[node] = h
	s.mu.Unlock()

	go h.front.Serve(listener) //nolint:errcheck // it ends when the node goes down
}

// A port that was just closed may take a moment to be free again.
func listen(address string) (net.Listener, error) {
	var err error

	for range 50 {
		var listener net.Listener

		if listener, err = net.Listen("tcp", address); err == nil {
			return listener, nil
		}

		time.Sleep(20 * time.Millisecond)
	}

	return nil, err
}

// Down closes a node's port and every connection to it.
func (s *Server) Down(node *fleet.Node) {
	s.mu.Lock()
	h := s.hosts[node]
	delete(s.hosts, node)
	s.mu.Unlock()

	if h == nil {
		return
	}

	h.front.Stop()
	h.back.Stop()
	h.conn.Close() //nolint:errcheck // nothing is behind it any more
}

func (s *Server) host(node *fleet.Node) *host {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.hosts[node]
}

// What Talos streams to the client from several nodes at once (internal/app/apid/service.go).
var streamed = regexp.MustCompile(`^(/machine\.MachineService/(Copy|DiskUsage|Dmesg|EtcdSnapshot|Events|ImageList|Kubeconfig|List|` +
	`DebugContainer|Logs|PacketCapture|Read)|/machine\.LifecycleService/(Install|Upgrade)|/os\.OSService/Dmesg|` +
	`/cluster\.ClusterService/HealthCheck|.*Stream)$`)

func (s *Server) frontServer(node *fleet.Node) *grpc.Server {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.tlsConfig(node) },
	}

	return grpc.NewServer(
		grpc.Creds(credentials.NewTLS(config)),
		grpc.ForceServerCodecV2(proxy.Codec()),
		grpc.MaxRecvMsgSize(constants.GRPCMaxMessageSize),
		grpc.UnknownServiceHandler(proxy.TransparentHandler(
			(&router{server: s, node: node}).direct, proxy.WithStreamedDetector(streamed.MatchString),
		)),
	)
}

func (s *Server) tlsConfig(node *fleet.Node) (*tls.Config, error) {
	var identity *fleet.Identity

	s.fleet.Do(func() { identity = node.Identity })

	if identity == nil {
		return nil, errors.New("the node is going down")
	}

	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{identity.Certificate}, NextProtos: []string{"h2"},
	}

	if identity.Clients == nil {
		config.ClientAuth = tls.RequestClientCert

		return config, nil
	}

	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = identity.Clients
	config.VerifyPeerCertificate = onlyClients

	return config, nil
}

// As in Talos, a certificate that could also be a server's is refused.
func onlyClients(_ [][]byte, chains [][]*stdx509.Certificate) error {
	if len(chains) == 0 {
		return errors.New("no verified chains")
	}

	leaf := chains[0][0]
	if !slices.Equal(leaf.ExtKeyUsage, []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}) {
		return fmt.Errorf("certificate %q is missing the client auth extended key usage", leaf.Subject)
	}

	return nil
}
