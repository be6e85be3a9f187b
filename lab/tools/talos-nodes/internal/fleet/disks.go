package fleet

import (
	"fmt"
	"path"

	"github.com/dustin/go-humanize"
	blockpb "github.com/siderolabs/talos/pkg/machinery/api/resource/definitions/block"
	"github.com/siderolabs/talos/pkg/machinery/cel/celenv"
	"github.com/siderolabs/talos/pkg/machinery/config/config"
	"github.com/siderolabs/talos/pkg/machinery/proto"
	"github.com/siderolabs/talos/pkg/machinery/resources/block"
)

// Resource returns a disk as Talos shows it.
func (d *Disk) Resource() block.DiskSpec {
	bus := d.BusPath
	if bus == "" {
		bus = "/pci0000:00/0000:00:05.0/" + d.Serial
	}

	return block.DiskSpec{
		DevPath: d.Path, Size: d.Size, PrettySize: humanize.IBytes(d.Size), IOSize: 512, SectorSize: 512,
		Readonly: d.Readonly, Rotational: d.Rotational, Model: d.Model, Serial: d.Serial, WWID: d.WWID,
		UUID: d.UUID, Modalias: d.Modalias, Transport: d.Bus, BusPath: bus,
	}
}

// ID returns the disk's name among the node's resources.
func (d *Disk) ID() string { return path.Base(d.Path) }

func (n *Node) installDisk(install config.Install) (*Disk, error) {
	expression, err := install.DiskMatchExpression()
	if err != nil {
		return nil, err
	}

	for i := range n.Spec.Disks {
		disk := &n.Spec.Disks[i]

		if expression == nil {
			if disk.Path == install.Disk() {
				return disk, nil
			}

			continue
		}

		spec := &blockpb.DiskSpec{}
		resource := block.NewDisk(block.NamespaceName, disk.ID())
		*resource.TypedSpec() = disk.Resource()

		if err = proto.ResourceSpecToProto(resource, spec); err != nil {
			return nil, err
		}

		matches, err := expression.EvalBool(celenv.DiskLocator(), map[string]any{"disk": spec, "system_disk": false})
		if err != nil {
			return nil, err
		}

		if matches {
			return disk, nil
		}
	}

	if expression != nil {
		return nil, fmt.Errorf("no disk matches the selector %s", expression)
	}

	return nil, fmt.Errorf("disk %q not found", install.Disk())
}

// SystemDisk is the disk that Talos is installed on, or would be on a machine that came with it.
func (n *Node) SystemDisk() *Disk {
	if n.Configured() && n.config.Machine().Install() != nil {
		if disk, err := n.installDisk(n.config.Machine().Install()); err == nil {
			return disk
		}
	}

	return &n.Spec.Disks[0]
}
