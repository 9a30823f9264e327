#!/usr/bin/env bash
# mpi_decision.sh PROGRAM [RANKS ...]: the cost of a common decision of ranks on this machine, a column for each number of
# ranks. With more ranks than cores, the ranks wait for a core rather than for messages.
set -euo pipefail
program=$1
shift
(($# > 0)) || set -- 1 2 4 8
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 # Open MPI's; others do not read them
columns=$(mktemp -d)
trap 'rm -r "$columns"' EXIT
argument=names
for ranks; do
  mpiexec -n "$ranks" "$program" $argument >"$columns/$(printf %06d "$ranks")"
  argument=
done
echo
paste -d '' "$columns"/*
