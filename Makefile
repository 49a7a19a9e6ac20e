# make demo: install, then the whole story on the built-in set.   make test: install, then lint, types and tests.
# make quick: install, then the tests that take no more than a few seconds each.
# make test-latest: all tests with the newest Python on this machine and the newest version of everything.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --no-input
OUT ?= demo
.PHONY: demo test test-latest quick chromium lint bench install clean

demo: $(VENV)/.run
	$(BIN)/earsight demo --out $(OUT) --force

test: lint chromium
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# The newest version is worth an environment of its own; it is brought up to date each time.
LATEST ?= $(shell ls $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.*/bin/python3 /usr/local/bin/python3 /usr/bin/python3 2>/dev/null \
  | while read one; do echo "$$($$one -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])') $$one"; done \
  | sort -V | tail -n 1 | cut -d " " -f 2)

test-latest: chromium
	$(LATEST) -m venv $(VENV)-latest
	$(VENV)-latest/bin/pip --disable-pip-version-check --no-input install -q --upgrade --upgrade-strategy eager -e ".[dev]"
	$(VENV)-latest/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

# The web page's tests drive Debian's Chromium; where it cannot be had they are skipped and say so.
chromium:
	@command -v chromium >/dev/null || { apt-get update -q && apt-get install -q -y chromium; } || echo "no Chromium: tests in a browser are skipped"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

install: $(VENV)/.run

# Debian keeps venv in a package of its own; it is installed only where it is missing.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "earsight needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { apt-get update -q && apt-get install -q -y python3-venv; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -q -c constraints.txt -e ".[train]"
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -q -c constraints.txt -e ".[dev]"
	@touch $@ $(VENV)/.run

clean:
	rm -rf $(VENV) $(VENV)-latest build dist .mypy_cache .pytest_cache .ruff_cache
