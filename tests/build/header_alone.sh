#!/usr/bin/env bash
# header_alone.sh HEADER [FLAG ...]: HEADER compiles with nothing before it, and twice, with each of $COMPILERS in the oldest and the
# newest standard, or those of $STANDARDS. (What lies between is among the flags that everything.cpp is compiled with.)
set -euo pipefail
header=$1
shift

for compiler in ${COMPILERS:?names no compiler}; do
  for standard in ${STANDARDS:-c++17 c++2b}; do
    printf '#include <headroom/%s>\n' "$header" "$header" | "$compiler" -std=$standard "$@" -fsyntax-only -x c++ - ||
      { echo "$header does not compile alone with $compiler -std=$standard" && exit 1; }
  done
done
