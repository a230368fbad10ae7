# The one entrance. Each target sets up what it needs and says what it is doing.
PYTHON ?= python3
VENV   := .venv
# KUBE_VERSION=1.33 runs what needs real clusters on that minor version of Kubernetes.
export HANSE_KUBERNETES := $(KUBE_VERSION)
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install up test lint types layers format clean lock kube-binaries test-real test-nodes test-search test-latency search soak mutants bench reference rights sbom image faults

help: ## what can be done here
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

install: $(STAMP) ## a .venv with the hanse command

$(STAMP): pyproject.toml requirements.lock
	@echo "==> installing into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
	@echo "==> installed: $$($(BIN)/hanse version 2>/dev/null || echo hanse)"

COMPILE := $(BIN)/uv pip compile --quiet --universal --no-header --generate-hashes --no-emit-index-url pyproject.toml

lock: ## resolve dependencies anew into the lock files; UPGRADE=PACKAGE changes one alone
	@test -x $(BIN)/uv || { $(PYTHON) -m venv $(VENV) && $(BIN)/pip install --quiet uv; }
	@$(COMPILE) $(if $(UPGRADE),--upgrade-package $(UPGRADE),--upgrade) --group dev --group build -o requirements.lock
	@$(COMPILE) -c requirements.lock -o requirements-runtime.lock

sbom: install ## dist/hanse.cdx.json: what the image is made of (CycloneDX)
	@mkdir -p dist && $(BIN)/python -m tools.sbom >dist/hanse.cdx.json
	@echo "==> dist/hanse.cdx.json"

image: install ## dist/hanse-image.tar: the image of the Dockerfile, without a daemon (Debian, mmdebstrap)
	@$(BIN)/python -m tools.image

up: install ## a whole federation on this machine
	@$(BIN)/hanse up

lint: install
	@echo "==> lint"; $(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet .

format: install ## put the code into its one format
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

types: install
	@echo "==> types"; $(BIN)/mypy --no-error-summary

layers: install
	@echo "==> layers"; $(BIN)/lint-imports --no-cache >.import-lint.log 2>&1 || { cat .import-lint.log; exit 1; }

test: lint ## everything that needs no Go; types and layers are checked beside the tests
	@{ $(BIN)/mypy --no-error-summary && $(BIN)/lint-imports --no-cache; } >.checks.log 2>&1 & checks=$$!; \
		echo "==> types, layers and tests"; PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n auto --dist worksteal; tests=$$?; \
		wait $$checks || { cat .checks.log; exit 1; }; exit $$tests

faults: install ## every fault: told alike by all presentations, mended as printed; the page for all eyes
	@echo "==> faults"; HANSE_FAULTS=1 $(BIN)/pytest -n0 tests/cli/test_faults.py tests/cli/test_avi_faults.py tests/cli/test_membership_faults.py \
		tests/cli/test_server_faults.py tests/cli/test_publishing_faults.py tests/web/dashboard/test_page.py tests/web/dashboard/test_large_fleet.py

kube-binaries: install ## find or build real Kubernetes, etcd, kwok and CoreDNS
	@echo "==> programs of real clusters"; $(BIN)/python -m hanse.local.real.build

test-real: kube-binaries ## the scenarios and more on real clusters
	@echo "==> tests and scenarios on real clusters, on two fleets at once"
	@$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart=0 \
		-m real --engine kubernetes --rights tests/real tests/scenarios

rights: install ## the rights that agents are given in their own clusters, and which of them scenarios use
	@$(BIN)/pytest -q -n auto --dist loadfile --rights tests/scenarios

test-nodes: kube-binaries ## packets between containers on real nodes; root on Linux, with containerd
	@echo "==> packet tests on real nodes"
	@$(BIN)/pytest -n0 -m nodes tests/nodes

test-search: install ## COUNT=2000 fixed schedules of users and faults on all cores, most with lags of watches: does every law hold?
	@echo "==> schedules of users and faults, the same in every run"
	@$(BIN)/python -m tests.support.simulator --seed 60000 --count $(or $(COUNT),2000) --jobs $(shell nproc)

test-latency: install ## the scenarios on embedded clusters with random latencies of SEED=1, the same in every run
	@echo "==> scenarios with latencies"
	@$(BIN)/pytest -q -n auto --dist loadfile --latency $(or $(SEED),1) tests/scenarios

search: install ## fresh schedules of users and faults for HOURS=1, or COUNT=2000 on all cores; HANSE_SEED=N repeats them
	@echo "==> searching for a schedule that breaks a law"
	@$(BIN)/python -m tests.support.simulator --keep-going $(if $(HANSE_SEED),--seed $(HANSE_SEED)) \
		$(if $(COUNT),--count $(COUNT) --jobs $(shell nproc),--hours $(or $(HOURS),1))

soak: kube-binaries ## MINUTES=60 of churn on real clusters: does anything grow? Writes docs/soak.md
	@$(BIN)/python -m bench.soak --minutes $(or $(MINUTES),60) --page docs/soak.md

mutants: install ## plant faults in copies of the source: do laws and tests notice them?
	@$(BIN)/python -m tests.mutants $(MUTANTS)

reference: install ## write the generated documents and manifests of docs anew from the source
	@$(BIN)/python -m tools.reference >docs/reference.md
	@$(BIN)/python -m tools.write_rules >docs/write-rules.md
	@$(BIN)/python -m tools.findings >docs/findings.md
	@$(BIN)/python -m tests.cli.test_federation

bench: install ## measure against limits and peers
	@$(BIN)/python -m bench

clean: ## remove what was built here
	@rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import-lint.log .checks.log
