#!/usr/bin/env bash
# mpi_digits.sh PROGRAM DIGITS.CSV: checks the promises of examples/mpi_digits.cpp, whose executable is PROGRAM. Each promise has its own
# trainings, with 1 to 4 ranks. Exits with 1 if a promise is not kept. Promises are about bits, steps and messages, which do not depend on
# chance. A job is ended after ten minutes, because its ranks may wait for each other forever.
set -euo pipefail
program=$1 images=$2
command -v mpirun >/dev/null || { echo "Skipped: there is no mpirun." && exit 77; }
if ((EUID == 0)); then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
# Allows more ranks than cores. Containers forbid the single-copy mechanism, and Open MPI would warn about it.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

failed=0
# promise TEXT COMMAND ...: prints whether the command succeeds.
promise() {
  local answer=kept
  "${@:2}" || { answer="NOT KEPT" failed=1; }
  printf '%-8s  %s\n' "$answer" "$1"
}
# train RANKS DIRECTORY OPTION ...: returns the status of the training; its output is in DIRECTORY.log.
train() { timeout 600 mpirun -np "$1" "$program" "$images" "$2" "${@:3}" >"$2.log" 2>&1; }
train_short() { train "$@" --epochs 20 --every 5 || { cat "$2.log" && exit 1; }; } # 40 steps
same_checkpoint() { cmp "$1/digits.checkpoint" "$2/digits.checkpoint"; }
# steps FILE [FIRST]: the steps of a rank from FIRST on, as "step,loss scale,skipped".
steps() { awk -F , -v from="${2:-0}" 'NR > 1 && $1 >= from' "$1"; }
skipped_only() { [[ $(steps "$1/steps.0.csv" | awk -F , '$3 == 1 { print $1 }' | xargs) == "$2" ]]; }
scale_at() { awk -F , -v step="$2" '$1 == step { print $2 }' "$1/steps.0.csv"; }
halved_at() { (($(scale_at "$1" "$2") == 2 * $(scale_at "$1" $(($2 + 1))))); }
ended_with() { [[ $1 != 0 && $1 != 124 ]] && grep -qE "$3" "$2.log"; }

# ---- compared with one process
train_short 2 two
train_short 1 halves --micro-batches 2
promise "two ranks have the bits of one process that takes each batch in two parts" same_checkpoint two halves

# ---- an overflow on one rank
train_short 4 calm
train_short 4 overflow --overflow 12:2
promise "without an overflow no step is skipped" skipped_only calm ""
promise "an overflow on rank 2 makes the job skip that step, and no other" skipped_only overflow 12
promise "and back off once" halved_at overflow 12
for rank in 1 2 3; do promise "in the same way on rank $rank" cmp overflow/steps.{0,$rank}.csv; done

# ---- a rank that is killed
status=0
train 4 killed --epochs 20 --every 5 --kill 13:2 || status=$?
promise "kill -9 of a rank ends the job with a message" ended_with "$status" killed 'rank 2.*signal 9|SIGNAL: 9'
train_short 4 killed
promise "the next launch resumes from the checkpoint" grep -q 'resumed after step 10' killed.log
promise "and ends with the bits of a training that was never killed" same_checkpoint calm killed

# ---- another number of ranks
train_short 2 overflows --overflow 7:1
train_short 2 grown --overflow 7:1 --stop-after 20
train_short 4 grown
same_scales() { [[ -n $(steps grown/steps.3.csv) ]] && cmp <(steps overflows/steps.0.csv 20) <(steps grown/steps.3.csv); }
promise "a training that resumes with 4 ranks instead of 2 has the same loss scales, up to the growth in step $((7 + 1 + 20))" same_scales
promise "and the scale grows there" test "$(scale_at grown 28)" = $((2 * $(scale_at grown 27)))

# ---- ranks that fail
status=0
train 4 fails --epochs 20 --fail 13:2 || status=$?
promise "a rank that fails ends the job with a message" ended_with "$status" fails 'rank 2: its gradients could not be computed'
mkdir -p full/digits.checkpoint.tmp # a directory of this name makes each save fail
status=0
train 4 full --epochs 20 --every 5 || status=$?
promise "and so does a rank that fails between two steps" ended_with "$status" full 'rank 0: .*cannot be created'

exit $failed
