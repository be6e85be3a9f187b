// The Kubernetes provider of Pulumi. Its own main package, provider/cmd/pulumi-resource-kubernetes, cannot be built from
// the module cache: it embeds two files that its Makefile makes from these.
package main

import (
	"bytes"
	_ "embed"
	"fmt"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

// Both are laid here from the module's own folder when this is built (lab/tool_builds.py).

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var terraformMapping []byte

func main() {
	// The published schema has no version until it is released.
	rest := bytes.TrimPrefix(bytes.TrimSpace(schema), []byte("{"))
	versioned := append(fmt.Appendf(nil, "{%q: %q,", "version", version.Version), rest...)
	provider.Serve("kubernetes", version.Version, versioned, terraformMapping)
}
