#!/usr/bin/env bash
# Installs the newest stack in a Debian 13 and tests it there, whatever this machine has.
#   tools/newest.sh test        `make test`, `make run`, and models and runs of this
#                               machine's stack in the newest and the other way round
#   tools/newest.sh test-fast   `make test-fast` and `make run`
#   tools/newest.sh baseline    the results of the commit BASE and of this tree, compared
#   tools/newest.sh install     only the installation
# Called by `make test-newest` and `make test-newest-fast`, whose ARGS go to the tests, and
# by `make baseline-newest`.
# Debian is a folder, build/debian-13 (4 GB). Later calls reuse it and its .venv. Needs
# root and debootstrap. Mounts are private to this script.
# Exit status 3: this machine cannot run it. The only line of output is the reason.
set -euo pipefail

target=$1
say() { printf 'newest stack: %s\n' "$*"; }
cannot() {
  printf 'newest stack not tested: %s\n' "$*" >&2
  exit 3
}

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
PATH=$PATH:/usr/sbin:/sbin
call="make test-newest${target#test}"
[[ $target != baseline ]] || call="make baseline-newest BASE=${BASE:?is not set}"
[[ $target != install ]] || call="bash tools/newest.sh install"
[[ $(id -u) == 0 ]] ||
  cannot "making a Debian 13 needs root, and this is $(id -un): sudo $call"
for command in debootstrap unshare chroot; do
  command -v "$command" >/dev/null ||
    cannot "there is no $command: install it (Debian, Ubuntu: apt-get install debootstrap)"
done
needed=15 # GB: Debian, the packages and their cache
free=$(($(df --output=avail --block-size=1G . | tail -n 1)))
[[ -d build/debian-13 ]] || ((free >= needed)) ||
  cannot "it takes $needed GB of disk, and $free GB are free in $PWD"

if [[ ${2-} != --mounts-are-private ]]; then
  unshare --mount --propagation private true 2>/dev/null ||
    cannot "this machine does not allow private mounts (unshare --mount)"
  exec unshare --mount --propagation private \
    bash "$PWD/tools/newest.sh" "$target" --mounts-are-private
fi

root=$PWD/build/debian-13
home=$root/root
work=$root$PWD # the same path as here: each stack reads the files of the other

# --- The system. ---

if [[ ! -d $root ]]; then
  say "Debian 13 into ${root#"$PWD/"}"
  # apt's proxy: debootstrap downloads with wget, which does not read apt's settings.
  eval "$(apt-config shell http_proxy Acquire::http::Proxy 2>/dev/null || true)"
  [[ -z ${http_proxy-} ]] || export http_proxy
  rm -rf "$root.part"
  mkdir -p "$root.part"
  debootstrap --variant=minbase --include=ca-certificates,make,python3,python3-venv \
    trixie "$root.part" >"$root.log" 2>&1 ||
    cannot "debootstrap failed, see $root.log; the next call starts again"
  rm -rf "$root.part/var/cache/apt/archives"
  mv "$root.part" "$root"
fi
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"

# --- At the end, delete everything but the system, .venv and the cache of packages. ---

# Deletes the copy of the working tree, and keeps its .venv.
delete_copy() {
  mkdir -p "$work"
  find "$work" -mindepth 1 -maxdepth 1 ! -name .venv -exec rm -rf {} +
}

brought=()
exchange=$(mktemp -d) # the same folder outside and inside
clean_up() {
  ! mountpoint -q "$root$exchange" || umount "$root$exchange" || return
  # After a signal, a process may still write.
  delete_copy || true
  rm -rf "$exchange" "$(dirname "$work")/shared" "${root:?}/tmp" "${brought[@]}" || true
  mkdir -p -m 1777 "$root/tmp"
  find "$home" -mindepth 1 -maxdepth 1 ! -name .cache -exec rm -rf {} +
}
trap clean_up EXIT
mkdir -p "$root$exchange"
mount --bind "$exchange" "$root$exchange"

