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
run() { "$program" "$images" "$work/$1" 4 1 100 >"$work/log" 2>&1; } # 56 steps, each with a checkpoint
now() { echo $((${EPOCHREALTIME/[.,]/})); }                            # in microseconds
unfinished() { (cd "$work/stopped" 2>/dev/null && stat -c '%n %i %s %y' ./*.tmp ./*.old 2>/dev/null) || true; }

start=$(now)
run reference || { cat "$work/log" && exit 1; }
duration=$(($(now) - start))

killed=0 in_save=0 resumed=0 compared=0
compare() {
  run stopped || { cat "$work/log" && exit 1; }
  cmp "$work/reference/digits.checkpoint" "$work/stopped/digits.checkpoint" || { echo "not the same after $killed kills" && exit 1; }
  [[ -z $(unfinished) ]] || { echo "left behind: $(unfinished)" && exit 1; }
  rm -r "$work/stopped"
  compared=$((compared + 1))
}
while ((killed < kills)); do
  before=$(unfinished)
  "$program" "$images" "$work/stopped" 4 1 100 >"$work/log" 2>&1 &
  delay=$((duration * (RANDOM * 32768 + RANDOM) / (1 << 30)))
  sleep "$(printf '%d.%06d' $((delay / 1000000)) $((delay % 1000000)))"
  kill -9 $! 2>/dev/null || true
  status=0
  wait $! 2>/dev/null || status=$?
  if ((status == 0)); then # it ended before the kill
    compare
    continue
  fi
  ((status == 137)) || { cat "$work/log" && exit 1; }
  killed=$((killed + 1))
  if grep -q '^resumed' "$work/log"; then resumed=$((resumed + 1)); fi
  # A save in progress has files with other names. An earlier kill may have left such files; those are unchanged.
  after=$(unfinished)
  if [[ -n $after && $after != "$before" ]]; then in_save=$((in_save + 1)); fi
  if ((RANDOM < 10923)); then compare; fi
done
compare
cp "$work/reference/digits.checkpoint" "$work/whole"
truncate -s 1000 "$work/reference/digits.checkpoint" # the checkpoint before it is used
{ run reference && grep -q 'is truncated' "$work/log" && cmp "$work/whole" "$work/reference/digits.checkpoint"; } || { cat "$work/log" && exit 1; }
echo "$killed kills, $in_save of them within a save, $resumed of a training that had been resumed: $compared trainings compared, all the same"
