// Package cosi shows a fake node's resources by the COSI state API: those that clients of Talos read.
//
// What a node shows follows from the fleet's model whenever somebody looks; a watch looks several times a second.
package cosi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/resource/meta"
	"github.com/cosi-project/runtime/pkg/resource/meta/spec"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/impl/inmem"
	"github.com/cosi-project/runtime/pkg/state/impl/namespaced"
	"github.com/cosi-project/runtime/pkg/state/registry"
	"github.com/siderolabs/talos/pkg/machinery/resources/k8s"
	"github.com/siderolabs/talos/pkg/machinery/role"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gopkg.in/yaml.v3"

	"hybrid-talos.dev/lab/tools/talos-nodes/internal/apid"
	"hybrid-talos.dev/lab/tools/talos-nodes/internal/fleet"
)

const lookEvery = 100 * time.Millisecond

// State is the resources of one node, read-only as in Talos.
type State struct {
	state.CoreState

	fleet       *fleet.Fleet
	node        *fleet.Node
	mu          sync.Mutex
	inner       state.State
	shown       map[string]string
	served      map[string]bool
	sensitivity map[string]spec.Sensitivity
}

// New returns the resources of a node that came up.
func New(f *fleet.Fleet, node *fleet.Node) *State {
	s := &State{
		fleet: f, node: node, shown: map[string]string{}, served: map[string]bool{},
		sensitivity: map[string]spec.Sensitivity{},
		inner: state.WrapCore(namespaced.NewState(func(namespace string) state.CoreState {
			return inmem.NewState(namespace)
		})),
	}

	if err := s.define(context.Background()); err != nil {
		panic(err) // the definitions are compiled in
	}

	s.CoreState = state.Filter(s.inner, s.access)

	return s
}

func (s *State) define(ctx context.Context) error {
	namespaces := registry.NewNamespaceRegistry(s.inner)
	resources := registry.NewResourceRegistry(s.inner)

	if err := namespaces.RegisterDefault(ctx); err != nil {
		return err
	}

	if err := resources.RegisterDefault(ctx); err != nil {
		return err
	}

	for name, text := range namespaceNames {
		if err := namespaces.Register(ctx, name, text); err != nil {
			return err
		}
	}

	for _, served := range []bool{true, false} {
		for _, each := range definitions(served) {
			if err := resources.Register(ctx, each); err != nil {
				return err
			}

			definition := each.ResourceDefinition()
			s.served[definition.Type] = served
			s.sensitivity[definition.Type] = definition.Sensitivity
		}
	}

	return nil
}

// access is internal/app/resources AccessPolicy of Talos, and what brings the resources up to date before a look.
func (s *State) access(ctx context.Context, access state.Access) error {
	what := access.ResourceType
	if access.ResourceID != "" {
		what += "/" + access.ResourceID
	}

	apid.Note(ctx, "resource", what)

	if !access.Verb.Readonly() {
		return status.Error(codes.PermissionDenied, "write access is not allowed")
	}

	builtin := strings.HasSuffix(access.ResourceType, ".meta.cosi.dev")
	sensitivity, known := s.sensitivity[access.ResourceType]

	switch {
	case builtin:
	case !known:
		apid.Unimplemented(ctx, "resource type "+access.ResourceType)

		return status.Error(codes.PermissionDenied, fmt.Sprintf("resource type %q is not supported", access.ResourceType))
	case sensitivity == meta.Sensitive && !apid.Roles(ctx).Includes(role.Admin):
		return apid.ErrNotAuthorized
	case !s.served[access.ResourceType]:
		apid.Unimplemented(ctx, "the fake nodes have no resources of type "+access.ResourceType)
	}

	if _, known := namespaceNames[access.ResourceNamespace]; !known && access.ResourceNamespace != meta.NamespaceName {
		return status.Error(codes.PermissionDenied, fmt.Sprintf("namespace %q is not supported", access.ResourceNamespace))
	}

	if err := s.look(); err != nil {
		return status.Error(codes.Internal, err.Error())
	}

	if access.Verb == state.Watch {
		go s.lookOn(ctx)
	}

	return nil
}

func (s *State) lookOn(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()

	for {
		select {
		case <-ticker.C:
			if s.look() != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// look makes the resources what the model says now.
func (s *State) look() error {
	s.mu.Lock()
	defer s.mu.Unlock()

	var wanted []resource.Resource

	s.fleet.Do(func() { wanted = all(s.node) })

	ctx := context.Background()
	seen := map[string]bool{}

	for _, each := range wanted {
		key := keyOf(each.Metadata())
		seen[key] = true

		text, err := contentOf(each)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}

		before, shown := s.shown[key]

		switch {
		case !shown:
			err = s.inner.Create(ctx, each)
		case before != text:
			err = s.update(ctx, each)
		}

		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}

		s.shown[key] = text
		s.told(ctx, each)
	}

	for key := range s.shown {
		if seen[key] {
			continue
		}

		parts := strings.SplitN(key, "|", 3)
		if err := s.inner.Destroy(ctx, resource.NewMetadata(parts[0], parts[1], parts[2], resource.VersionUndefined)); err != nil {
			return err
		}

		delete(s.shown, key)
	}

	return nil
}

// told lets the node know the versions of those config resources that stand in the annotations of its static pods.
func (s *State) told(ctx context.Context, each resource.Resource) {
	switch each.Metadata().Type() {
	case k8s.APIServerConfigType, k8s.ControllerManagerConfigType, k8s.SchedulerConfigType:
	default:
		return
	}

	if now, err := s.inner.Get(ctx, each.Metadata()); err == nil {
		s.fleet.Do(func() { s.node.Saw(now.Metadata().ID(), now.Metadata().Version().String()) })
	}
}

func (s *State) update(ctx context.Context, next resource.Resource) error {
	current, err := s.inner.Get(ctx, next.Metadata())
	if err != nil {
		return err
	}

	next.Metadata().SetVersion(current.Metadata().Version())
	next.Metadata().SetCreated(current.Metadata().Created())

	return s.inner.Update(ctx, next)
}

func keyOf(md *resource.Metadata) string {
	return md.Namespace() + "|" + md.Type() + "|" + md.ID()
}

func contentOf(each resource.Resource) (string, error) {
	text, err := yaml.Marshal(each.Spec())
	if err != nil {
		return "", err
	}

	return fmt.Sprint(each.Metadata().Labels().Raw(), "\n", string(text)), nil
}
