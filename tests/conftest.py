"""For all tests: this folder is where their shared helpers are imported from, and stringified outputs are errors."""

import os

# An output that ends up in a name or a text without having been awaited fails instead of warning.
os.environ.setdefault("PULUMI_ERROR_OUTPUT_STRING", "true")
