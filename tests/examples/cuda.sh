#!/usr/bin/env bash
# cuda.sh PROGRAM DIGITS: PROGRAM, examples/cuda, trains a small network. In fp16 it learns the digits only with a loss scale, as well
# as in float.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" "$2" 15 140 3 1e-5 | tee "$work/log"

# between ROW LEAST MOST: the accuracy of a row of the table.
faults=0
between() {
  awk -v row="$1" -v least="$2" -v most="$3" '
    index($0, row " ") == 1 && $0 !~ /step/ { found = 1; sub(row, ""); ok = $1 >= least && $1 <= most }
    END { exit !(found && ok) }' "$work/log" || { echo "$1: the accuracy is not from $2 to $3 %" && faults=$((faults + 1)); }
}
between "float" 94 99
between "fp16, no scaling" 5 30
between "fp16, DynamicLossScale" 94 99
grep -qE '^fp16, DynamicLossScale .* % +[1-9][0-9]* ' "$work/log" || { echo "no step overflowed" && faults=$((faults + 1)); }
grep -qE '^fp16, DynamicLossScale, step [0-9]+: scale ' "$work/log" || { echo "nothing was logged" && faults=$((faults + 1)); }
((faults == 0))
