#!/usr/bin/env bash
# compile.sh FLAG ...: compiles with each of $COMPILERS and these flags, and discards the object.
set -euo pipefail
for compiler in ${COMPILERS:?names no compiler}; do
  "$compiler" -std=c++17 "$@" -c -o /dev/null || { echo "failed with $compiler $*" && exit 1; }
done
