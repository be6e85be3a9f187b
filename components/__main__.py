"""The components as a Pulumi package for programs in other languages."""

import sys

from hybrid_talos.component_host import ComponentHost
from pulumi.provider import main

if __name__ == "__main__":
    main(ComponentHost(), sys.argv[1:])
