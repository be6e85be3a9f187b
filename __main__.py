"""Hybrid Talos: one highly available Talos cluster across a rack, Azure and Alibaba Cloud."""

import pulumi

from stacks import COMPOSITIONS
from stacks.secrets import read_secrets
from stacks.settings import load

config = pulumi.Config("hybrid-talos")
settings = load(config.get("stack") or "", config.get_object("settings") or {})
secrets = read_secrets(config, settings)
outputs = COMPOSITIONS[settings.stack](settings, secrets)
for name, value in outputs.exports().items():
    pulumi.export(name, value)
