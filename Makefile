# Everything runs in .venv, made from requirements.lock. PYTHON is any Python from 3.11 on that has venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

SNAPSHOT ?= optsched/examples/philly-busy.json.gz
BUDGET   ?= 30

SEEDS    ?= 200
FROM     ?= 0

FOLDER   ?= .benchmarks/service

.PHONY: help run plan test soak lint bench bench-service proto lock clean

help:
	@echo "make run    plan a busy real cluster, then run one on this machine for a minute: gangs, a preemption, a lost agent"
	@echo "make plan   only plan a round of the busy real cluster (SNAPSHOT=... for your own)"
	@echo "make test   run the tests"
	@echo "make soak   drive the engine through SEEDS=200 pairs of random worlds (FROM=0): about an hour"
	@echo "make lint   style, types, layers"
	@echo "make bench  time the benchmark rounds"
	@echo "make bench-service  load the service: submits, a long queue, 1,250 agents, kills; half an hour"
	@echo "make proto  generate code from the contract in service/proto"
	@echo "make lock   resolve the dependencies anew into requirements.lock"

# A second call finds the stamp newer than what it was made from, and does nothing.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "optsched needs Python 3.11 or later: make PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: plan
	@echo
	$(BIN)/optsched demo

plan: $(READY)
	$(BIN)/optsched plan $(SNAPSHOT) --budget $(BUDGET)

test: $(READY)
	$(BIN)/python -m pytest -n 2 $(TESTS)

soak: $(READY)
	SOAK_FROM=$(FROM) SOAK_SEEDS=$(SEEDS) $(BIN)/python -m pytest -n 2 tests/engine/test_chaos.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m pytest benchmarks -p no:xdist --benchmark-only

# FOLDER is on the disk to measure; each scenario has a new store in it.
bench-service: $(READY)
	for each in submit queue agents chaos; do \
	    rm -rf $(FOLDER)/$$each; $(BIN)/python -m benchmarks.service_load $$each $(FOLDER)/$$each || exit 1; done

proto: $(READY)
	$(BIN)/python service/generate.py

lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.5,<1"
	$(VENV)-lock/bin/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --extra dev --no-header \
	    --no-emit-index-url --no-emit-find-links --output-file requirements.lock pyproject.toml
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) $(VENV)-lock build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .benchmarks
