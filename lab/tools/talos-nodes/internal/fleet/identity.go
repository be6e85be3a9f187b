package fleet

import (
	"bytes"
	"crypto/tls"
	stdx509 "crypto/x509"
	"fmt"
	"net"
	"time"

	"github.com/siderolabs/crypto/x509"
)

// Identity is what a node shows to its clients and whom it trusts.
type Identity struct {
	Certificate tls.Certificate
	Clients     *stdx509.CertPool // nil in maintenance mode: anybody may come
}

func (n *Node) names() (ips []net.IP, dns []string) {
	texts := []string{n.Spec.Address, n.Spec.ListenHost(), "127.0.0.1", n.Hostname()}
	for _, prefix := range n.Addresses() {
		texts = append(texts, prefix.Addr().String())
	}

	if n.Configured() {
		texts = append(texts, n.config.Machine().Security().CertSANs()...)
	}

	seen := map[string]bool{}

	for _, text := range texts {
		if seen[text] {
			continue
		}

		seen[text] = true

		if ip := net.ParseIP(text); ip != nil {
			ips = append(ips, ip)
		} else {
			dns = append(dns, text)
		}
	}

	return ips, dns
}

// maintenance makes the self-signed identity of a node without a config.
func (n *Node) maintenance() (*Identity, error) {
	ca, err := x509.NewSelfSignedCertificateAuthority(x509.ECDSA(true), x509.Organization("talos"))
	if err != nil {
		return nil, err
	}

	return n.signed(ca, nil)
}

// configured makes the identity that the config gives: of its own CA, or of a control plane's for a worker.
// In Talos a worker asks trustd of a control plane; here it is the same process, but one must be up and agree on the token.
func (n *Node) configured() (*Identity, error) {
	security := n.config.Machine().Security()

	own := security.IssuingCA()
	if own == nil || len(own.Crt) == 0 {
		return nil, fmt.Errorf("the config has no machine CA")
	}

	issuing, accepted := own, security.AcceptedCAs()
	if len(own.Key) == 0 {
		issuing = nil

		for _, other := range n.fleet.Nodes {
			if other == n || !other.Online() || !other.ControlPlane() {
				continue
			}

			theirs := other.config.Machine().Security()
			if theirs.Token() == security.Token() && theirs.IssuingCA() != nil && len(theirs.IssuingCA().Key) > 0 &&
				trusts(n, theirs.IssuingCA().Crt) {
				// With the certificate trustd says whom to let in (internal/app/trustd/internal/reg/reg.go).
				issuing, accepted = theirs.IssuingCA(), theirs.AcceptedCAs()

				break
			}
		}

		if issuing == nil {
			return nil, fmt.Errorf("no control plane's trustd answers with the machine token and a CA that the config names")
		}
	}

	ca, err := x509.NewCertificateAuthorityFromCertificateAndKey(issuing)
	if err != nil {
		return nil, err
	}

	pool := stdx509.NewCertPool()
	pool.AppendCertsFromPEM(issuing.Crt)

	for _, each := range accepted {
		pool.AppendCertsFromPEM(each.Crt)
	}

	return n.signed(ca, pool)
}

func trusts(n *Node, authority []byte) bool {
	security := n.config.Machine().Security()
	if bytes.Equal(bytes.TrimSpace(security.IssuingCA().Crt), bytes.TrimSpace(authority)) {
		return true
	}

	for _, accepted := range security.AcceptedCAs() {
		if bytes.Equal(bytes.TrimSpace(accepted.Crt), bytes.TrimSpace(authority)) {
			return true
		}
	}

	return false
}

// Trusts says whether a node's apid accepts another's as a caller and the other way round, as proxied calls need.
func (n *Node) Trusts(other *Node) bool {
	if !n.Configured() || !other.Configured() || n.Identity == nil || other.Identity == nil {
		return false
	}

	leaf := other.Identity.Certificate.Leaf
	if leaf == nil || n.Identity.Clients == nil {
		return false
	}

	_, err := leaf.Verify(stdx509.VerifyOptions{Roots: n.Identity.Clients, KeyUsages: []stdx509.ExtKeyUsage{stdx509.ExtKeyUsageAny}})

	return err == nil
}

func (n *Node) signed(ca *x509.CertificateAuthority, clients *stdx509.CertPool) (*Identity, error) {
	ips, dns := n.names()

	pair, err := x509.NewKeyPair(ca,
		x509.IPAddresses(ips), x509.DNSNames(dns), x509.CommonName(n.Hostname()),
		// Clocks are set back now and then.
		x509.NotBefore(time.Now().Add(-5*time.Minute)), x509.NotAfter(time.Now().Add(24*time.Hour)),
		x509.KeyUsage(stdx509.KeyUsageDigitalSignature),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageServerAuth}),
	)
	if err != nil {
		return nil, err
	}

	certificate := *pair.Certificate

	certificate.Leaf, err = stdx509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		return nil, err
	}

	return &Identity{Certificate: certificate, Clients: clients}, nil
}
