# Each target installs what it needs, so they work from a clean clone in any order.
# ARGS is passed on:  make run ARGS="--config configs/mrpc_minilm.yaml"
# PYTHON picks the Python of a new .venv:  make install PYTHON=/path/to/python3.11
# STACK sets the versions (default: the newest that run here):  make install STACK=1.16

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# A caller's PYTHONPATH would shadow what the lock pins.
unexport PYTHONPATH PYTHONHOME
# Without bytecode each process compiles our modules, and each pytest worker its tests.
unexport PYTHONDONTWRITEBYTECODE

PY := .venv/bin/python
INSTALLED := .venv/.installed
ARGS ?=

# One worker per core of the smallest machine: each takes up to 6 GB.
# The tests of a file, and those of tests/e2e/finished_run and of tests/serving, run in one
# worker, so that they share fixtures; tests/conftest.py orders the files.
WORKERS := --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: help install run tensorboard test test-fast test-all test-faults test-newest \
  test-newest-fast baseline baseline-newest coverage fuzz audit bench bench-gpu lint types \
  format docs docs-serve lock runtime image runtime-image push-image check-image \
  clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

install: $(INSTALLED)  ## create .venv from the lock of a stack, unless it is up to date

# A change of the stack reinstalls .venv.
STACK ?=
ifneq ($(STACK),)
ifneq ($(STACK),$(shell cat $(INSTALLED) 2>/dev/null))
.PHONY: $(INSTALLED)
endif
endif

