#!/usr/bin/env bash
# compile.sh FLAG ...: each of $COMPILERS compiles what the flags say, and the object is thrown away.
set -euo pipefail
for compiler in ${COMPILERS:?names no compiler}; do
  "$compiler" -std=c++17 "$@" -c -o /dev/null || { echo "failed with $compiler $*" && exit 1; }
done
