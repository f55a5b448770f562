#!/usr/bin/env bash
# Fuzzes targets of tools/fuzz/targets.py, one after the other.
#   tools/fuzz/fuzz.sh SECONDS CORPUS [TARGET...]
# The inputs that cover more code are kept in CORPUS/TARGET, and the next run starts from
# them. atheris is in an environment of its own, which sees the packages of .venv.
set -euo pipefail
seconds=$1 corpus=$2
shift 2
python=.venv-fuzz/bin/python
if [[ ! -x $python ]] || ! "$python" -c 'import atheris' 2>/dev/null; then
  rm -rf .venv-fuzz
  .venv/bin/python -m venv .venv-fuzz
  "$python" -m pip install --quiet --only-binary :all: atheris==3.0.0 || {
    echo "fuzz: atheris cannot be installed; it has wheels for Linux and CPython 3.11" \
      "to 3.13" >&2
    exit 2
  }
  .venv/bin/python -c 'import site; print(site.getsitepackages()[0])' \
    >"$("$python" -c 'import site; print(site.getsitepackages()[0])')/project.pth"
fi
(($#)) || set -- csv tsv jsonl parquet arrow tfrecord csv-gz http grpc
failed=()
for target; do
  echo "fuzz: $target, $seconds s"
  log=$corpus/$target.log
  mkdir -p "$corpus"
  "$python" -m tools.fuzz "$target" "$corpus/$target" -max_total_time="$seconds" \
    -rss_limit_mb=3000 -timeout=30 >"$log" 2>&1 || failed+=("$target")
  grep -E '^Done|^stat::|ERROR|Exception|Error' "$log" | tail -3 || true
done
if ((${#failed[@]})); then
  echo "fuzz: ${failed[*]} failed; the inputs are $corpus/TARGET-crash-*, and the logs" \
    "$corpus/TARGET.log" >&2
  exit 1
fi
