# The same few short commands here and in CI. `make help` lists them.

VENV    := .venv
BIN     := $(VENV)/bin
# Which Python makes .venv; the first of these that is new enough unless you name one.
PYTHON  ?=
# Extra arguments: make serve ARGS="--port 9000", make test ARGS="-k pacer".
ARGS    ?=

CHECKED := server loadtest tests tools hatch_build.py $(wildcard bench/*.py clients/*.py)
PIP     := $(BIN)/python -m pip --disable-pip-version-check -qq

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

.PHONY: help install serve test check fmt bench clients lock build clean
.DEFAULT_GOAL := help

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | \
	  while IFS='|' read -r name what; do printf '  make %-8s %s\n' "$$name" "$$what"; done

install: $(VENV)/.installed-dev ## make .venv with all that serving, testing and benching need

serve: $(VENV)/.installed ## start a server on port 8000 with every profile
	@exec $(BIN)/paceline serve $(ARGS)

test: install check ## check, then run the tests
	@tools/system-packages.sh
	@$(BIN)/python -m pytest $(ARGS)

check: install ## lint, formatting and types
	@$(BIN)/ruff check --quiet $(CHECKED)
	@$(BIN)/ruff format --quiet --check $(CHECKED) || \
	  { echo "The files above are not formatted: run 'make fmt'." >&2; exit 1; }
	@$(BIN)/mypy $(CHECKED)

fmt: install ## format, and fix what the linter can
	@$(BIN)/ruff check --quiet --fix $(CHECKED) || true
	@$(BIN)/ruff format --quiet $(CHECKED)

bench: install ## measure this server beside its peers, with a client in C (fetches 6 GB of peers)
	@$(MAKE) --no-print-directory -C bench all guidellm
	@$(BIN)/python bench/run.py $(ARGS)

clients: install ## real clients (Codex, Claude Code, SDKs) against a server of our own
	@$(BIN)/python clients/run_clients.py $(ARGS)

build: install ## make the wheel and the source archive in dist/
	@$(BIN)/python -m build --no-isolation --outdir dist .

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find server loadtest tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# --- The environment -------------------------------------------------------------------

# Each stamp is newer than the files it was made from, or the step is run again.
$(VENV)/.made:
	@set -e; \
	chosen='$(PYTHON)'; \
	if [ -z "$$chosen" ]; then \
	  for candidate in python3 python3.13 python3.12 python3.11; do \
	    if "$$candidate" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then chosen=$$candidate; break; fi; \
	  done; \
	fi; \
	if [ -z "$$chosen" ] || ! "$$chosen" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then \
	  tried=$${chosen:-python3}; \
	  found=$$("$$tried" --version 2>/dev/null) || found='not there'; \
	  echo "Paceline needs Python 3.11 or newer; '$$tried' is $$found." >&2; \
	  echo "Install a newer one, or name it: make install PYTHON=/path/to/python3.12" >&2; \
	  exit 1; \
	fi; \
	rm -rf $(VENV); \
	"$$chosen" -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "'$$chosen -m venv' failed; on Debian and Ubuntu it needs the package python3-venv." >&2; \
	  exit 1; \
	}; \
	touch $@

# What the server needs and no more, so that a first `make serve` is quick.
$(VENV)/.installed: $(VENV)/.made pyproject.toml hatch_build.py requirements/base.txt requirements/build.txt
	@echo "Installing Paceline into $(VENV) ..."
	@$(PIP) install --require-hashes -r requirements/base.txt -r requirements/build.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.made pyproject.toml hatch_build.py requirements/dev.txt
	@echo "Installing Paceline and its development tools into $(VENV) ..."
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.installed $@

# --- The lock --------------------------------------------------------------------------

# Locks hold names, versions and hashes: no index, no annotations with paths. Private pip
# settings are shut out, so that the hashes are those of the public index. base.txt and
# build.txt are subsets of dev.txt, so one environment can hold all three.
LOCK := PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS= PIP_EXTRA_INDEX_URL= \
        $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe \
        --no-header --no-annotate \
        --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

lock: ## bring requirements/ up to date with pyproject.toml (make lock ARGS=--upgrade)
	@test -x $(BIN)/pip-compile || $(MAKE) --no-print-directory install
	@$(LOCK) $(ARGS) --extra dev --build-deps-for editable -o requirements/dev.txt pyproject.toml
	@$(LOCK) $(ARGS) -c requirements/dev.txt -o requirements/base.txt pyproject.toml
	@$(LOCK) $(ARGS) -c requirements/dev.txt --only-build-deps --build-deps-for editable \
	  -o requirements/build.txt pyproject.toml