# Copies the file $1 of this machine, if there is one, to $2 inside.
bring() {
  [[ -f $1 ]] || return 0
  mkdir -p "$(dirname "$root$2")"
  cp -L --remove-destination "$1" "$root$2"
  brought+=("$root$2")
}

# The names of hosts (Beam connects to this machine by name), and certificates and
# settings for a package index.
bring /etc/hosts /etc/hosts
bring /etc/resolv.conf /etc/resolv.conf
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null || true
for file in /etc/pip.conf /etc/uv/uv.toml; do bring "$file" "$file"; done
for file in .config/pip/pip.conf .pip/pip.conf .config/uv/uv.toml; do
  bring "$HOME/$file" "/root/$file"
done
environment=(HOME=/root PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin LANG=C.UTF-8)
while IFS='=' read -r -d '' name value; do
  case $name in
    *CACHE* | *_DIR) continue ;; # Debian has other folders
    PIP_*INDEX* | PIP_*CERT | PIP_*HOST* | PIP_*TIMEOUT | PIP_*RETRIES | PIP_CONFIG_FILE) ;;
    UV_*INDEX* | UV_*CERT* | UV_*TLS | UV_*HOST | UV_*TIMEOUT | UV_*RETRIES | UV_CONFIG_FILE) ;;
    OBJECT_STORE_MUST_NOT_SKIP | *_proxy | *_PROXY | SSL_CERT_FILE | REQUESTS_CA_BUNDLE | CURL_CA_BUNDLE) ;;
    *) continue ;;
  esac
  environment+=("$name=$value")
  [[ $value != /* || $value == /etc/ssl/certs/ca-certificates.crt ]] || bring "$value" "$value"
done < <(env --null)

# --- The working tree with its changes, and the data next to it. ---

delete_copy
git ls-files -z --cached --others --exclude-standard --deduplicate |
  while IFS= read -r -d '' file; do
    [[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"
  done |
  tar --create --null --verbatim-files-from --files-from - |
  tar --extract --no-same-owner --directory "$work"
[[ ! -d ../shared ]] || cp -r ../shared "$(dirname "$work")/shared"

make_inside() {
  say "make $*"
  env --ignore-environment "${environment[@]}" \
    chroot "$root" make --directory "$PWD" --no-print-directory "$@"
}
make_inside install
[[ $target != install ]] || exit 0
newest=$(<"$work/.venv/.installed")

# The newest stack's Python as a program, with the caller's environment.
cat >"$exchange/python" <<END
#!/bin/sh
export HOME=/root PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin LANG=C.UTF-8
exec chroot '$root' sh -c 'cd "\$0" && exec .venv/bin/python "\$@"' '$PWD' "\$@"
END
chmod +x "$exchange/python"

if [[ $target == baseline ]]; then
  mkdir "$exchange/base"
  git archive "$BASE" | tar --extract --directory "$exchange/base"
  "$exchange/python" -m tools.baseline record "$exchange/base" "$exchange/before"
  "$exchange/python" -m tools.baseline record . "$exchange/after"
  rm -rf build/baseline-newest
  mkdir build/baseline-newest
  cp -r "$exchange/before" "$exchange/after" build/baseline-newest
  "$exchange/python" -m tools.baseline compare "$exchange/before" "$exchange/after"
  exit
fi

# The program of `make prism`: Debian here has no Go to build it.
[[ ! -x .venv/bin/prism ]] || cp .venv/bin/prism "$work/.venv/bin/"
make_inside "$target" "ARGS=${ARGS-}"
make_inside run
if [[ $target == test-fast ]]; then
  say "the fast tests and the sample pass"
  exit
fi

# --- Models and runs of either stack in the other. ---

make --no-print-directory install
if [[ $(<.venv/.installed) == "$newest" ]]; then
  say "this machine's stack is the newest: there is no other stack to exchange models with"
else
  TMPDIR=$exchange OTHER_STACK_PYTHON=$exchange/python \
    .venv/bin/python -m pytest tests/e2e/test_stacks.py
fi
say "all tests pass"
