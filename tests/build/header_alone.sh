#!/usr/bin/env bash
# header_alone.sh HEADER [FLAG ...]: compiles HEADER with nothing before it, and twice, by the last of $COMPILERS and in the
# newest standard, or $STANDARD. There the standard library includes least by itself. (All tests use the oldest standard.)
set -euo pipefail
header=$1
shift

read -ra compilers <<<"${COMPILERS:?names no compiler}"
standard=${STANDARD:-c++2b}
printf '#include <headroom/%s>\n' "$header" "$header" | "${compilers[-1]}" -std="$standard" "$@" -fsyntax-only -x c++ - ||
  { echo "$header does not compile alone with ${compilers[-1]} -std=$standard" && exit 1; }
