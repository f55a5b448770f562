#!/usr/bin/env bash
# Makes .venv: Python, everything in requirements.lock, and this project itself.
# The next call completes what was interrupted. Called by `make install`.
#   PYTHON=/path/to/python3.11   the Python to use; default: the first that fits of
#                                python3.11, python3.10, python3
set -euo pipefail

say() { printf 'install: %s\n' "$*"; }
die() {
  say "$*" >&2
  exit 1
}

# Take over from the caller where packages come from (index, proxy, certificates,
# cache), and nothing that changes which Python runs, or what goes where.
wanted=${PYTHON-}
unset "${!PYTHON@}" VIRTUAL_ENV CONDA_PREFIX CDPATH
for name in "${!PIP_@}" "${!UV_@}"; do
  case $name in
    *INDEX* | *FIND_LINKS* | *CERT* | *TLS* | *HOST* | *PROXY* | *KEYRING*) ;;
    *TIMEOUT* | *RETRIES* | *CACHE* | *CONCURRENT* | UV_LINK_MODE | *_CONFIG_FILE) ;;
    *) unset "$name" ;;
  esac
done

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
venv=.venv
PATH=${PATH//"$PWD/$venv/bin:"/} # an activated .venv must not be built from itself

# --- Does this machine fit? Everything that can be known before a download. ---

system="$(uname -s) $(uname -m)"
[[ $system == "Linux x86_64" ]] ||
  die "this is $system, but TFX has wheels for Linux x86_64 only: use such a machine or container"
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc="not glibc"
[[ $libc == glibc* && $(printf '%s\n' "glibc 2.28" "$libc" | sort -V | head -n 1) == "glibc 2.28" ]] ||
  die "the C library is $libc, but the wheels need glibc 2.28 or later: use a newer system (Debian 10, Ubuntu 20.04, RHEL 8 or later)"

# Prints the version, then what TFX needs of a Python and this one lacks.
probe='
import sys
missing = []
for name in "bz2 ctypes ensurepip lzma sqlite3 ssl venv".split():
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
print(" ".join(["%d.%d.%d" % sys.version_info[:3]] + missing))'

# Sets `version` if the Python $1 will do; otherwise returns 1 and sets `problem`.
fits() {
  local reply missing include
  # A pyenv shim is there for every version that any pyenv Python has, and then fails.
  reply=$("$1" -c "$probe" 2>/dev/null) || { problem="$1 does not run"; return 1; }
  version=${reply%% *} missing=${reply#"$version"}
  case $version in
    3.10.* | 3.11.*) ;;
    *) problem="$1 is $version"; return 1 ;;
  esac
  [[ -z $missing ]] || { problem="$1 is $version without$missing"; return 1; }
  [[ $version == 3.10.* ]] || return 0
  # Of all packages one has to be compiled, and for 3.10 only: pyfarmhash.
  include=$("$1" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
  # shellcheck disable=SC2086  # CXX may be several words
  printf '#include <Python.h>\n#include <string>\n' |
    ${CXX:-g++} -x c++ -fsyntax-only -I"$include" - 2>/dev/null ||
    { problem="$1 is $version without g++ and Python.h (apt-get install g++ python3-dev)"; return 1; }
}

candidates=(python3.11 python3.10 python3)
[[ -z $wanted ]] || candidates=("$wanted")
python='' problem='' found=''
for candidate in "${candidates[@]}"; do
  command -v -- "$candidate" >/dev/null || continue
  if fits "$candidate"; then
    python=$candidate
    break
  fi
  found+="${found:+, }$problem"
done
if [[ -z $python ]]; then
  die "no Python 3.10 or 3.11 found that fits: ${found:-there is no ${candidates[*]}}." \
    "Install Python 3.11 with its venv module (Debian 12: apt-get install python3-venv)," \
    "or name one: make install PYTHON=/path/to/python3.11"
fi

# --- Install. ---

trap 'say "not finished; once the error above is mended, the next call goes on" >&2' ERR
say "Python $version ($(command -v -- "$python")) into $venv"
# Only a .venv that is whole, and of this Python, is kept and brought up to date. From
# the start again costs little: what was downloaded is in the cache.
kept=
[[ ! -e $venv/.installed ]] || kept=$("$venv/bin/python" -c "$probe" 2>/dev/null) || kept=
rm -f "$venv/.installed"
[[ $kept == "$version" ]] || "$python" -m venv --clear "$venv"

# uv installs the rest, and is itself a line of the lock, so its hash is checked too.
say "uv, which installs the rest"
awk '/^uv==/ { entry = 1 } entry { print } entry && !/\\$/ { exit }' requirements.lock >"$venv/uv.txt"
"$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
  --no-deps --require-hashes --only-binary :all: --requirement "$venv/uv.txt"

# `sync` takes the lock as it stands: it resolves nothing, and takes away what is not
# in it. The few packages that come as source are built with the lock's own setuptools.
# Without bytecode each `import tfx.v1` would cost half a minute more.
say "the packages in requirements.lock, about 4 GB on disk: some minutes without a cache"
"$venv/bin/uv" pip sync --quiet --python "$venv/bin/python" --require-hashes \
  --build-constraints requirements.lock --compile-bytecode requirements.lock

say "the project itself and its command bert-pipeline"
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --offline \
  --no-deps --no-build-isolation --editable .

touch "$venv/.installed"
say "done"
