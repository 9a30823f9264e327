#!/usr/bin/env bash
# header_alone.sh HEADER [FLAG ...]: HEADER compiles with nothing before it, and twice, with the first of $COMPILERS in the oldest
# standard and with the last in the newest, or those of $STANDARDS. (All others are among the flags that everything.cpp is compiled
# with.)
set -euo pipefail
header=$1
shift

read -ra compilers <<<"${COMPILERS:?names no compiler}"
read -r oldest newest <<<"${STANDARDS:-c++17 c++2b}"
check() {
  printf '#include <headroom/%s>\n' "$header" "$header" | "$1" -std="$2" "${@:3}" -fsyntax-only -x c++ - ||
    { echo "$header does not compile alone with $1 -std=$2" && exit 1; }
}
check "${compilers[0]}" "$oldest" "$@"
check "${compilers[-1]}" "$newest" "$@"
