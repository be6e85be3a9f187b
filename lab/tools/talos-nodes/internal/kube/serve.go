package kube

import (
	"crypto/tls"
	stdx509 "crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/siderolabs/crypto/x509"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

// Server serves the Kubernetes API on every control plane, and one door to all of them.
type Server struct {
	fleet *fleet.Fleet

	mu    sync.Mutex
	open  map[*fleet.Node]*http.Server
	wants map[*fleet.Node]bool
	next  int
	last  time.Time
	told  map[string]string
	made  map[*fleet.Node]made // under the fleet's lock
}

const controlEvery = 100 * time.Millisecond

// New returns a server; its listeners follow the fleet's control planes.
func New(f *fleet.Fleet) *Server {
	s := &Server{fleet: f, open: map[*fleet.Node]*http.Server{}, wants: map[*fleet.Node]bool{}, told: map[string]string{}, made: map[*fleet.Node]made{}}
	f.OnTick(s.tick)

	return s
}

func (s *Server) tick(now time.Time) {
	for _, node := range s.fleet.Nodes {
		_, runs := node.Running("kube-apiserver")
		want := runs && node.Phase == fleet.Running && node.EtcdRunning() && !node.Trouble.KubernetesDown

		if want != s.wants[node] {
			s.wants[node] = want

			if want {
				port := node.Config().Cluster().LocalAPIServerPort()
				s.fleet.Later(func() { s.up(node, port) })
			} else {
				s.fleet.Later(func() { s.down(node) })
			}
		}
	}

	all := now.Sub(s.last) >= controlEvery
	if all {
		s.last = now
	}

	s.control(now, all)
}

func (s *Server) up(node *fleet.Node, port int) {
	address := net.JoinHostPort(node.Spec.ListenHost(), strconv.Itoa(port))

	listener, err := net.Listen("tcp", address)
	if err != nil {
		s.fleet.Log.Add(fleet.Entry{Node: node.Spec.Name, Kind: "kubernetes", Text: err.Error()})

		return
	}

	server := &http.Server{
		Handler: &api{server: s, node: node}, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:  log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.tlsConfig(node) }},
	}

	s.mu.Lock()
	s.open[node] = server
	s.mu.Unlock()

	go server.ServeTLS(listener, "", "") //nolint:errcheck // it ends when the node's API does
}

func (s *Server) down(node *fleet.Node) {
	s.mu.Lock()
	server := s.open[node]
	delete(s.open, node)
	s.mu.Unlock()

	if server != nil {
		server.Close() //nolint:errcheck // its connections end with it
	}
}

func (s *Server) tlsConfig(node *fleet.Node) (*tls.Config, error) {
	var (
		certificate *tls.Certificate
		pool        *stdx509.CertPool
		err         error
	)

	s.fleet.Do(func() {
		if pool, err = authorities(node); err == nil {
			certificate, err = s.identity(node)
		}
	})

	if err != nil {
		return nil, err
	}

	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificate}, ClientCAs: pool,
		ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
	}, nil
}

// authorities are those whose clients the node's API trusts.
func authorities(node *fleet.Node) (*stdx509.CertPool, error) {
	if !node.ControlPlane() {
		return nil, errors.New("no control plane")
	}

	pool := stdx509.NewCertPool()
	pool.AppendCertsFromPEM(node.Config().Cluster().IssuingCA().Crt)

	for _, accepted := range node.Config().Cluster().AcceptedCAs() {
		pool.AppendCertsFromPEM(accepted.Crt)
	}

	return pool, nil
}

// identity is the certificate of the node's API, made anew when its config changes or half its life is over.
func (s *Server) identity(node *fleet.Node) (*tls.Certificate, error) {
	const lifetime = 24 * time.Hour

	if made := s.made[node]; made.certificate != nil && made.digest == node.Digest() && time.Since(made.at) < lifetime/2 {
		return made.certificate, nil
	}

	cluster := node.Config().Cluster()

	ca, err := x509.NewCertificateAuthorityFromCertificateAndKey(cluster.IssuingCA())
	if err != nil {
		return nil, err
	}

	names := append([]string{
		node.Spec.Address, node.Spec.ListenHost(), "127.0.0.1", "localhost", node.Hostname(), cluster.Endpoint().Hostname(),
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + cluster.Network().DNSDomain(),
	}, cluster.CertSANs()...)

	if host, _, err := net.SplitHostPort(s.fleet.Spec.Balancer); err == nil {
		names = append(names, host)
	}

	var (
		ips []net.IP
		dns []string
	)

	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			ips = append(ips, ip)
		} else {
			dns = append(dns, name)
		}
	}

	pair, err := x509.NewKeyPair(ca,
		x509.IPAddresses(ips), x509.DNSNames(dns), x509.CommonName("kube-apiserver"), x509.Organization("kube-master"),
		// Clocks are set back now and then.
		x509.NotBefore(time.Now().Add(-5*time.Minute)), x509.NotAfter(time.Now().Add(lifetime)),
		x509.KeyUsage(stdx509.KeyUsageDigitalSignature|stdx509.KeyUsageKeyEncipherment),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageServerAuth}),
	)
	if err != nil {
		return nil, err
	}

	s.made[node] = made{certificate: pair.Certificate, digest: node.Digest(), at: time.Now()}

	return pair.Certificate, nil
}

// made is a certificate and the config that it was made for.
type made struct {
	certificate *tls.Certificate
	digest      string
	at          time.Time
}

// trusted says whether a caller showed a client certificate of the cluster.
func (s *Server) trusted(node *fleet.Node, r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}

	var pool *stdx509.CertPool

	s.fleet.Do(func() { pool, _ = authorities(node) }) //nolint:errcheck // then there is no pool

	if pool == nil {
		return false
	}

	_, err := r.TLS.PeerCertificates[0].Verify(stdx509.VerifyOptions{
		Roots: pool, KeyUsages: []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth},
	})

	return err == nil
}

// Balance listens for the cluster as a load balancer would, and passes connections to the control planes in turn.
func (s *Server) Balance(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("balancer: %w", err)
	}

	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}

			go s.pass(connection)
		}
	}()

	return nil
}

func (s *Server) pass(from net.Conn) {
	defer from.Close() //nolint:errcheck // it is over

	targets := s.targets()

	for range targets {
		s.mu.Lock()
		s.next++
		target := targets[s.next%len(targets)]
		s.mu.Unlock()

		to, err := net.DialTimeout("tcp", target, time.Second)
		if err != nil {
			continue
		}

		defer to.Close() //nolint:errcheck // it is over

		done := make(chan struct{}, 2)

		for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
			go func() {
				io.Copy(pair[0], pair[1]) //nolint:errcheck // its end is all that counts
				done <- struct{}{}
			}()
		}

		<-done

		return
	}
}

func (s *Server) targets() []string {
	var targets []string

	s.fleet.Do(func() {
		for _, node := range s.fleet.Nodes {
			if s.wants[node] && node.ControlPlane() {
				port := strconv.Itoa(node.Config().Cluster().LocalAPIServerPort())
				targets = append(targets, net.JoinHostPort(node.Spec.ListenHost(), port))
			}
		}
	})

	return targets
}
