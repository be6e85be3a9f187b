"""The example's cluster without its clouds: quick to build."""

from pathlib import Path

import yaml
from lab_folder import ROOT, Lab


def cluster_alone(folder: Path) -> Lab:
    """Return a lab with the example's control planes and workers, nothing built yet."""
    document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())
    config = document["config"]
    settings = config["hybrid-talos:settings"]
    config["hybrid-talos:stack"] = "cluster"
    config["hybrid-talos:settings"] = {key: settings[key] for key in ("cluster", "image", "mesh") if key in settings}
    path = folder / "Pulumi.dev.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return Lab(folder, "dev", path)
