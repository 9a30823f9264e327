#!/usr/bin/env bash
# kill.sh PROGRAM DIGITS.CSV [KILLS, 20 [SEED, 1]]: kills a training with kill -9 at random moments, and resumes it. PROGRAM is
# examples/resume_digits. Its last checkpoint (weights, optimizer, loss scale, order of the data, step) must have the same bytes as in a
# training that was never killed. After a kill, two trainings of three are killed again; the others run to their end. Instead of a truncated
# checkpoint the one before it must be used.
set -euo pipefail
program=$1 images=$2 kills=${3:-20}
RANDOM=${4:-1}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# run NAME [COMMAND ...]: the command runs the training. It has 56 steps, each with a checkpoint.
run() { "${@:2}" "$program" "$images" "$work/$1" 4 1 100 >"$work/log" 2>&1; }
milliseconds() { date +%s%3N; }
fail() { cat "$work/log" && echo "$1" && exit 1; }

start=$(milliseconds)
run reference || fail "the training failed"
duration=$(($(milliseconds) - start))

killed=0 compared=0
compare() {
  run stopped || fail "the training failed after $killed kills"
  cmp "$work/reference/digits.checkpoint" "$work/stopped/digits.checkpoint" || fail "not the same after $killed kills"
  left=$(find "$work/stopped" -name '*.tmp' -o -name '*.old')
  [[ -z $left ]] || fail "left behind: $left"
  rm -r "$work/stopped"
  compared=$((compared + 1))
}
while ((killed < kills)); do
  status=0
  run stopped timeout --foreground --signal=KILL "$((1 + duration * RANDOM / 32768))e-3" || status=$?
  case $status in
    0 | 124) compare ;; # it ended before the kill, or at the same time
    137)
      killed=$((killed + 1))
      if ((RANDOM < 10923)); then compare; fi
      ;;
    *) fail "the training failed after $killed kills" ;;
  esac
done
compare
cp "$work/reference/digits.checkpoint" "$work/whole"
truncate -s 1000 "$work/reference/digits.checkpoint" # the checkpoint before it is used
{ run reference && grep -q 'is truncated' "$work/log" && cmp "$work/whole" "$work/reference/digits.checkpoint"; } || fail "not resumed"
echo "$killed kills: $compared trainings compared, all the same"
