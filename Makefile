# Everything a person or CI runs. `make` alone lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV_COMPILE = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url

# What only the second client of the package kubernetes needs, that for asyncio, which nothing here imports: it is in no image.
UNUSED := aiohappyeyeballs aiohttp aiohttp-retry aiosignal attrs frozenlist multidict propcache yarl

# The code that decides about evictions: every branch has a test, among those of the same folders. Coverage makes these
# tests three times as slow, so that CI alone asks for it.
CORE := planning tracking admission scheduling creation
CORE_TESTS := $(CORE:%=tests/%) tests/facts tests/known_states
COVER := $(CORE:%=--cov=rebalancer/%) --cov-report=

# The older releases of Kubernetes that the tests on a real control plane can run on, see tools/control-plane.
OLDER := $(sort $(patsubst tools/control-plane/kubernetes-%/go.mod,%,$(wildcard tools/control-plane/kubernetes-*/go.mod)))

# Some tests wait, for a process or a time: three workers keep two cores busy. Who has no tests left takes some of another's.
CORES := $(shell nproc 2>/dev/null || echo 2)
UNIT = $(BIN)/python -m pytest -n $(shell expr \( $(CORES) \* 3 + 1 \) / 2) --dist worksteal -m "not cluster and not image and not thorough"

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# The lock is complete: pip need not look what else is needed, and some versions of it find a release there that is newer than
# the locked one, and refuse it.
$(VENV)/.installed: requirements-dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: install
install: $(VENV)/.installed ## Make the virtual environment with everything pinned

.PHONY: demo
demo: install ## Show the repair after a lost zone comes back, on the simulated cluster
	$(BIN)/rebalancer demo

# What is checked by one process each: two at a time, each one's output whole.
LINTS := lint-rules lint-types lint-layers lint-files site

.PHONY: lint
lint: install ## Format and lint rules, types, layers, Dockerfile, workflows, the site of the documents
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target $(LINTS)

.PHONY: lint-rules
lint-rules: install ## Format and rules alone
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

.PHONY: lint-types
lint-types: install ## Types alone
	$(BIN)/mypy

.PHONY: lint-layers
lint-layers: install ## Layers alone
	$(BIN)/lint-imports

.PHONY: lint-files
lint-files: install ## Dockerfile and workflows alone
	$(BIN)/hadolint Dockerfile
	$(BIN)/zizmor --offline --quiet --persona=pedantic .github

.PHONY: format
format: install ## Put the sources into their format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: test
test: install ## What everybody runs: lint, and all tests that start no server (README says how long it takes)
	@$(BIN)/python -m tests.parts unit
	@$(MAKE) --no-print-directory lint
	$(UNIT)

.PHONY: coverage
coverage: install ## Every branch of the code that decides about evictions, by the tests of the same folders (CI)
	$(UNIT) $(CORE_TESTS) $(COVER)
	$(BIN)/coverage report --skip-covered --fail-under=100

.PHONY: parts
parts: install ## Show what this machine lacks for the tests of all lanes; with CI=true an error
	@$(BIN)/python -m tests.parts unit cluster image

.PHONY: control-plane
control-plane: install ## Build the programs that tests start: Kubernetes servers and others (Go; 10 minutes, once)
	$(BIN)/python -m tests.control_plane.build

# Most of these tests wait for servers: three at once keep two cores busy, and with four some of them time out by chance.
.PHONY: cluster
cluster: control-plane ## Tests on a real control plane: the invariants (docs/design.md); the others are thorough
	$(BIN)/python -m pytest -n $(shell expr \( $(CORES) \* 3 + 1 \) / 2) -m "cluster and not thorough"

.PHONY: image
image: install ## Build the image on stand-ins of its bases, and tests of it (root, buildah, podman, runc, mmdebstrap; minutes)
	$(BIN)/python -m pytest tests/image -m "image and not thorough"

.PHONY: docs
docs: install ## Regenerate the generated parts of docs/ and the schemas of the documents in config/
	$(BIN)/python -m tools.reference

.PHONY: site
site: install ## Build the site of the documents into build/site; a missing link or heading is an error
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --fresh-env --conf-dir tools/site . build/site
	@echo "The site: build/site/index.html"

.PHONY: pictures
pictures: install ## Take the pictures of the status page in docs/pictures (a real control plane and chromium, minutes)
	mkdir -p docs/pictures
	REBALANCER_PICTURES=docs/pictures $(BIN)/python -m pytest -m "cluster or thorough" tests/cluster/test_pictures.py tests/cluster/test_status_page.py

