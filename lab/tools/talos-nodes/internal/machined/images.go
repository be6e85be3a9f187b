package machined

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sort"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/api/common"
	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/apid"
)

// images is the service by which talosctl 1.13 lists and pulls images.
type images struct {
	machineapi.UnimplementedImageServiceServer
	*Server
}

func digestOf(ref string) string {
	sum := sha256.Sum256([]byte(ref))

	return "sha256:" + hex.EncodeToString(sum[:])
}

func (s *Server) passes(gone <-chan struct{}) bool {
	select {
	case <-time.After(s.fleet.Timings.Installer.Duration()):
		return true
	case <-gone:
		return false
	}
}

// pull keeps an image's name; nothing is fetched from anywhere.
func (s *Server) pull(ctx context.Context, ref string) error {
	apid.Note(ctx, "image", ref)

	if err := wait(ctx, s.fleet.Timings.Pull.Duration()); err != nil {
		return err
	}

	return s.do(func() error {
		if s.node.Trouble.DiskFull {
			return status.Errorf(codes.Internal, "failed to pull image %q: no space left on device", ref)
		}

		if s.node.Trouble.NoPull {
			return status.Errorf(codes.NotFound, "failed to pull image %q: %s: not found", ref, ref)
		}

		s.node.Pulled[ref] = digestOf(ref)
		s.fleet.Changed(s.node)

		return nil
	})
}

func (s *Server) pulled() []string {
	var refs []string

	s.fleet.Do(func() {
		for ref := range s.node.Pulled {
			refs = append(refs, ref)
		}
	})
	sort.Strings(refs)

	return refs
}

// Pull pulls an image and tells of its one layer.
func (i *images) Pull(in *machineapi.ImageServicePullRequest, stream grpc.ServerStreamingServer[machineapi.ImageServicePullResponse]) error {
	progress := func(state machineapi.ImageServicePullLayerProgress_Status) error {
		return stream.Send(&machineapi.ImageServicePullResponse{
			Response: &machineapi.ImageServicePullResponse_PullProgress{PullProgress: &machineapi.ImageServicePullProgress{
				LayerId: digestOf(in.GetImageRef())[7:19],
				Progress: &machineapi.ImageServicePullLayerProgress{
					Status: state, Elapsed: durationpb.New(i.fleet.Timings.Pull.Duration()), Offset: 1 << 20, Total: 1 << 20,
				},
			}},
		})
	}

	if err := progress(machineapi.ImageServicePullLayerProgress_DOWNLOADING); err != nil {
		return err
	}

	if err := i.pull(stream.Context(), in.GetImageRef()); err != nil {
		return err
	}

	if err := progress(machineapi.ImageServicePullLayerProgress_EXTRACT_COMPLETE); err != nil {
		return err
	}

	return stream.Send(&machineapi.ImageServicePullResponse{
		Response: &machineapi.ImageServicePullResponse_Name{Name: in.GetImageRef()},
	})
}

// List lists the images that were pulled.
func (i *images) List(_ *machineapi.ImageServiceListRequest, stream grpc.ServerStreamingServer[machineapi.ImageServiceListResponse]) error {
	for _, ref := range i.pulled() {
		if err := stream.Send(&machineapi.ImageServiceListResponse{
			Name: ref, Digest: digestOf(ref), Size: 1 << 20, CreatedAt: timestamppb.Now(),
		}); err != nil {
			return err
		}
	}

	return nil
}

// Remove forgets an image.
func (i *images) Remove(_ context.Context, in *machineapi.ImageServiceRemoveRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, i.do(func() error {
		if _, found := i.node.Pulled[in.GetImageRef()]; !found {
			return status.Errorf(codes.NotFound, "image %q: not found", in.GetImageRef())
		}

		delete(i.node.Pulled, in.GetImageRef())
		i.fleet.Changed(i.node)

		return nil
	})
}

// ImagePull is the older call of the same.
func (s *Server) ImagePull(ctx context.Context, in *machineapi.ImagePullRequest) (*machineapi.ImagePullResponse, error) {
	if err := s.pull(ctx, in.GetReference()); err != nil {
		return nil, err
	}

	return &machineapi.ImagePullResponse{Messages: []*machineapi.ImagePull{{}}}, nil
}

// ImageList is the older call of the same.
func (s *Server) ImageList(in *machineapi.ImageListRequest, stream grpc.ServerStreamingServer[machineapi.ImageListResponse]) error {
	if in.GetNamespace() == common.ContainerdNamespace_NS_UNKNOWN {
		return status.Errorf(codes.InvalidArgument, "unsupported namespace: %s", in.GetNamespace())
	}

	for _, ref := range s.pulled() {
		if err := stream.Send(&machineapi.ImageListResponse{
			Name: ref, Digest: digestOf(ref), Size: 1 << 20, CreatedAt: timestamppb.Now(),
		}); err != nil {
			return err
		}
	}

	return nil
}
