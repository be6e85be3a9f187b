package machined

import (
	"context"
	"fmt"
	"strconv"

	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	storageapi "github.com/siderolabs/talos/pkg/machinery/api/storage"
	"google.golang.org/protobuf/types/known/emptypb"
)

type storage struct {
	storageapi.UnimplementedStorageServiceServer
	*Server
}

// Disks lists the disks: talosctl asks it to see whether a machine is in maintenance mode.
func (s *storage) Disks(context.Context, *emptypb.Empty) (*storageapi.DisksResponse, error) {
	disks := &storageapi.Disks{}

	for _, disk := range s.node.Spec.Disks {
		kind := storageapi.Disk_SSD
		if disk.Rotational {
			kind = storageapi.Disk_HDD
		}

		disks.Disks = append(disks.Disks, &storageapi.Disk{
			Size: disk.Size, Model: disk.Model, DeviceName: disk.Path, Serial: disk.Serial, Wwid: disk.WWID, Type: kind,
			Readonly: disk.Readonly,
		})
	}

	return &storageapi.DisksResponse{Messages: []*storageapi.Disks{disks}}, nil
}

// MetaWrite writes a key of the META partition.
func (s *Server) MetaWrite(_ context.Context, in *machineapi.MetaWriteRequest) (*machineapi.MetaWriteResponse, error) {
	err := s.do(func() error {
		if in.GetKey() > 255 {
			return fmt.Errorf("key must be a uint8")
		}

		s.node.Meta[strconv.Itoa(int(in.GetKey()))] = string(in.GetValue())
		s.fleet.Changed(s.node)

		return nil
	})
	if err != nil {
		return nil, err
	}

	return &machineapi.MetaWriteResponse{Messages: []*machineapi.MetaWrite{{}}}, nil
}

// MetaDelete deletes a key of the META partition.
func (s *Server) MetaDelete(_ context.Context, in *machineapi.MetaDeleteRequest) (*machineapi.MetaDeleteResponse, error) {
	s.fleet.Do(func() {
		delete(s.node.Meta, strconv.Itoa(int(in.GetKey())))
		s.fleet.Changed(s.node)
	})

	return &machineapi.MetaDeleteResponse{Messages: []*machineapi.MetaDelete{{}}}, nil
}
