# The commands of the README. Nothing here needs root.
#
#   make demo        bring the example up in the lab: preview, up, outputs, a second preview without a change
#   make test        lint, types, and all tests that need the engine and talosctl
#   make test-real   the tests that hold our output against other people's real tools and servers
#   make bench       the benchmarks
#   make schema      components/schema.json anew, the package as other languages see it
#   make docs        write docs/settings.md and docs/autoscaler-flags.md anew
#   make schema      write components/schema.json anew
#   make clean-lab   forget the lab's stacks and clouds
#   make setup       only the virtual environment and the tools

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The first Python that is new enough.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

VENV := .venv
STAMP := $(VENV)/.stamp
BIN := $(VENV)/bin

.PHONY: help docs setup venv tools tools-real demo test test-real bench lint format schema clean-lab

help:
	@sed -n 's/^#   //p' Makefile

venv: $(STAMP)

$(STAMP): requirements.txt requirements-dev.txt pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is needed: https://www.python.org/downloads/" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is needed (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@echo "installing the Python packages into $(VENV); usually a minute"
	@# Compiling every module of the clouds' SDKs takes longer than the few that are used are worth.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements-dev.txt
	@touch $@

tools:
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or newer is needed: https://www.python.org/downloads/" >&2; exit 1; }
	@$(PYTHON) -m lab.tools

# The tools need nothing of the virtual environment: both are made at the same time.
setup:
	@$(MAKE) --no-print-directory tools & tools=$$!; \
	trap 'kill $$tools 2>/dev/null || true' EXIT; \
	$(MAKE) --no-print-directory venv; \
	wait $$tools; trap - EXIT

demo: setup
	@$(BIN)/python -m lab demo

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

schema: venv
	$(BIN)/python -m hybrid_talos.component_host > components/schema.json.new
	mv components/schema.json.new components/schema.json

test: setup lint
	@# A file's tests stay together: those of the lab share one folder with its clouds.
	$(BIN)/python -m pytest --ignore tests/real -n auto --maxprocesses 4 --dist loadfile

# Servers and a provider that only the tests of this tier need; they share the compiler's cache with the others.
tools-real: setup
	@$(PYTHON) -m lab.real_tools

test-real: tools-real
	$(BIN)/python -m pytest -m real

docs: venv
	$(BIN)/python -m stacks.settings_page > docs/settings.md
	$(BIN)/python -c "from hybrid_talos.autoscaler_flags import flags_page; print(flags_page(), end='')" > docs/autoscaler-flags.md

bench: setup
	$(BIN)/python -m bench

clean-lab:
	rm -rf .lab
