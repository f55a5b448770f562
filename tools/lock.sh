#!/usr/bin/env bash
# Compiles all locks from requirements.in, overrides.txt, requirements-gpu.in and
# deploy/runtime/setup.py, and prints the changed versions. Called by `make lock`. Keeps
# the versions that still fit.
#   tools/lock.sh [OPTION...]   options for `uv pip compile`, such as --upgrade
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
PATH=$PWD/.venv/bin:$PATH
options=("$@")
# Packages without wheels, which are built where they are installed.
sources=(google-apitools kaggle kfp kfp-server-api promise pyfarmhash rouge-score seqeval)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Prints a lock's packages with their versions, which may differ between Pythons.
versions() {
  [[ ! -e $1 ]] || awk -F '==| ' '
    /^[a-z0-9]/ { locked[$1] = locked[$1] (locked[$1] ? "," : "") $2 }
    END { for (name in locked) print name, locked[name] }' "$1" | LC_ALL=C sort
}

# Prints `package old -> new` for each that differs between the locks $1 and $2.
changes() {
  LC_ALL=C join -a 1 -a 2 -e none -o 0,1.2,2.2 <(versions "$1") <(versions "$2") |
    awk '$2 != $3 { print "  " $1, $2, "->", $3 }'
}

# Sets the Pythons that uv resolves for to $1, from `oldest` to the one before `after`, and
# `target` to its options. uv reads a range of Pythons from a pyproject.toml only; each
# stack gets one in the scratch folder.
choose_pythons() {
  local sorted
  mapfile -t sorted < <(tr ' ' '\n' <<<"$1" | sort -V)
  oldest=${sorted[0]}
  target=(--universal --python-version "$oldest")
  after=3.$((${sorted[-1]#3.} + 1))
  cat >"$scratch/pyproject.toml" <<END
[tool.uv]
environments = [
  "sys_platform == 'linux' and platform_machine == 'x86_64' and python_version >= '$oldest' and python_version < '$after'",
]
END
  # An override whose marker is false leaves its package out, and one that is true hides
  # the requirements of all packages: a stack gets its own overrides only.
  grep -v -e "python_version >= '$after'" -e "python_version < '$oldest'" \
    overrides.txt >"$scratch/overrides.txt"
}

# Starts the lock $1 from the list $2 with the versions that have wheels for the stack's
# glibc, for each of its Pythons; further arguments are options. uv keeps locked versions.
# A universal resolution ignores glibc and would choose versions without such wheels.
start_from_wheels() {
  local python resolved start=$scratch/start
  mkdir -p "$(dirname "$1")" "$(dirname "$scratch/$1")" # a new stack has no folder yet
  for python in $pythons; do
    resolved=python-$python
    [[ ! -e $1 ]] || cp "$1" "$scratch/$resolved"
    (cd "$scratch" && uv pip compile --quiet --python-version "$python" \
      --python-platform "x86_64-manylinux_${glibc/./_}" \
      --only-binary :all: "${sources[@]/#/--no-binary=}" --no-annotate --no-header \
      "${@:3}" "$2" --output-file "$resolved")
    sed "s/$/ ; python_version == '$python'/" "$scratch/$resolved" >>"$start"
    rm "$scratch/$resolved"
  done
  mv "$start" "$scratch/$1"
}

# Compiles the lock $1 from the list $2 for `target`; further arguments are options.
compile() {
  local lock=$1 new=$scratch/$1 changed
  (cd "$scratch" && uv pip compile --quiet "${target[@]}" --generate-hashes \
    --no-emit-index-url --no-emit-find-links \
    --custom-compile-command "make lock" "${@:3}" "$2" --output-file "$lock")
  changed=$(changes "$lock" "$new")
  printf '%s: %s\n' "$lock" "${changed:+changed
}${changed:-unchanged}"
  # An unchanged lock keeps its time stamp, so that `make install` has nothing to do.
  cmp --silent "$new" "$lock" || cp "$new" "$lock"
}

cp --parents requirements.in requirements-gpu.in benchmarks/peers/requirements.in \
  tools/docs/requirements.in deploy/runtime/{pyproject.toml,setup.py} "$scratch"
all=
while read -r stack glibc pythons; do
  [[ -n $stack && $stack != \#* ]] || continue
  all+="${all:+ }$pythons"
  choose_pythons "$pythons"
  start_from_wheels "stacks/$stack/requirements.lock" requirements.in \
    --overrides overrides.txt "${options[@]}"
  compile "stacks/$stack/requirements.lock" requirements.in --overrides overrides.txt
  start_from_wheels "stacks/$stack/gpu.lock" requirements-gpu.in "${options[@]}"
  compile "stacks/$stack/gpu.lock" requirements-gpu.in
done <stacks/stacks.txt

# The benchmarks' peers and the site have environments of their own, which are not part of
# a stack: one lock serves all Pythons.
choose_pythons "$all"
for lock in benchmarks/peers/requirements.lock tools/docs/requirements.lock; do
  [[ ! -e $lock ]] || cp "$lock" "$scratch/$lock"
  compile "$lock" "${lock%.lock}.in" "${options[@]}"
done

# The runtime's: one for each Python, without markers, so that no other Python or system
# takes it for an empty list. Overrides do not apply: it is what pip installs.
mkdir -p deploy/runtime/locks "$scratch/deploy/runtime/locks"
for python in $all; do
  target=(--python-version "$python" --python-platform x86_64-manylinux_2_28)
  lock=deploy/runtime/locks/py$python.lock
  [[ ! -e $lock ]] || cp "$lock" "$scratch/$lock"
  compile "$lock" deploy/runtime/setup.py "${options[@]}"
done
