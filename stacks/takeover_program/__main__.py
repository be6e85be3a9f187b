"""Run by `python -m stacks.takeover` alone: puts the secrets of a cluster that exists into an empty stack."""

import os
import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from stacks.secrets import secret_problems  # noqa: E402 - the checkout is on the path from here on
from stacks.settings import load  # noqa: E402
from stacks.takeover_records import VARIABLE, declare  # noqa: E402

config = pulumi.Config("hybrid-talos")
stack, document = config.get("stack") or "", config.get_object("settings") or {}
declare(load(stack, document, secret_problems(config, stack, document)), os.environ[VARIABLE])
