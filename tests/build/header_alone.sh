#!/usr/bin/env bash
# header_alone.sh HEADER [FLAG ...]: HEADER compiles with nothing before it, and twice, with the last of $COMPILERS and in the newest
# standard, or $STANDARD: there the standard library includes least by itself. (The oldest is that of all tests.)
set -euo pipefail
header=$1
shift

read -ra compilers <<<"${COMPILERS:?names no compiler}"
standard=${STANDARD:-c++2b}
printf '#include <headroom/%s>\n' "$header" "$header" | "${compilers[-1]}" -std="$standard" "$@" -fsyntax-only -x c++ - ||
  { echo "$header does not compile alone with ${compilers[-1]} -std=$standard" && exit 1; }
