#!/usr/bin/env bash
# The tables and pictures of README.md, docs/evidence.md and its notes, and of docs/quantize.md, all from one run on one machine.
#   bash docs/figures.sh                  makes them in 50 minutes on two idle cores: build/figures/NAME.txt and build/figures/*.png
#   bash docs/figures.sh --write          makes them, and puts them into the documents and into docs/
#   bash docs/figures.sh --check [NAME…]  compares the tables of the documents, all or those named, with the last run: tests/docs/check.py
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ ${1:-} =~ ^(|--write|--check)$ ]] || { sed -n '2,5s/^# \{0,1\}//p' docs/figures.sh && exit 2; }
output=build/figures

if [[ ${1:-} != --check ]]; then
  rm -rf "$output" # so that all of it is of one run
  mkdir -p "$output"
  {
    lscpu | sed -nE 's/^Model name: */CPU       /p'
    echo "cores     $(nproc)"
    echo "has       $(grep -oE '\<(f16c|fma|avx2|avx512f|asimdhp|asimd|sve)\>' /proc/cpuinfo | sort -u | paste -sd ' ')"
    echo "compiler  $(c++ --version | head -n 1)"
  } | tee "$output/machine.txt"
  bash examples/run.sh "$output"
  for name in gradient_histogram compare_policies networks fp8_linear; do
    bash evidence/run.sh "$name" "$output"
  done
  bash benchmarks/run.sh --quick | tee "$output/speed.log"
fi

# table NAME LOG FIRST [ROWS]: the lines of a log from the one that has FIRST to the next empty one; with ROWS, those that match.
table() {
  rm -f "$output/$1.txt"
  [[ ! -f $output/$2.log ]] ||
    awk -v first="$3" -v rows="${4:-.}" 'index($0, first) { on = 1 } on && /^$/ { exit } on && $0 ~ rows' "$output/$2.log" >"$output/$1.txt"
}
table digits digits "test accuracy final loss"
table gradients gradient_histogram "Of the gradients that" '^Of| largest |layers[[][046]].weight|^all'
table policies compare_policies "skipped, bits wasted"
table evidence_digits networks "digits recognised in the test set, %"
table evidence_gpt networks "test loss, nats a word"
table evidence_recurrent networks "log10 of the test error"
table evidence_again networks "the same with other seeds"
table evidence_constants networks "constant scales"
table evidence_policies networks "difference, p, skipped"
table evidence_starts networks "from initial scales, %"
table evidence_faults networks "right answers with faults, %"
table speed speed "256 MiB  "
[[ -z ${1:-} ]] || python3 tests/docs/check.py figures ${1/--check/} "${@:2}"
