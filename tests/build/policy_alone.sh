#!/usr/bin/env bash
# policy_alone.sh INCLUDE FLAG ...: with the header of a policy alone, a call of a verb does not compile, and each of $COMPILERS
# names the header that is missing. With that header the program links and runs.
set -euo pipefail
include=$1 flags=("${@:2}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

program='#include <vector>
int main() { return headroom::DynamicLossScale().unscale(std::vector<float>(3, 8.0F)).report.finite ? 0 : 1; }'
build() { # HEADER ...
  { printf '#include <headroom/%s>\n' "$@" && cat <<<"$program"; } |
    "$compiler" -std=c++17 "${flags[@]}" -I"$include" -x c++ - -o "$work/program" -pthread
}
for compiler in ${COMPILERS:?names no compiler}; do
  if output=$(build policy/dynamic.hpp 2>&1); then echo "links without ops/unscale.hpp with $compiler" && exit 1; fi
  grep -q include_headroom_ops_unscale_hpp <<<"$output" || { printf '%s does not name the header:\n%s\n' "$compiler" "$output" && exit 1; }
  build policy/dynamic.hpp ops/unscale.hpp && "$work/program" || { echo "failed with $compiler" && exit 1; }
done
