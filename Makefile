# Needs python3 >= 3.11 with venv, and make. Everything is installed into $(VENV).

PYTHON ?= python3
VENV ?= .venv
# Most tests wait more than they compute, so there are more workers than cores. Files stay whole, as
# tests of a file share servers, and in order: those that need real time run before the others.
PYTEST_ARGS ?= -n 6 --dist loadfile --no-loadscope-reorder

comma := ,
EXTRAS := plot,bench,dask,notebook,docs,dev
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# What a run needs, and what `make test` needs, with the hashes of all files.
LOCK := requirements.lock
DEV_LOCK := requirements-dev.lock
UV_VENV := $(VENV)-uv
UV := $(UV_VENV)/bin/uv
# No index in the files, and one lock for all platforms and versions of Python.
COMPILE := $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
  --no-annotate --no-emit-index-url --no-emit-package macontrol --upgrade pyproject.toml
LOWEST := $(VENV)-lowest
APT_LIST := tests/apt-packages.txt

# Where `make install` puts things. DESTDIR goes before every path, for packages and images.
PREFIX ?= /opt/macontrol
CONFDIR ?= /etc/macontrol
BINDIR ?= /usr/local/bin
UNITDIR ?= /usr/local/lib/systemd/system
UDEVDIR ?= /usr/local/lib/udev/rules.d
DOCDIR ?= /usr/local/share/doc/macontrol
INSTALL_PIP = '$(DESTDIR)$(PREFIX)/bin/python' -m pip --disable-pip-version-check
UNITS := macontrol.service macontrol@.service macontrol-dashboard.service

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-as-root test-lowest test-random fault-tests docs site lock apt install install-program install-service uninstall deb deb-try clean

help: ## list the targets
	@echo "Targets (variables: PYTHON=$(PYTHON) VENV=$(VENV) PYTEST_ARGS=$(PYTEST_ARGS)):"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

demo: $(VENV)/.stamp-run ## run the controller on the simulated bench for 30 s, with a page
	@echo "The demo's slots last 50 ms, and need no permission for real-time scheduling;" \
	  "a warning that it is missing is expected."
	@$(BIN)/macontrol demo

test: apt $(VENV)/.stamp-dev ## lint, check types and imports, run every test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	$(call run_tests)

# CI runs this beside `make test` as an ordinary user: the tests of files, devices, processes and
# scheduling, which root's permissions can change.
ROOT_TESTS := $(addprefix tests/,system unit/app unit/config unit/controller/host \
  unit/controller/recording unit/hal/serial unit/project unit/sim/bench)
test-as-root: apt $(VENV)/.stamp-dev
	$(call run_tests,-m 'not any_user' $(ROOT_TESTS))

# Many tests need real time, and a busy computer can withhold it. So up to ten failed tests are run
# again, one after the other. What fails then is an error; what passes then stays in the output.
define run_tests
	@rm -f .pytest_cache/v/cache/lastfailed
	$(BIN)/python -m pytest $(PYTEST_ARGS) $(1) || { \
	  $(BIN)/python tests/support/failed_tests.py 10 \
	  && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(1); }
endef

# `make test` draws the same examples in every run, this target others each time. A failure prints
# how to repeat it, and .hypothesis keeps it for the next run.
test-random: $(VENV)/.stamp-dev ## run the property tests with random examples (not in make test)
	HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest $(PYTEST_ARGS) \
	  $$(grep -rl --include='test_*.py' '^from hypothesis' tests)

fault-tests: ## write docs/fault-tests.md from the fault marks on the tests
	$(PYTHON) tests/support/fault_audit.py

docs: fault-tests $(VENV)/.stamp-dev ## write the generated pages of docs/
	$(BIN)/python tests/support/run_file_page.py
	PYTHONPATH=tests $(BIN)/python tests/support/control_page.py

site: $(VENV)/.stamp-dev ## build the documentation site into site/, with warnings as errors
	$(BIN)/python docs/site/build.py site

$(VENV)/.stamp-run: pyproject.toml $(LOCK) bootstrap.py
	$(create_venv)
	@$(PYTHON) bootstrap.py $(VENV)
	@touch $@

# setuptools comes from the lock too, hence no build isolation: it would fetch the newest.
$(VENV)/.stamp-dev: pyproject.toml $(DEV_LOCK) | $(VENV)/.stamp-venv
	$(PIP) install -q --require-hashes --no-deps -r $(DEV_LOCK)
	$(PIP) install -q --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/lib/python3*/site-packages/macontrol-checkout.pth  # of the demo
	@touch $(VENV)/.stamp-run $@

