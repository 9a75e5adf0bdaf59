# Needs python3 >= 3.11 with venv, and make. Everything is installed into $(VENV).

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?= -n 2

EXTRAS := plot,bench,dask,dev
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
LOCK := requirements.lock
LOCK_VENV := $(VENV)-lock
APT_LIST := tests/apt-packages.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lock apt clean

help: ## list the targets
	@echo "Targets (variables: PYTHON=$(PYTHON) VENV=$(VENV) PYTEST_ARGS=$(PYTEST_ARGS)):"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: $(VENV)/.stamp-run ## run the controller on the simulated bench
	$(BIN)/macontrol --backend sim

test: apt $(VENV)/.stamp-dev ## lint, check types and imports, run every test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	$(BIN)/python -m pytest $(PYTEST_ARGS)

# setuptools comes from the lock too, hence no build isolation: it would fetch the newest.
$(VENV)/.stamp-run: pyproject.toml $(LOCK) | $(VENV)/.stamp-venv
	$(PIP) install -q -c $(LOCK) setuptools
	$(PIP) install -q -c $(LOCK) --no-build-isolation -e .
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml $(LOCK) | $(VENV)/.stamp-venv
	$(PIP) install -q -c $(LOCK) setuptools
	$(PIP) install -q -c $(LOCK) --no-build-isolation -e '.[$(EXTRAS)]'
	@touch $(VENV)/.stamp-run $@

define create_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "macontrol needs Python 3.11 or newer, and $(PYTHON) is not:" \
	    "name another with make PYTHON=python3.x" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. Debian: apt install python3-venv" >&2; exit 1; }
endef

$(VENV)/.stamp-venv:
	$(create_venv)
	$(PYTHON) -m venv $(VENV)
	@touch $@

lock: ## renew requirements.lock from a fresh install of all extras
	$(create_venv)
	rm -rf $(LOCK_VENV)
	$(PYTHON) -m venv $(LOCK_VENV)
	$(LOCK_VENV)/bin/python -m pip install -q --upgrade setuptools
	$(LOCK_VENV)/bin/python -m pip install -q --no-build-isolation -e '.[$(EXTRAS)]'
	@{ echo "# Exact versions of everything \`make test\` installs, as a pip constraints file."; \
	   echo "# Do not edit: renew it with \`make lock\`."; \
	   $(LOCK_VENV)/bin/python -m pip freeze --all --exclude pip --exclude-editable \
	     | grep -E '^[A-Za-z0-9._-]+=='; } > $(LOCK).new
	@mv $(LOCK).new $(LOCK)
	rm -rf $(LOCK_VENV)

# Best effort: tests that need a missing package skip and say so.
apt: ## install the Debian packages the tests use (as root; else says which are missing)
	@command -v dpkg-query >/dev/null || exit 0; \
	missing=; \
	for package in $$(sed 's/#.*//' $(APT_LIST)); do \
	  dpkg-query -W -f '$${db:Status-Status}' "$$package" 2>/dev/null | grep -qx installed \
	    || missing="$$missing $$package"; \
	done; \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "Some tests will skip. To run them: sudo apt-get install$$missing"; exit 0; \
	fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	install="apt-get install -qq -y --no-install-recommends$$missing"; \
	$$install >/dev/null 2>&1 || { apt-get update -qq && $$install >/dev/null; } \
	  || echo "Could not install$$missing; some tests will skip."

clean: ## remove the virtual environment, build products and caches
	rm -rf $(VENV) $(LOCK_VENV) build dist src/*.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find config controller hal sim src tests -name __pycache__ -type d -prune -exec rm -rf {} +
