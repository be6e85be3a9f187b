"""Hybrid Talos: one highly available Talos cluster across a rack, Azure and Alibaba Cloud."""

import pulumi

from stacks import COMPOSITIONS
from stacks.secrets import read_secrets, secret_problems
from stacks.settings import load

config = pulumi.Config("hybrid-talos")
stack, document = config.get("stack") or "", config.get_object("settings") or {}
settings = load(stack, document, secret_problems(config, stack, document))
outputs = COMPOSITIONS[settings.stack](settings, read_secrets(config, stack, document))
for name, value in outputs.exports().items():
    pulumi.export(name, value)
