package fleet

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	machineapi "github.com/siderolabs/talos/pkg/machinery/api/machine"
	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configdiff"
	"github.com/siderolabs/talos/pkg/machinery/config/container"
)

// Immediate says why a config cannot take effect without a reboot, or nil. The parts that can are those of Talos 1.13
// (internal/app/machined/pkg/runtime/v1alpha1/v1alpha1_runtime.go, CanApplyImmediate).
func (n *Node) Immediate(next config.Provider) error {
	if n.config == nil {
		return errors.New("no current config")
	}

	before, after := n.config.RawV1Alpha1(), next.RawV1Alpha1()
	if before == nil {
		return errors.New("current config is not v1alpha1")
	}

	if after == nil {
		return errors.New("new config is not v1alpha1")
	}

	before, after = before.DeepCopy(), after.DeepCopy()

	for _, each := range []*reflect.Value{ptr(reflect.ValueOf(before).Elem()), ptr(reflect.ValueOf(after).Elem())} {
		clearFields(*each, "ConfigDebug", "ClusterConfig")

		machine := each.FieldByName("MachineConfig")
		if machine.IsNil() {
			continue
		}

		clearFields(machine.Elem(),
			"MachineCA", "MachineAcceptedCAs", "MachineTime", "MachineCertSANs", "MachineInstall", "MachineNetwork",
			"MachineSysfs", "MachineSysctls", "MachineLogging", "MachineControlPlane", "MachineKubelet", "MachineKernel",
			"MachineRegistries", "MachinePods", "MachineSeccompProfiles", "MachineNodeAnnotations", "MachineNodeLabels",
			"MachineNodeTaints")

		if features := machine.Elem().FieldByName("MachineFeatures"); !features.IsNil() {
			clearFields(features.Elem(),
				"KubernetesTalosAPIAccessConfig", "KubePrismSupport", "HostDNSSupport", "ImageCacheSupport",
				"FeatureNodeAddressSortAlgorithm")
		}
	}

	if reflect.DeepEqual(before, after) {
		return nil
	}

	diff, err := configdiff.DiffConfigs(container.NewV1Alpha1(before), container.NewV1Alpha1(after))
	if err != nil {
		return fmt.Errorf("error calculating diff: %w", err)
	}

	return fmt.Errorf("this config change can't be applied in immediate mode\ndiff:\n%s", diff)
}

func ptr(value reflect.Value) *reflect.Value { return &value }

func clearFields(value reflect.Value, names ...string) {
	for _, name := range names {
		value.FieldByName(name).SetZero()
	}
}

// The caller gets its answer before the machine goes dark.
const answerTime = 100 * time.Millisecond

// Install is what a config in maintenance mode does: the machine installs itself and comes up again.
func (n *Node) Install(text string) {
	n.Persisted = text
	n.Sequence = &Sequence{Name: "install", Step: stepGone}
	n.enter(Stopping, time.Now().Add(answerTime))
}

func (n *Node) installed(now time.Time) {
	n.Active = n.Persisted
	if err := n.parse(); err != nil { // it was parsed before it was kept
		n.log("config", err.Error(), nil)
	}

	if n.Installed { // a disk image: it goes on booting with what it was given
		n.enter(Running, time.Time{})
		n.start(now)

		return
	}

	image, err := n.installation()
	if err != nil {
		n.log("install failed", err.Error(), nil)
		n.Active, n.Persisted, n.config = "", "", nil
	} else {
		n.Installed, n.Image = true, image
		n.log("installed", n.Image.Version, map[string]any{"image": n.Image.Ref})
	}

	n.goDark(Booting, now.Add(n.fleet.Timings.Boot.Duration()))
}

// installation checks the install section against the machine, as the installer would.
func (n *Node) installation() (Image, error) {
	install := n.config.Machine().Install()
	if install == nil {
		return Image{}, errors.New("the config has no install section")
	}

	if n.Trouble.DiskFull {
		return Image{}, errors.New("no space left on device")
	}

	disk, err := n.installDisk(install)
	if err != nil {
		return Image{}, err
	}

	if disk.Readonly {
		return Image{}, fmt.Errorf("%s is read-only", disk.Path)
	}

	ref := install.Image()
	if ref == "" {
		return n.Image, nil
	}

	return ImageOf(ref)
}

// Apply makes a config the active one at once, the persisted one, or both.
func (n *Node) Apply(text string, active, persisted bool) error {
	if persisted {
		n.Persisted = text
	}

	if active {
		n.Active = text
		if err := n.parse(); err != nil {
			return err
		}

		n.renew()
	}

	n.fleet.Changed(n)

	return nil
}

// TryFor makes a config the active one until the time is over.
func (n *Node) TryFor(text string, timeout time.Duration) error {
	before := n.Persisted
	n.Try = &Try{Until: time.Now().Add(timeout), Before: before}

	return n.Apply(text, true, false)
}

func (n *Node) revert() {
	n.log("config", "try mode is over: rolled back", map[string]any{"config": Digest(n.Try.Before)})

	before := n.Try.Before
	n.Try = nil

	if err := n.Apply(before, true, false); err != nil {
		n.log("config", err.Error(), nil)
	}
}

// renew gives the node the identity that its changed config asks for: open connections stay, new ones see it.
func (n *Node) renew() {
	if n.Identity == nil || !n.Configured() {
		return
	}

	if identity, err := n.configured(); err == nil {
		n.Identity = identity
	}
}

// Modes as the log writes them.
func ModeName(mode machineapi.ApplyConfigurationRequest_Mode) string {
	return strings.ToLower(strings.ReplaceAll(mode.String(), "_", "-"))
}