$(INSTALLED): stacks/stacks.txt $(wildcard stacks/*/requirements.lock) setup.py deploy/runtime/setup.py \
  tools/install.sh
	@STACK="$(STACK)" bash tools/install.sh

run: $(INSTALLED)  ## run the pipeline; ARGS="..." goes to `pipeline run`
	@$(PY) -m pipeline run $(ARGS)

tensorboard: $(INSTALLED)  ## show all trainings under output/; ARGS="--logdir DIR" for others
	@$(PY) -m tensorboard.main --logdir output $(ARGS)

test: $(INSTALLED)  ## the test suite without the nightly tests
	@$(PY) -m pytest -m "not nightly" $(WORKERS) $(ARGS)

test-fast: $(INSTALLED)  ## the tests that need no pipeline, training, export or Beam
	@$(PY) -m pytest -m "not e2e and not slow and not nightly" $(WORKERS) $(ARGS)

# In two parts: TensorFlow keeps the functions of each run of a process, up to 8 GB after
# the nightly ones, and Flink's clusters need the rest of 24 GB.
test-all: $(INSTALLED)  ## the whole test suite, nightly tests included
	@status=0; for part in "nightly and e2e" "not (nightly and e2e)"; do \
	  $(PY) -m pytest -m "($$part) and not faults" $(WORKERS) $(ARGS) || \
	    { code=$$?; [ $$code = 5 ] || status=$$code; }; \
	done; exit $$status  # 5: ARGS selects no test of this part

test-faults: $(INSTALLED)  ## the longest tests of faults and load (an hour), alone on the machine
	@$(PY) -m pytest -m faults $(ARGS)

# atheris is in an environment of its own, .venv-fuzz. Inputs of earlier runs are kept.
FUZZ_SECONDS ?= 60
FUZZ_CORPUS ?= fuzz-corpus
fuzz: $(INSTALLED)  ## fuzz the readers and the server's parsers; FUZZ_SECONDS=60 for each, ARGS="csv http"
	@bash tools/fuzz/fuzz.sh $(FUZZ_SECONDS) "$(FUZZ_CORPUS)" $(ARGS)

coverage: $(INSTALLED)  ## branch coverage of `make test`; fails below the floor in pyproject.toml
	@$(PY) -m pytest -m "not nightly" $(WORKERS) --cov --cov-report term $(ARGS)

test-newest test-newest-fast: export ARGS := $(ARGS)
test-newest:  ## install, test and run the newest stack on Debian 13; needs root, debootstrap
	@bash tools/newest.sh test

test-newest-fast:  ## the same with the fast tests and the sample only
	@bash tools/newest.sh test-fast

# The recordings stay in build/baseline, or build/baseline-newest.
BASE ?=
baseline baseline-newest: .base

.PHONY: .base
.base:
	@git rev-parse --quiet --verify "$(BASE)^{commit}" >/dev/null || { \
	  echo "$(firstword $(MAKECMDGOALS)): BASE is '$(BASE)'; name the commit to compare" \
	  "with: make $(firstword $(MAKECMDGOALS)) BASE=COMMIT" >&2; exit 2; }

baseline: $(INSTALLED)  ## compare the results of this tree with those of a commit: BASE=COMMIT
	@tree=$$(mktemp -d); trap 'rm -rf "$$tree"' EXIT; \
	git archive "$(BASE)" | tar --extract --directory "$$tree"; \
	rm -rf build/baseline; \
	$(PY) -m tools.baseline record "$$tree" build/baseline/before; \
	$(PY) -m tools.baseline record . build/baseline/after; \
	$(PY) -m tools.baseline compare build/baseline/before build/baseline/after

baseline-newest:  ## the same on the newest stack on Debian 13; needs root, debootstrap
	@BASE="$(BASE)" bash tools/newest.sh baseline

# The first benchmark that needs the peers' environment, .venv-peers (5 GB), creates it.
bench: run  ## short benchmarks on the sample's pairs; see benchmarks/README.md
	@$(PY) -m benchmarks.training --short
	@$(PY) -m benchmarks.first_step output/sample --config configs/sample.yaml --short
	@$(PY) -m benchmarks.pipeline_cost
	@$(PY) -m benchmarks.serving --model output/sample/serving/sample --short
	@$(PY) -m benchmarks.serving_load --model output/sample/serving/sample --short
	@$(PY) -m benchmarks.runtime --model output/sample/serving/sample --short
	@$(PY) -m benchmarks.version_change --model output/sample/serving/sample --short

# TensorFlow's CUDA libraries (4 GB) are added to .venv, after the check for a GPU.
bench-gpu: $(INSTALLED)  ## benchmark of training on this machine's GPU, with Transformers
	@nvidia-smi >/dev/null 2>&1 || exec $(PY) -m benchmarks.gpu
	@.venv/bin/uv pip install --quiet --python $(PY) --no-deps --require-hashes \
	  --requirement stacks/$$(cat $(INSTALLED))/gpu.lock
	@$(PY) -m benchmarks.gpu $(ARGS)

lint: $(INSTALLED)  ## style and imports: ruff check, ruff format --check, lint-imports, hadolint
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@.venv/bin/lint-imports
	@.venv/bin/hadolint Dockerfile deploy/runtime/Dockerfile

types: $(INSTALLED)  ## types: mypy
	@$(PY) -m mypy

format: $(INSTALLED)  ## fix style: ruff check --fix, ruff format
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

audit: $(INSTALLED)  ## known vulnerabilities of all locks; needs api.osv.dev, or ARGS="--database MIRROR"
	@$(PY) -m tools.audit $(ARGS)

# Without a warning, and without a request to another host when it is read.
MERMAID := 11.16.0
.venv-docs/.installed: tools/docs/requirements.lock | $(INSTALLED)
	@.venv/bin/uv venv --quiet --clear --python $(PY) .venv-docs
	@.venv/bin/uv pip sync --quiet --require-hashes --compile-bytecode \
	  --python .venv-docs/bin/python tools/docs/requirements.lock
	@touch $@

build/mermaid/mermaid.min.js: tools/docs/mermaid.sha256
	@command -v npm >/dev/null || { echo "docs: there is no \`npm\` on the PATH: install" \
	  "it; the site's graphs need the package mermaid" >&2; exit 2; }
	@mkdir -p $(@D)
	@npm pack --silent --pack-destination $(@D) mermaid@$(MERMAID) >/dev/null
	@tar --extract --gzip --strip-components 2 --directory $(@D) --touch \
	  --file $(@D)/mermaid-$(MERMAID).tgz package/dist/mermaid.min.js
	@sha256sum --quiet --check $<

DOCS := NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs
docs: .venv-docs/.installed build/mermaid/mermaid.min.js  ## build the site from docs/ in build/site
	@$(DOCS) build --strict $(ARGS)

docs-serve: .venv-docs/.installed build/mermaid/mermaid.min.js  ## show the site at port 8000, rebuilt at each edit
	@$(DOCS) serve $(ARGS)

# Versions that still fit stay; ARGS=--upgrade upgrades all.
lock: $(INSTALLED)  ## compile all .lock files from their .in files; prints what changed
	@bash tools/lock.sh $(ARGS)

# Needs no .venv: a Python with pip, which fetches setuptools.
PYTHON ?= python3
runtime:  ## build the wheel bert-pipeline-runtime in dist/
	@rm -f dist/bert_pipeline_runtime-*.whl
	@$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps \
	  --wheel-dir dist ./deploy/runtime

# The commit in the image's label `revision` and in `bert-pipeline --version`.
REVISION = $(shell git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null || echo unknown)
IMAGE ?=
ACCELERATOR ?= cpu
USER_ID ?= 1000

image: .image-settings  ## build the container image: IMAGE=registry/name:tag, ACCELERATOR=gpu
	@DOCKER_BUILDKIT=1 docker build --tag "$(IMAGE)" $(ARGS) \
	  --build-arg ACCELERATOR=$(ACCELERATOR) --build-arg USER_ID=$(USER_ID) \
	  --build-arg REVISION=$(REVISION) .

runtime-image: .image-settings runtime  ## build the image of the runtime: IMAGE=registry/name:tag
	@DOCKER_BUILDKIT=1 docker build --file deploy/runtime/Dockerfile --tag "$(IMAGE)" \
	  $(ARGS) --build-arg REVISION=$(REVISION) .

push-image: .image-settings  ## push the image: IMAGE=registry/name:tag
	@docker push "$(IMAGE)"

.PHONY: .image-settings
.image-settings:
	@[[ -n "$(IMAGE)" ]] || { echo "$(firstword $(MAKECMDGOALS)): IMAGE is not set; name" \
	  "the image: make $(firstword $(MAKECMDGOALS)) IMAGE=registry/name:tag" >&2; exit 2; }
	@[[ "$(ACCELERATOR)" =~ ^(cpu|gpu)$$ ]] || { echo "image: ACCELERATOR is" \
	  "'$(ACCELERATOR)'; it must be cpu or gpu" >&2; exit 2; }
	@docker info >/dev/null 2>&1 || { echo "image: \`docker info\` fails:" \
	  "start a container engine, or point DOCKER_HOST to one; \`make check-image\`" \
	  "needs none" >&2; exit 2; }

check-image: $(INSTALLED)  ## check an image without a container engine; ARGS="--runtime EXPORTED_DIR"
	@$(PY) -m tools.check_image $(ARGS)

# Beam's Prism, a job service that needs no cluster, for tests only.
PRISM := .venv/bin/prism
.PHONY: prism
prism: $(INSTALLED)  ## build Beam's Prism, which tests of portable Beam run on; needs Go
	@command -v go >/dev/null || { echo "prism: there is no \`go\` on the PATH: install" \
	  "Go 1.26 or later; without it, the tests that need Prism skip" >&2; exit 2; }
	@go build -C tools/prism -mod=readonly -o "$(CURDIR)/$(PRISM)" \
	  github.com/apache/beam/sdks/v2/go/cmd/prism

# Needs no .venv. Without the job servers, tests of Flink and Spark skip.
.PHONY: job-servers
job-servers:  ## assemble Beam's job servers for Flink and Spark; needs Maven, a JDK
	@bash tools/job_servers.sh build/job-servers

clean:  ## remove .venv, caches and builds; keeps output/
	@rm -rf .venv .venv-docs .venv-fuzz .venv-peers build dist *.egg-info .pytest_cache \
	  .mypy_cache .ruff_cache \
	  .import_linter_cache .coverage .coverage.*
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