.PHONY: recordings
recordings: install ## Record in tmux what each command shows in a terminal (docs/recordings, minutes)
	$(BIN)/python -m tests.cli.recording

.PHONY: install-manifest
install-manifest: install ## Write deploy/install.yaml, which is deploy/base in one file
	$(BIN)/python -m tools.install_manifest

.PHONY: krew
krew: install ## Write the archive and the manifest of kubectl's plugin for krew into dist
	$(BIN)/python -m tools.krew dist

.PHONY: sbom
sbom: install ## Write sbom.json: the packages that the image contains, with hashes (CycloneDX)
	$(BIN)/python -m tools.sbom sbom.json

.PHONY: thorough
thorough: control-plane ## The long checks; docs/results.md has the last results. One folder: pytest -m thorough FOLDER
	$(BIN)/python -m pytest -m "thorough and not nightly" -s
	$(MAKE) --no-print-directory nightly
	$(MAKE) --no-print-directory drawn
	$(MAKE) --no-print-directory ranges
	$(MAKE) --no-print-directory older-kubernetes
	$(MAKE) --no-print-directory mutation

.PHONY: nightly
nightly: control-plane ## All other tests on a real control plane that take no minutes each
	$(BIN)/python -m pytest -n $(shell expr $(CORES) \* 2) -m nightly

.PHONY: drawn
drawn: install ## The tests without servers, with ten times as many drawn examples as in CI
	$(UNIT) --hypothesis-profile=thorough

.PHONY: older-kubernetes
older-kubernetes: install ## Tests on a real control plane of each older Kubernetes, and 300 clusters of the scheduler's model (an hour)
	@for release in $(OLDER); do \
	  echo "Kubernetes $$release"; \
	  export REBALANCER_KUBERNETES=$$release; \
	  $(BIN)/python -m tests.control_plane.build && \
	  $(BIN)/python -m pytest -n 2 -m "cluster and (nightly or not thorough)" && \
	  $(BIN)/python -m pytest -s -m thorough tests/cluster/test_fidelity.py || exit 1; \
	done

.PHONY: ranges
ranges: install ## Install the oldest and the newest releases that the dependencies' ranges allow, on each Python here, and test
	$(BIN)/python -m tools.ranges

.PHONY: mutation
mutation: install ## Change the code that decides about evictions in a hundred places, one at a time, and report what no test notices
	$(BIN)/python -m tools.mutation

.PHONY: comparison
comparison: install ## Compare with the descheduler on the same states (builds it once, then minutes)
	$(BIN)/python -m benchmarks.comparison

.PHONY: benchmark-guard
benchmark-guard: install ## Compare the time and memory of a whole plan of 150,000 pods with what is stored (minutes, 3 GB of disk)
	$(BIN)/python -m benchmarks.guard

.PHONY: profile
profile: install ## Show where the time and memory of a plan and a report go, on a recorded API server of 30,000 pods
	$(BIN)/python -m benchmarks.phases --functions 25

.PHONY: benchmarks
benchmarks: install ## Print the figures of docs/results.md (the descheduler is built once; an hour, 10 GB of disk)
	$(BIN)/python -m benchmarks.whole --size 1k --peer
	$(BIN)/python -m benchmarks.whole --size 5k --peer
	$(BIN)/python -m benchmarks.phases --growth docs/pictures/growth.svg
	$(BIN)/python -m benchmarks.cycles --far
	$(BIN)/python -m benchmarks.peer_planning --size 5k
	$(BIN)/python -m benchmarks.divided
	$(BIN)/python -m benchmarks.steady
	$(BIN)/python -m benchmarks.execution
	$(BIN)/python -m benchmarks.large_execution

.PHONY: scale-downs
scale-downs: install ## Scale down on a real control plane with and without prevention (minutes)
	$(BIN)/python -m benchmarks.scale_downs

.PHONY: lock
lock: install ## Compile the lock files from pyproject.toml
	$(UV_COMPILE) $(UNUSED:%=--no-emit-package %) pyproject.toml -o requirements.lock
	$(UV_COMPILE) --group build -o requirements-build.lock
	$(UV_COMPILE) pyproject.toml --group dev -o requirements-dev.lock

.PHONY: clean
clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) dist build sbom.json .mypy_cache .ruff_cache .pytest_cache .hypothesis
