#!/usr/bin/env bash
# Package: mpich 5.0.2 (PyPI).
# What it does: the same MPI_Allreduce of the same numbers on the same communicator returns other bits from the fifth call on. On one node
#   later calls reduce in shared memory, which groups the addends of four ranks or more differently. With MPI_THREAD_MULTIPLE all calls
#   are alike. So a program that is restarted from a checkpoint does not continue with the same bits.
# Found in: MPI_Allreduce with MPI_SUM, and with an MPI_Op that commutes.
# Guess: the MPI standard strongly recommends the same result for the same arguments, so each call adds in the same order.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q mpich==5.0.2
cat >"$work/sums.c" <<'C'
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { calls = 8, numbers = 100 };

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE, rank, differ[calls] = {0};
  double own[numbers], first[numbers], sum[numbers];
  MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < numbers; ++i) own[i] = 1.0 / (1 + rank + 7 * i);
  for (int call = 0; call < calls; ++call) {
    MPI_Allreduce(own, sum, numbers, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (call == 0) memcpy(first, sum, sizeof first);
    for (int i = 0; i < numbers; ++i) differ[call] += sum[i] != first[i];
  }
  for (int call = 0; rank == 0 && call < calls; ++call) printf("%d ", differ[call]);
  MPI_Finalize();
}
C
"$work/venv/bin/mpicc" "$work/sums.c" -o "$work/sums"
sums_unlike_first() { timeout 120 "$work/venv/bin/mpiexec" -n "$1" "$work/sums" "${@:2}"; }
"$work/venv/bin/mpichversion" | head -1
three=$(sums_unlike_first 3) four=$(sums_unlike_first 4) threads=$(sums_unlike_first 4 multiple)
echo "of 100 sums, those unlike the first call's, by call: three ranks: $three"
echo "four ranks: $four"
echo "four ranks with MPI_THREAD_MULTIPLE: $threads"
[[ $three == "0 0 0 0 0 0 0 0 " && $threads == "$three" ]]
read -ra of_call <<<"$four"
[[ ${of_call[*]:0:4} == "0 0 0 0" ]] && ((of_call[4] > 0 && of_call[7] == of_call[4]))
