#!/usr/bin/env bash
# Makes .venv: Python, the packages of a stack's lock, and this project. A second call
# completes an interrupted one. Called by `make install`.
#   STACK=1.16                   a name in stacks/stacks.txt; default: the newest stack
#                                that this machine can run
#   PYTHON=/path/to/python3.11   default: the first of the stack's Pythons on the PATH,
#                                such as python3.11, python3.10, python3
set -euo pipefail

say() { printf 'install: %s\n' "$*"; }
die() {
  say "$*" >&2
  exit 1
}

# Keep the caller's settings of where packages come from (index, proxy, certificates,
# cache), and drop those that change which Python runs or where packages go.
requested=${PYTHON-}
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
PATH=${PATH//"$PWD/$venv/bin:"/} # an activated .venv cannot be built from itself

# --- The stacks, the newest first. ---

names=()
declare -A needed_glibc pythons
while read -r name glibc list; do
  [[ -n $name && $name != \#* ]] || continue
  names+=("$name") needed_glibc[$name]=$glibc pythons[$name]=$list
done <stacks/stacks.txt
considered=("${names[@]}")
if [[ -n ${STACK-} ]]; then
  [[ -n ${pythons[$STACK]-} ]] || die "STACK is '$STACK'; it must be one of ${names[*]}"
  considered=("$STACK")
fi

# --- Does this machine fit? All checks are made before a download. ---

system="$(uname -s) $(uname -m)"
[[ $system == "Linux x86_64" ]] ||
  die "this is $system, but TFX has wheels for Linux x86_64 only: use such a machine or container"
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc="not glibc"
[[ $libc == glibc* ]] ||
  die "the C library is $libc, but the wheels need glibc ${needed_glibc[${names[-1]}]} or later: use another system, such as Debian 13"

# Whether version $1 is $2 or later.
reaches() { [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]; }

# Prints a Python's version and the modules that TFX needs and it lacks.
probe='
import sys
missing = []
for name in "bz2 ctypes ensurepip lzma sqlite3 ssl venv".split():
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
print(" ".join(["%d.%d.%d" % sys.version_info[:3]] + missing))'

# Sets `version` if the Python $1 is one of $2 and complete; otherwise returns 1 and sets
# `problem`.
fits() {
  local reply missing include
  # A pyenv shim exists for every version of any pyenv Python, but may fail.
  reply=$("$1" -c "$probe" 2>/dev/null) || { problem="$1 does not run"; return 1; }
  version=${reply%% *} missing=${reply#"$version"}
  [[ " $2 " == *" ${version%.*} "* ]] || { problem="$1 is $version"; return 1; }
  [[ -z $missing ]] || { problem="$1 is $version without$missing"; return 1; }
  [[ $version == 3.10.* ]] || return 0
  # On 3.10 one package has to be compiled: pyfarmhash.
  include=$("$1" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
  # shellcheck disable=SC2086  # CXX may be several words
  printf '#include <Python.h>\n#include <string>\n' |
    ${CXX:-g++} -x c++ -fsyntax-only -I"$include" - 2>/dev/null ||
    { problem="$1 is $version without g++ and Python.h (apt-get install g++ python3-dev)"; return 1; }
}

# Sets `python` and `version` if the stack $1 can run here; otherwise returns 1 and sets
# `reason`.
runs() {
  local list=${pythons[$1]} candidates candidate problems=''
  if ! reaches "${libc#glibc }" "${needed_glibc[$1]}"; then
    reason="needs glibc ${needed_glibc[$1]} or later and this is ${libc#glibc }"
    return 1
  fi
  # shellcheck disable=SC2206  # the Pythons are words
  candidates=($list)
  candidates=("${candidates[@]/#/python}" python3)
  [[ -z $requested ]] || candidates=("$requested")
  for candidate in "${candidates[@]}"; do
    command -v -- "$candidate" >/dev/null || continue
    if fits "$candidate" "$list"; then
      python=$candidate
      return 0
    fi
    problems+="${problems:+, }$problem"
  done
  reason="needs Python ${list// / or } and ${problems:-there is no ${candidates[*]}}"
  return 1
}

stack='' against=''
for name in "${considered[@]}"; do
  if runs "$name"; then
    stack=$name
    break
  fi
  against+="${against:+; }TFX $name $reason"
done

if [[ -z $stack ]]; then
  # Advise a Python for the newest stack that this glibc can run, or a newer glibc.
  for name in "${names[@]}"; do
    ! reaches "${libc#glibc }" "${needed_glibc[$name]}" || break
  done
  advice="use a newer system, such as Debian 13"
  if reaches "${libc#glibc }" "${needed_glibc[${STACK:-$name}]}"; then
    best=${pythons[${STACK:-$name}]%% *}
    advice="install Python $best with its venv module (Debian: apt-get install python3-venv), or name one: make install PYTHON=/path/to/python$best"
  elif reaches "${libc#glibc }" "${needed_glibc[$name]}"; then
    advice+=", or install TFX $name: make install STACK=$name"
  fi
  die "no stack fits: $against; $advice"
fi

# --- Install. ---

trap 'say "not finished: fix the error above and run make install again, which resumes" >&2' ERR
why="the newest"
[[ -z $against ]] || why="for $against"
[[ -z ${STACK-} ]] || why="as STACK says"
say "TFX $stack, $why"
say "Python $version ($(command -v -- "$python")) into $venv"
lock=stacks/$stack/requirements.lock
# A complete .venv of this Python is updated. Any other is recreated, which is fast with
# the downloads in the cache.
kept=
[[ ! -e $venv/.installed ]] || kept=$("$venv/bin/python" -c "$probe" 2>/dev/null) || kept=
rm -f "$venv/.installed"
[[ $kept == "$version" ]] || "$python" -m venv --clear "$venv"

# uv is itself a line of the lock, so its hash is checked, too.
say "uv, which installs the rest"
awk '/^uv==/ { entry = 1 } entry { print } entry && !/\\$/ { exit }' "$lock" >"$venv/uv.txt"
"$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check \
  --no-deps --require-hashes --only-binary :all: --requirement "$venv/uv.txt"

# `sync` resolves nothing, and removes packages that are not in the lock. The few source
# distributions are built with the lock's setuptools. Without bytecode each
# `import tfx.v1` would take half a minute more.
say "the packages in $lock, about 4 GB on disk: some minutes without a cache"
"$venv/bin/uv" pip sync --quiet --python "$venv/bin/python" --require-hashes \
  --build-constraints "$lock" --compile-bytecode "$lock"

say "the project itself and its commands bert-pipeline and bert-runtime"
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --offline \
  --no-deps --no-build-isolation --editable . --editable deploy/runtime

printf '%s\n' "$stack" >"$venv/.installed"
say "done"
