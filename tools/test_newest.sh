#!/usr/bin/env bash
# Installs, tests and runs the newest stack on a Debian 13, whatever this machine has; and
# has it take up models and runs of this machine's stack, and the other way round. Called by `make test-newest`. Takes ARGS, for `make test` in there, from the environment.
# The system is a folder, build/debian-13, which the next call finds with all packages
# in its cache: 4 GB. Needs root and debootstrap, and changes nothing of this
# machine: what is mounted is so for this script alone, and goes with it.
set -euo pipefail

say() { printf 'test-newest: %s\n' "$*"; }
die() {
  say "$*" >&2
  exit 1
}

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
PATH=$PATH:/usr/sbin:/sbin
[[ $(id -u) == 0 ]] ||
  die "making a Debian 13 needs root, and this is $(id -un): sudo make test-newest"
for command in debootstrap unshare chroot; do
  command -v "$command" >/dev/null ||
    die "there is no $command: install it (Debian, Ubuntu: apt-get install debootstrap)"
done

if [[ ${1-} != --mounts-are-private ]]; then
  exec unshare --mount --propagation private bash "$PWD/tools/test_newest.sh" --mounts-are-private
fi

root=$PWD/build/debian-13
home=$root/root
work=$root/work

# --- The system. ---

if [[ ! -d $root ]]; then
  say "Debian 13 into ${root#"$PWD/"}"
  # apt's proxy, since debootstrap asks wget, which knows nothing of apt's settings.
  eval "$(apt-config shell http_proxy Acquire::http::Proxy 2>/dev/null || true)"
  [[ -z ${http_proxy-} ]] || export http_proxy
  rm -rf "$root.part"
  mkdir -p "$root.part"
  debootstrap --variant=minbase --include=ca-certificates,make,python3,python3-venv \
    trixie "$root.part" >"$root.log" 2>&1 ||
    die "debootstrap failed, $root.log tells why; the next call starts again"
  rm -rf "$root.part/var/cache/apt/archives"
  mv "$root.part" "$root"
fi
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"

# --- What goes again at the end: all but the system and the packages' cache. ---

brought=() shared=
clean_up() {
  [[ -z $shared ]] || umount "$root$shared" || return
  rm -rf "${shared:-$work}"
  rm -rf "$work" "${root:?}/tmp" "${brought[@]}"
  mkdir -m 1777 "$root/tmp"
  find "$home" -mindepth 1 -maxdepth 1 ! -name .cache -exec rm -rf {} +
}
trap clean_up EXIT

# Copies a file of this machine to the same place in there; it may not be here.
bring() {
  [[ -f $1 ]] || return 0
  mkdir -p "$(dirname "$root$2")"
  cp -L --remove-destination "$1" "$root$2"
  brought+=("$root$2")
}

# How to reach a package index from here: names, certificates, the installers' settings.
bring /etc/resolv.conf /etc/resolv.conf
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" 2>/dev/null || true
for file in /etc/pip.conf /etc/uv/uv.toml; do bring "$file" "$file"; done
for file in .config/pip/pip.conf .pip/pip.conf .config/uv/uv.toml; do
  bring "$HOME/$file" "/root/$file"
done
environment=(HOME=/root PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin LANG=C.UTF-8)
while IFS='=' read -r -d '' name value; do
  case $name in
    *CACHE* | *_DIR) continue ;; # in there, it has its own
    PIP_*INDEX* | PIP_*CERT | PIP_*HOST* | PIP_*TIMEOUT | PIP_*RETRIES | PIP_CONFIG_FILE) ;;
    UV_*INDEX* | UV_*CERT* | UV_*TLS | UV_*HOST | UV_*TIMEOUT | UV_*RETRIES | UV_CONFIG_FILE) ;;
    *_proxy | *_PROXY | SSL_CERT_FILE | REQUESTS_CA_BUNDLE | CURL_CA_BUNDLE) ;;
    *) continue ;;
  esac
  environment+=("$name=$value")
  [[ $value != /* || $value == /etc/ssl/certs/ca-certificates.crt ]] || bring "$value" "$value"
done < <(env --null)

# --- The working tree as it is, and the data that may lie beside it. ---

rm -rf "$work"
mkdir -p "$work/main"
git ls-files -z --cached --others --exclude-standard --deduplicate |
  while IFS= read -r -d '' file; do
    [[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"
  done |
  tar --create --null --verbatim-files-from --files-from - |
  tar --extract --no-same-owner --directory "$work/main"
[[ ! -d ../shared ]] || cp -r ../shared "$work/shared"

inside=(env --ignore-environment "${environment[@]}" chroot "$root")
make_inside() {
  say "make $*"
  "${inside[@]}" make --directory /work/main --no-print-directory "$@"
}
make_inside install
# What `make prism` built here: in there is no Go for it.
[[ ! -x .venv/bin/prism ]] || cp .venv/bin/prism "$work/main/.venv/bin/"
make_inside test "ARGS=${ARGS-}"
make_inside run

# --- What one stack made, the other takes up. ---

make --no-print-directory install
stack=$(<.venv/.installed)
if [[ $stack == "$(<"$work/main/.venv/.installed")" ]]; then
  say "this machine's stack is the newest too, so no other takes up its models and runs"
else
  shared=$(mktemp -d)
  mkdir "$root$shared"
  mount --bind "$shared" "$root$shared"
  {
    printf '#!/bin/sh\nexec'
    printf ' %q' "${inside[@]}" sh -c 'cd /work/main && exec .venv/bin/python "$@"' python
    printf ' "$@"\n'
  } >"$shared/python"
  chmod +x "$shared/python"
  say "models and runs of TFX $stack and of the newest, each taken up by the other"
  OTHER_STACK_PYTHON=$shared/python .venv/bin/python -m pytest \
    --basetemp "$shared/tests" tests/e2e/test_stacks.py
fi
say "the newest stack passes"
