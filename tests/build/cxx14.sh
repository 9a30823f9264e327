#!/usr/bin/env bash
# cxx14.sh FOLDER: in C++14 the first error of each header below FOLDER/headroom is "headroom needs C++17". With the first of $COMPILERS.
set -euo pipefail
cd "$1"

read -ra compilers <<<"${COMPILERS:?names no compiler}"
while IFS= read -r header; do
  output=$(printf '#include <%s>\n' "$header" | "${compilers[0]}" -std=c++14 -Wfatal-errors -I. -fsyntax-only -x c++ - 2>&1 || true)
  first=$(grep -m 1 'error: ' <<<"$output" || true)
  [[ $first == *'"headroom needs C++17"' ]] || { printf '%s:\n%s\n' "$header" "$output" && exit 1; }
done < <(find headroom -name '*.hpp' ! -name version.hpp)