define create_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "macontrol needs Python 3.11 or newer, and $(PYTHON) is not:" \
	    "name another with make PYTHON=python3.x" >&2; exit 1; }
	@test -d src/macontrol/config || { echo "src/macontrol/config is not a link to a folder, as git made" \
	  "no symlinks: git config core.symlinks true && git checkout -- src/macontrol" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. Debian: apt install python3-venv" >&2; exit 1; }
endef

$(VENV)/.stamp-venv:
	$(create_venv)
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(UV):
	$(create_venv)
	$(PYTHON) -m venv $(UV_VENV)
	$(UV_VENV)/bin/python -m pip --disable-pip-version-check install -q 'uv>=0.13,<0.14'

lock: $(UV) ## renew requirements.lock and requirements-dev.lock
	echo 'setuptools>=77' > $(UV_VENV)/build.in
	$(COMPILE) $(UV_VENV)/build.in $(foreach e,$(subst $(comma), ,$(EXTRAS)),--extra $(e)) \
	  -o $(UV_VENV)/dev.lock
	$(COMPILE) $(UV_VENV)/build.in --extra web -c $(UV_VENV)/dev.lock -o $(UV_VENV)/run.lock
	@{ echo "# Exact versions and hashes of what a run and the dashboard need, and of the build tool."; \
	   echo "# Do not edit: renew it with \`make lock\`."; cat $(UV_VENV)/run.lock; } > $(LOCK)
	@{ echo "# Exact versions and hashes of everything \`make test\` installs."; \
	   echo "# Do not edit: renew it with \`make lock\`."; cat $(UV_VENV)/dev.lock; } > $(DEV_LOCK)

# The tools of the extra `dev` (linters, type checker) are used in the locked version only.
test-lowest: $(UV) ## run unit and property tests with the lowest versions that pyproject.toml allows
	$(UV) venv -q --clear -p '$(PYTHON)' $(LOWEST)
	$(UV) pip install -q -p $(LOWEST)/bin/python --resolution lowest-direct 'setuptools>=77'
	$(UV) pip install -q -p $(LOWEST)/bin/python --resolution lowest-direct \
	  -e '.[plot,bench,dask,test]'
	$(UV) pip list -q -p $(LOWEST)/bin/python
	$(LOWEST)/bin/python -m pytest $(PYTEST_ARGS) tests/unit tests/property

# Best effort: tests that need a missing package skip and say so.
apt: ## install the Debian packages the tests use (as root; else says which are missing)
	@[ "$$(id -u)" = 0 ] || echo "Not root: tests that need its rights are skipped" \
	  "(SCHED_FIFO, locked memory, mounts)."
	@command -v dpkg-query >/dev/null || exit 0; \
	missing=; skipped=; \
	while read -r package hash tests; do \
	  case "$$package" in ''|'#') continue;; esac; \
	  dpkg-query -W -f '$${db:Status-Status}' "$$package" 2>/dev/null | grep -qx installed \
	    && continue; \
	  missing="$$missing $$package"; skipped="$$skipped  no $$package: $$tests\n"; \
	done < $(APT_LIST); \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing Debian packages that tests use:$$missing"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  install="apt-get install -qq -y --no-install-recommends$$missing"; \
	  $$install >/dev/null 2>&1 || { apt-get update -qq && $$install >/dev/null; } && exit 0; \
	fi; \
	echo "Debian packages are missing, and these tests are skipped without them:"; \
	printf "$$skipped"; \
	echo "To run them: sudo apt-get install$$missing"

install: install-program install-service ## install into PREFIX=/opt/macontrol, with the service

