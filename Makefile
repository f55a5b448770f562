# Each target installs what it needs, so they work from a clean clone in any order.
# ARGS is handed on:  make run ARGS="--config configs/mrpc_minilm.yaml"
# PYTHON picks the Python of a new .venv:  make install PYTHON=/path/to/python3.11
# STACK picks the versions, else the newest that run here:  make install STACK=1.16

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# A caller's PYTHONPATH would shadow what the lock pins.
unexport PYTHONPATH PYTHONHOME

PY := .venv/bin/python
INSTALLED := .venv/.installed
ARGS ?=

# Two, not one for each core: a whole pipeline takes 3 GB. A file stays with one worker,
# which its fixtures are shared in; the files' order is that of tests/conftest.py.
WORKERS := --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: help install run tensorboard test test-fast test-newest bench bench-newest lint \
  types format lock image push-image check-image clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

install: $(INSTALLED)  ## make .venv from the lock of a stack; nothing to do if it is there

# Another stack than the installed one is asked for: that is as good as nothing installed.
STACK ?=
ifneq ($(STACK),)
ifneq ($(STACK),$(shell cat $(INSTALLED) 2>/dev/null))
.PHONY: $(INSTALLED)
endif
endif

$(INSTALLED): stacks/stacks.txt $(wildcard stacks/*/requirements.lock) setup.py tools/install.sh
	@STACK="$(STACK)" bash tools/install.sh

run: $(INSTALLED)  ## run the pipeline; ARGS="..." goes to `pipeline run`
	@$(PY) -m pipeline run $(ARGS)

tensorboard: $(INSTALLED)  ## show all trainings under output/; ARGS="--logdir DIR" for others
	@$(PY) -m tensorboard.main --logdir output $(ARGS)

test: $(INSTALLED)  ## the whole test suite
	@$(PY) -m pytest $(WORKERS) $(ARGS)

test-fast: $(INSTALLED)  ## the test suite without whole pipelines
	@$(PY) -m pytest -m "not e2e" $(WORKERS) $(ARGS)

test-newest bench-newest: export ARGS := $(ARGS)
test-newest:  ## install, test and run the newest stack on a Debian 13; wants root, debootstrap
	@bash tools/newest.sh test

# What they compare with has an environment of its own, of 5 GB, which the first makes.
bench: run  ## the benchmarks in short, on the sample's pairs; see benchmarks/README.md
	@$(PY) -m benchmarks.training --short
	@$(PY) -m benchmarks.first_step output/sample --config configs/sample.yaml --short
	@$(PY) -m benchmarks.transform --short
	@$(PY) -m benchmarks.pipeline_cost --short
	@$(PY) -m benchmarks.serving --model output/sample/serving/sample --short
	@$(PY) -m benchmarks.serving_load --model output/sample/serving/sample --short
	@$(PY) -m benchmarks.evaluation_memory --data sample_data --short
	@$(PY) -m benchmarks.scale --short

bench-newest: $(INSTALLED)  ## the newest stack's speed beside this one's; wants what a run left
	@bash tools/newest.sh bench

lint: $(INSTALLED)  ## style: ruff check and ruff format --check
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: $(INSTALLED)  ## types: mypy
	@$(PY) -m mypy

format: $(INSTALLED)  ## put the code in shape
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

# Keeps the versions that still fit; ARGS=--upgrade renews them all.
lock: $(INSTALLED)  ## all .lock files from their .in files; prints what changed
	@bash tools/lock.sh $(ARGS)

# The commit that the image says it was built from.
REVISION = $(shell git describe --always --abbrev=40 --exclude '*' --dirty 2>/dev/null || echo unknown)
IMAGE ?=
ACCELERATOR ?= cpu
USER_ID ?= 1000

image: .image-settings  ## build the container image: IMAGE=registry/name:tag, ACCELERATOR=gpu
	@DOCKER_BUILDKIT=1 docker build --tag "$(IMAGE)" $(ARGS) \
	  --build-arg ACCELERATOR=$(ACCELERATOR) --build-arg USER_ID=$(USER_ID) \
	  --build-arg REVISION=$(REVISION) .

push-image: .image-settings  ## push it: IMAGE=registry/name:tag
	@docker push "$(IMAGE)"

.PHONY: .image-settings
.image-settings:
	@[[ -n "$(IMAGE)" ]] || { echo "$(firstword $(MAKECMDGOALS)): IMAGE is not set; name" \
	  "the image: make $(firstword $(MAKECMDGOALS)) IMAGE=registry/name:tag" >&2; exit 2; }
	@[[ "$(ACCELERATOR)" =~ ^(cpu|gpu)$$ ]] || { echo "image: ACCELERATOR is" \
	  "'$(ACCELERATOR)'; it must be cpu or gpu" >&2; exit 2; }
	@docker info >/dev/null 2>&1 || { echo "image: no container engine answers to" \
	  "\`docker info\`: start one, or point DOCKER_HOST to one; \`make check-image\`" \
	  "needs none" >&2; exit 2; }

check-image: $(INSTALLED)  ## check the image without a container engine; ARGS="--accelerator gpu"
	@$(PY) -m tools.check_image $(ARGS)

# A part of Beam for tests alone: a job service that needs no cluster. It wants Go.
PRISM := .venv/bin/prism
.PHONY: prism
prism: $(INSTALLED)  ## build Beam's Prism, which tests of portable Beam run on; wants Go
	@command -v go >/dev/null || { echo "prism: there is no \`go\` on the PATH: install" \
	  "Go 1.26 or later; without it, the tests that need Prism skip" >&2; exit 2; }
	@go build -C tools/prism -mod=readonly -o "$(CURDIR)/$(PRISM)" \
	  github.com/apache/beam/sdks/v2/go/cmd/prism

clean:  ## remove .venv, caches and builds; keeps output/
	@rm -rf .venv .venv-peers build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
