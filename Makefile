# Everything runs in this project's own virtual environment, made on first use; nothing is installed outside it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Idle OpenMP threads should sleep, not spin: see src/recveil/__init__.py.
export OMP_WAIT_POLICY ?= PASSIVE
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all test-slow campaign docs docs-links pictures lint types security check audit-dependencies wheel wheel-test install-test format bench clean

help: ## Print the targets
	@echo "make <target>, where the target is one of:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

install: $(READY) ## Make the virtual environment and install recveil into it, ready to develop

demo: $(READY) ## Attack, defend and report on an embedded world; writes recveil-demo/report.html
	$(BIN)/recveil demo --out recveil-demo

test: $(READY) ## Run the fast tests, under three minutes on two cores
	$(BIN)/python -m pytest -n auto -m 'not slow and not thorough'

test-all: $(READY)
	$(BIN)/python -m pytest -n auto -m 'not slow'

test-slow: $(READY) ## Run the slow tests
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

check: lint types security test-all ## All that CI runs: style, types, security, fast and thorough tests
	@echo "make check: all good"

RELEASE_READY := $(VENV)/.release-ready
$(RELEASE_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	@touch $@

audit-dependencies: $(RELEASE_READY) ## Look up known vulnerabilities of the dependencies; needs the network
	$(BIN)/python tools/audit_dependencies.py

wheel: $(RELEASE_READY) ## Build the wheel, with its bill of materials (CycloneDX) beside it
	rm -rf dist
	$(BIN)/python -m build --wheel
	$(BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-format JSON \
	  --output-file "$$(ls dist/*.whl | sed 's/.whl$$/.cdx.json/')"

wheel-test: $(READY) ## Build the wheel and run the tests of the commands and of the door against its content
	rm -rf .wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir .wheel .
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target .wheel/site .wheel/*.whl
	PYTHONPATH=.wheel/site $(BIN)/python -c "import recveil; assert '.wheel/site' in recveil.__file__, recveil.__file__"
	PYTHONPATH=.wheel/site $(BIN)/python -m pytest -q -n auto -m 'not slow and not thorough' tests/cli tests/test_door.py
	rm -rf .wheel

install-test: ## Install into a fresh environment, without extras, and run the first commands there (minutes)
	rm -rf .venv-install
	$(PYTHON) -m venv .venv-install
	.venv-install/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt .
	.venv-install/bin/python tools/check_install.py
	rm -rf .venv-install

format: $(READY) ## Put the code into the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## Run the benchmarks; each prints ratios measured in one run
	@for name in ranking training audit attrcloak; do echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

clean: ## Remove the virtual environment and what the tools left behind
	rm -rf $(VENV) recveil-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build
