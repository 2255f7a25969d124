# Everything is installed into this checkout: .venv and .cache.
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup run test check format bench clean

help: ## show this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: $(STAMP) ## install Portico and its tools into .venv

$(STAMP): pyproject.toml
	@command -v python3 >/dev/null || { echo "Portico needs python3 (3.11 or newer) on the PATH." >&2; exit 1; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Portico needs Python 3.11 or newer; this one is $$(python3 --version)." >&2; exit 1; }
	@echo "Installing Portico into $(VENV) (once; a minute or two) …"
	@if command -v uv >/dev/null; then \
		uv venv --quiet --allow-existing $(VENV) && uv pip install --quiet --python $(PY) --editable . --group dev; \
	else \
		python3 -m venv $(VENV) && $(PY) -m pip install --quiet --upgrade 'pip>=25.1' && $(PY) -m pip install --quiet --editable . --group dev; \
	fi
	@touch $@

run: $(STAMP) ## start a gateway over .cache/home (ARGS="--port 9000" for options)
	@$(VENV)/bin/portico --home .cache/home serve $(ARGS)

check: $(STAMP) ## lint, formatting, types
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

test: check ## everything that must hold: check, then all tests
	@$(PY) -m pytest $(ARGS)

format: $(STAMP) ## let ruff mend what it can
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

bench: $(STAMP) ## side-by-side measurements
	@$(PY) bench/run.py $(ARGS)

clean: ## remove what the other targets made
	rm -rf $(VENV) .cache dist
