#!/usr/bin/env bash
# Installs the newest stack on a Debian 13, whatever this machine has. Then, with
#   tools/newest.sh test    it runs `make test` and `make run` there, and has each of this
#                           machine's stack and the newest take up what the other made
#   tools/newest.sh bench   it measures the two, in turn; wants what `make run` left here
# Called by `make test-newest` and `make bench-newest`, which hand ARGS on in the
# environment: to `make test` there, or to benchmarks.stacks.
# The system is a folder, build/debian-13, which the next call finds with all packages
# in its cache: 4 GB. Needs root and debootstrap, and changes nothing of this
# machine: what is mounted is so for this script alone, and goes with it.
set -euo pipefail

task=$1
say() { printf '%s-newest: %s\n' "$task" "$*"; }
die() {
  say "$*" >&2
  exit 1
}

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
PATH=$PATH:/usr/sbin:/sbin
[[ $(id -u) == 0 ]] ||
  die "making a Debian 13 needs root, and this is $(id -un): sudo make $task-newest"
for command in debootstrap unshare chroot; do
  command -v "$command" >/dev/null ||
    die "there is no $command: install it (Debian, Ubuntu: apt-get install debootstrap)"
done

if [[ ${2-} != --mounts-are-private ]]; then
  exec unshare --mount --propagation private \
    bash "$PWD/tools/newest.sh" "$task" --mounts-are-private
fi

root=$PWD/build/debian-13
home=$root/root
work=$root$PWD # the same path as here, so that both stacks find the same by it

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

brought=()
exchange=$(mktemp -d) # a folder that is the same one here and in there
clean_up() {
  ! mountpoint -q "$root$exchange" || umount "$root$exchange" || return
  rm -rf "$exchange" "$work" "$(dirname "$work")/shared" "${root:?}/tmp" "${brought[@]}"
  mkdir -m 1777 "$root/tmp"
  find "$home" -mindepth 1 -maxdepth 1 ! -name .cache -exec rm -rf {} +
}
trap clean_up EXIT
mkdir -p "$root$exchange"
mount --bind "$exchange" "$root$exchange"

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
mkdir -p "$work"
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
newest=$(<"$work/.venv/.installed")

# --- A program that is the newest stack's Python. ---

# It has the caller's environment, which may tell it how to work.
cat >"$exchange/python" <<END
#!/bin/sh
export HOME=/root PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin LANG=C.UTF-8
exec chroot '$root' sh -c 'cd "\$0" && exec .venv/bin/python "\$@"' '$PWD' "\$@"
END
chmod +x "$exchange/python"

# Runs this machine's Python, if it is of another stack than the newest.
beside() {
  make --no-print-directory install
  if [[ $(<.venv/.installed) == "$newest" ]]; then
    say "this machine's own stack is the newest, too: there is no other to put beside it"
  else
    TMPDIR=$exchange OTHER_STACK_PYTHON=$exchange/python .venv/bin/python "$@"
  fi
}

if [[ $task == bench ]]; then
  # shellcheck disable=SC2086  # ARGS is several words
  beside -m benchmarks.stacks --other "$exchange/python" \
    ${ARGS:-output/sample --config configs/sample.yaml}
  exit
fi

# What `make prism` built here: in there is no Go for it.
[[ ! -x .venv/bin/prism ]] || cp .venv/bin/prism "$work/.venv/bin/"
make_inside test "ARGS=${ARGS-}"
make_inside run
say "what one stack made, the other takes up"
beside -m pytest tests/e2e/test_stacks.py
say "the newest stack passes"
