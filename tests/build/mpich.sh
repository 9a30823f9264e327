#!/usr/bin/env bash
# mpich.sh PROJECT FOLDER FLAG ...: compiles and runs the test of the adapter for MPI with MPICH. FOLDER has its mpicxx and mpiexec, such
# as bin/ of a virtual environment after `pip install mpich`. If it is empty, they are those of Debian's package mpich.
set -euo pipefail
project=$1 folder=$2 suffix=
[[ -n $folder ]] || folder=/usr/bin suffix=.mpich
mpicxx=$folder/mpicxx$suffix mpiexec=$folder/mpiexec$suffix
[[ -x $mpicxx && -x $mpiexec ]] || { echo "MPICH was not found: install mpich, or set HEADROOM_TEST_MPICH" && exit 77; }
[[ -f /usr/include/catch2/catch.hpp ]] || { echo "Catch2 version 2 was not found" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$mpicxx" -std=c++17 -O0 "${@:3}" -DCATCH_CONFIG_MAIN -I"$project/include" -I"$project/tests" "$project/tests/adapters/mpi.cpp" \
  "$project/tests/support/sleeping_yield.cpp" -rdynamic -pthread -o "$work/test"
HEADROOM_TEST_RANKS=2 timeout 300 "$mpiexec" -n 2 "$work/test"
# MPICH's ranks do not sleep: with more of them than cores only one test. With MPI_THREAD_MULTIPLE, MPICH would add in one order.
for ranks in 3 5; do
  HEADROOM_TEST_SERIALIZED=1 HEADROOM_TEST_RANKS=$ranks timeout 300 "$mpiexec" -n $ranks "$work/test" 'a reducer adds in the order of ranks*'
done
