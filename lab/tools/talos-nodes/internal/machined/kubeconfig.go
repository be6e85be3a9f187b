package machined

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	stdx509 "crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/siderolabs/crypto/x509"
	"github.com/siderolabs/talos/pkg/machinery/api/common"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	clientconfig "github.com/siderolabs/talos/pkg/machinery/client/config"
	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/role"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Kubeconfig makes an administrator's kubeconfig with the cluster's own authority, packed as Talos packs it.
func (s *Server) Kubeconfig(_ *emptypb.Empty, stream grpc.ServerStreamingServer[common.Data]) error {
	if err := s.controlPlane(stream.Context(), "kubeconfig"); err != nil {
		return err
	}

	var cluster config.ClusterConfig

	s.fleet.Do(func() { cluster = s.node.Config().Cluster() })

	server := cluster.Endpoint().String()
	if s.fleet.Spec.Server != "" {
		server = s.fleet.Spec.Server
	}

	text, err := adminKubeconfig(cluster, server)
	if err != nil {
		return err
	}

	packed, err := packed("kubeconfig", text)
	if err != nil {
		return err
	}

	return stream.Send(&common.Data{Bytes: packed})
}

func adminKubeconfig(cluster config.ClusterConfig, server string) ([]byte, error) {
	ca, err := x509.NewCertificateAuthorityFromCertificateAndKey(cluster.IssuingCA())
	if err != nil {
		return nil, fmt.Errorf("error getting Kubernetes CA: %w", err)
	}

	admin := cluster.AdminKubeconfig()

	pair, err := x509.NewKeyPair(ca,
		x509.CommonName(admin.CommonName()), x509.Organization(admin.CertOrganization()),
		x509.NotBefore(time.Now().Add(-5*time.Minute)), x509.NotAfter(time.Now().Add(admin.CertLifetime())),
		x509.KeyUsage(stdx509.KeyUsageDigitalSignature|stdx509.KeyUsageKeyEncipherment),
		x509.ExtKeyUsage([]stdx509.ExtKeyUsage{stdx509.ExtKeyUsageClientAuth}),
	)
	if err != nil {
		return nil, fmt.Errorf("error generating Kubernetes client certificate: %w", err)
	}

	client := x509.NewCertificateAndKeyFromKeyPair(pair)

	authorities := append([]byte{}, cluster.IssuingCA().Crt...)
	for _, accepted := range cluster.AcceptedCAs() {
		authorities = append(append(authorities, '\n'), accepted.Crt...)
	}

	encode := base64.StdEncoding.EncodeToString
	user := "admin@" + cluster.Name()

	return []byte(strings.Join([]string{
		"apiVersion: v1",
		"kind: Config",
		"clusters:",
		"- name: " + cluster.Name(),
		"  cluster:",
		"    server: " + server,
		"    certificate-authority-data: " + encode(authorities),
		"users:",
		"- name: " + user,
		"  user:",
		"    client-certificate-data: " + encode(client.Crt),
		"    client-key-data: " + encode(client.Key),
		"contexts:",
		"- context:",
		"    cluster: " + cluster.Name(),
		"    namespace: default",
		"    user: " + user,
		"  name: " + user,
		"current-context: " + user,
		"",
	}, "\n")), nil
}

func packed(name string, content []byte) ([]byte, error) {
	var buffer bytes.Buffer

	zip := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(zip)

	if err := archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), ModTime: time.Now(), Mode: 0o600,
	}); err != nil {
		return nil, err
	}

	if _, err := archive.Write(content); err != nil {
		return nil, err
	}

	if err := archive.Close(); err != nil {
		return nil, err
	}

	if err := zip.Close(); err != nil {
		return nil, err
	}

	return buffer.Bytes(), nil
}

// GenerateClientConfiguration makes a talosconfig for the asked roles, with machinery's own functions as in Talos.
func (s *Server) GenerateClientConfiguration(ctx context.Context, in *machineapi.GenerateClientConfigurationRequest) (*machineapi.GenerateClientConfigurationResponse, error) {
	if err := s.controlPlane(ctx, "generate client configuration"); err != nil {
		return nil, err
	}

	ttl := in.GetCrtTtl().AsDuration()
	if ttl <= 0 {
		return nil, status.Error(codes.InvalidArgument, "crt_ttl should be positive")
	}

	roles, _ := role.Parse(in.GetRoles())

	var (
		bundle *secrets.Bundle
		name   string
	)

	s.fleet.Do(func() {
		bundle = secrets.NewBundleFromConfig(secrets.NewFixedClock(time.Now()), s.node.Config())
		name = s.node.Config().Cluster().Name()
	})

	client, err := bundle.GenerateTalosAPIClientCertificateWithTTL(roles, ttl)
	if err != nil {
		return nil, err
	}

	if single := roles.Strings(); len(single) == 1 {
		name = strings.TrimPrefix(single[0], role.Prefix) + "@" + name
	}

	talosconfig, err := clientconfig.NewConfig(name, nil, bundle.Certs.OS.Crt, client).Bytes()
	if err != nil {
		return nil, err
	}

	return &machineapi.GenerateClientConfigurationResponse{Messages: []*machineapi.GenerateClientConfiguration{
		{Ca: bundle.Certs.OS.Crt, Crt: client.Crt, Key: client.Key, Talosconfig: talosconfig},
	}}, nil
}
