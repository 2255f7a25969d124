# Everything is installed into this checkout: .venv and .cache.
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
ARGS ?=

# Tests start dozens of processes; without bytecode each would compile the same files again.
unexport PYTHONDONTWRITEBYTECODE

# Tests run on this many processes; each starts the servers that it needs.
TESTERS ?= 4

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run test check lint types audit format bench soak clean

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: $(TOOLS) ## install Portico with all storage services, and the tools, into .venv

# uv takes seconds where pip takes minutes. Where there is none, or it does not know the index, pip does it.
INSTALL := install() { $(VENV)/bin/uv pip install --quiet --python $(PY) "$$@" 2>/dev/null || $(PY) -m pip install --quiet "$$@"; }; install

$(PY):
	@command -v python3 >/dev/null || { echo "Portico needs python3 (3.11 or newer) on the PATH." >&2; exit 1; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Portico needs Python 3.11 or newer; this one is $$(python3 --version)." >&2; exit 1; }
	@python3 -m venv $(VENV)
	@$(PY) -m pip install --quiet --upgrade 'pip>=25.1'
	@$(PY) -m pip install --quiet --only-binary :all: uv 2>/dev/null || true

# Installing compiles what is in C, if there is a compiler.
BUILT_FROM := pyproject.toml hatch_build.py src/portico/providers/local/stats.c

# What it takes to run: quick, so that a newcomer sees the gateway soon.
$(READY): $(BUILT_FROM) | $(PY)
	@echo "Installing Portico into $(VENV) (once; half a minute or so) …"
	@$(INSTALL) --editable '.[all]'
	@touch $@

# What it takes to work on it: test servers, linters, a browser's driver. Resolved together with Portico itself, or
# the tools would bring a botocore that aiobotocore cannot use.
$(TOOLS): $(BUILT_FROM) | $(PY)
	@echo "Installing Portico and its tools into $(VENV) (once; a minute or so) …"
	@$(INSTALL) --editable '.[all]' --group dev
	@touch $(READY) $@

run: $(READY) ## start a gateway over .cache/home (ARGS="--port 9000" for options)
	@$(VENV)/bin/portico --home .cache/home serve $(ARGS)

check: lint types ## lint, formatting, types (Python and the page's scripts)

lint: $(TOOLS)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .

types: $(TOOLS)
	@$(VENV)/bin/mypy
	@$(PY) -m tools.check_page

# Types are checked beside the tests, as mypy uses one core only; what it says comes last.
test: lint ## everything that must hold: check and all tests
	@mkdir -p .cache; $(MAKE) --no-print-directory types >.cache/types.log 2>&1 & checker=$$!; \
	trap 'kill $$checker 2>/dev/null' INT TERM; \
	$(PY) -m pytest -n $(TESTERS) --dist worksteal --durations=25 $(ARGS); tests=$$?; \
	wait $$checker; types=$$?; cat .cache/types.log; [ $$tests = 0 ] && [ $$types = 0 ]

audit: $(TOOLS) ## published advisories for what Portico installs; asks pypi.org and the npm registry
	@$(PY) tools/advisories.py

format: $(TOOLS) ## let ruff fix what it can
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

bench: $(TOOLS) ## side-by-side measurements (ARGS="listing --quick" for some)
	@$(PY) -m bench.run $(ARGS)

soak: $(TOOLS) ## the promises of docs/trust.md at full length; rewind-* takes hours, the rest half an hour (ARGS='kill flood' for some of them)
	@$(PY) -m tests.faults.soak $(ARGS)

clean: ## remove what the other targets made
	rm -rf $(VENV) .cache dist src/portico/providers/local/*.so