install-program:
	$(create_venv)
	@above='$(DESTDIR)$(PREFIX)'; \
	  while [ ! -e "$$above" ]; do above=$$(dirname "$$above"); done; [ -w "$$above" ] || { \
	  echo "no permission to write $$above: run sudo make install," \
	    "or install into a folder of yours with DESTDIR=" >&2; exit 1; }
	@$(PYTHON) systemd/check_paths.py '$(PREFIX)' '$(CONFDIR)'
	@test -z "$$(ls -A '$(DESTDIR)$(PREFIX)' 2>/dev/null)" \
	  || test -f '$(DESTDIR)$(PREFIX)/pyvenv.cfg' || { \
	  echo "$(DESTDIR)$(PREFIX) holds something else; name another folder with PREFIX=" >&2; \
	  exit 1; }
	@# An environment keeps the interpreter it was made from: for another it is made again.
	@base=$$($(PYTHON) -c 'import os, sys; print(os.path.realpath(sys._base_executable))'); \
	  [ "$$(readlink -f '$(DESTDIR)$(PREFIX)/bin/python')" = "$$base" ] \
	  || rm -rf '$(DESTDIR)$(PREFIX)'
	@echo "Installing into $(DESTDIR)$(PREFIX); this takes about half a minute."
	$(PYTHON) -m venv '$(DESTDIR)$(PREFIX)'
	$(INSTALL_PIP) install -q --require-hashes --no-deps -r $(LOCK)
	@# From a copy, so that the checkout gets no files of another user; and each time, as the
	@# version alone does not show whether something has changed.
	@copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT \
	  && cp -RL pyproject.toml setup.py LICENSE README.md src "$$copy" \
	  && $(INSTALL_PIP) uninstall -q -y macontrol 2>/dev/null \
	  && $(INSTALL_PIP) install -q --no-deps --no-build-isolation "$$copy"
	@# The commands must name the interpreter where it will be, not where it was put together.
	sed -i '1s|^#!.*|#!$(PREFIX)/bin/python|' '$(DESTDIR)$(PREFIX)/bin/macontrol'
	@[ -z '$(DESTDIR)' ] || grep -rlFIZ '$(DESTDIR)$(PREFIX)' '$(DESTDIR)$(PREFIX)/bin' \
	  '$(DESTDIR)$(PREFIX)/pyvenv.cfg' | xargs -0 -r sed -i 's|$(DESTDIR)$(PREFIX)|$(PREFIX)|g'
	install -d '$(DESTDIR)$(BINDIR)'
	ln -sfn '$(PREFIX)/bin/macontrol' '$(DESTDIR)$(BINDIR)/macontrol'

install-service:
	install -d '$(DESTDIR)$(UNITDIR)' '$(DESTDIR)$(UDEVDIR)' '$(DESTDIR)$(DOCDIR)' \
	  '$(DESTDIR)$(CONFDIR)'
	@for unit in $(UNITS); do \
	  sed -e 's|/opt/macontrol/|$(PREFIX)/|g' -e 's|/etc/macontrol/|$(CONFDIR)/|g' \
	    "systemd/$$unit" > '$(DESTDIR)$(UNITDIR)/'"$$unit"; \
	  chmod 644 '$(DESTDIR)$(UNITDIR)/'"$$unit"; \
	done
	install -m 644 systemd/70-macontrol.rules '$(DESTDIR)$(UDEVDIR)'
	install -m 644 systemd/README.md systemd/hardware.conf '$(DESTDIR)$(DOCDIR)'
	@sed -i 's|/usr/local/share/doc/macontrol/|$(DOCDIR)/|' '$(DESTDIR)$(DOCDIR)/README.md'
	@for file in macontrol.env example.toml; do \
	  to='$(DESTDIR)$(CONFDIR)/'"$$file"; \
	  if [ ! -e "$$to" ]; then install -m 644 "systemd/$$file" "$$to"; \
	  elif ! cmp -s "systemd/$$file" "$$to"; then \
	    install -m 644 "systemd/$$file" "$$to.new"; \
	    echo "$$to was changed and is kept; the one of this version is $$to.new"; \
	  fi; \
	done
	@[ -n '$(DESTDIR)' ] || [ ! -d /run/systemd/system ] || { systemctl daemon-reload; \
	  udevadm control --reload 2>/dev/null && udevadm trigger --subsystem-match=tty; true; }
	@echo "Start it with: systemctl enable --now macontrol (guide: $(DOCDIR)/README.md)"

uninstall: ## remove what `make install` put there; settings and recorded runs stay
	@[ -n '$(DESTDIR)' ] || [ ! -d /run/systemd/system ] || { \
	  systemctl disable --now macontrol.service macontrol-dashboard.service; \
	  systemctl stop 'macontrol@*.service'; true; }
	rm -f $(foreach unit,$(UNITS),'$(DESTDIR)$(UNITDIR)/$(unit)')
	rm -f '$(DESTDIR)$(UDEVDIR)/70-macontrol.rules' '$(DESTDIR)$(BINDIR)/macontrol'
	rm -rf '$(DESTDIR)$(DOCDIR)'
	@if [ -f '$(DESTDIR)$(PREFIX)/pyvenv.cfg' ]; then rm -rf '$(DESTDIR)$(PREFIX)'; fi
	@[ -n '$(DESTDIR)' ] || [ ! -d /run/systemd/system ] || systemctl daemon-reload
	@echo "Left as they are: $(CONFDIR) and /var/lib/macontrol"

# With Debian's own Python, which the package then depends on.
deb: ## build a Debian package in dist/, for this machine's release and architecture
	/usr/bin/python3 deb/build.py dist

deb-try: ## as root: install the package of dist/ in a new Debian root, use it, and remove it
	deb/try dist

clean: ## remove the virtual environment, build products and caches
	rm -rf $(VENV) $(UV_VENV) $(LOWEST) build dist site src/*.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find config controller hal sim src tests -name __pycache__ -type d -prune -exec rm -rf {} +
