# Everything runs in this project's own virtual environment, made on first use; nothing is installed outside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Idle OpenMP threads should sleep, not spin: see src/recveil/__init__.py.
export OMP_WAIT_POLICY ?= PASSIVE
# Modules are compiled when they are first imported, not all 16,000 of them at the installation; Python may keep them.
export PYTHONDONTWRITEBYTECODE :=
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-slow campaign docs docs-links pictures lint types security speed check audit-dependencies wheel wheel-test install-test format bench clean

help: ## Print the targets
	@echo "make <target>, where the target is one of:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -e '.[dev]'
	@touch $@

install: $(READY) ## Make the virtual environment and install recveil into it, ready to develop

demo: $(READY) ## Attack, defend and report on an embedded world; writes recveil-demo/report.html
	$(BIN)/recveil demo --out recveil-demo

test: $(READY) ## Run the fast tests, under three minutes on two cores
	$(BIN)/python -m pytest -n auto -m 'not slow and not thorough'

test-all: $(READY)
	$(BIN)/python -m pytest -n auto -m 'not slow'

SLOW_READY := $(VENV)/.slow-ready
$(SLOW_READY): $(READY)
	$(PIP_INSTALL) -e '.[test-slow]'
	@touch $@

test-slow: $(SLOW_READY) ## Run the slow tests, with the packages that only they need
	$(BIN)/python -m pytest -n auto -m slow

campaign: $(READY) ## Break inputs, kill commands and take away memory and disk, and judge what happens (an hour)
	PYTHONPATH=tests $(BIN)/python -m campaign.run --scale $(or $(SCALE),1) --workers $(or $(WORKERS),1)

docs: $(READY) ## Build the documentation, run what its tutorials show, and treat every warning as an error
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo "make docs: docs/_build/html/index.html"

pictures: $(READY) ## Draw the pictures of the README and of the documentation again (a minute)
	OMP_NUM_THREADS=1 $(BIN)/python docs/_tools/draw_pictures.py

docs-links: $(READY) ## Look up every outside link of the documentation; needs the network
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --quiet -D run_blocks=0 -b linkcheck docs docs/_build/links

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

security: $(READY)
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml src

speed: $(READY) ## Compare the CPU time of five hot paths with a committed reference
	$(BIN)/python benchmarks/guard.py

check: lint types security speed test-all ## All that CI runs: style, types, security, speed, fast and thorough tests
	@echo "make check: all good"

RELEASE_READY := $(VENV)/.release-ready
$(RELEASE_READY): $(READY)
	$(PIP_INSTALL) -e '.[release]'
	@touch $@

audit-dependencies: $(RELEASE_READY) ## Look up known vulnerabilities of the dependencies; needs the network
	$(BIN)/python tools/audit_dependencies.py

wheel: $(RELEASE_READY) ## Build the wheel, with its bill of materials (CycloneDX) beside it
	rm -rf dist
	$(BIN)/python -m build --wheel
	$(BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-format JSON \
	  --output-file "$$(ls dist/*.whl | sed 's/.whl$$/.cdx.json/')"

WHEEL := $(CURDIR)/.wheel
wheel-test: $(READY) ## Run the fast and thorough tests against the content of the wheel, as CI does
	rm -rf $(WHEEL)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(WHEEL) .
	$(BIN)/python -m zipfile -e $(WHEEL)/*.whl $(WHEEL)/site
	PYTHONPATH=$(WHEEL)/site RECVEIL_WHEEL=$(WHEEL)/site $(MAKE) test-all
	rm -rf $(WHEEL)

install-test: ## Install into a fresh environment, without extras, and run the first commands there (minutes)
	rm -rf .venv-install
	$(PYTHON) -m venv .venv-install
	.venv-install/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt .
	.venv-install/bin/python tools/check_install.py
	rm -rf .venv-install

format: $(READY) ## Put the code into the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## Run the benchmarks and write their tables to bench.md (hours; RECVEIL_DATA holds ml-1m)
	$(BIN)/python benchmarks/page.py --out bench.md

clean: ## Remove the virtual environment and what the tools left behind
	rm -rf $(VENV) recveil-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build
