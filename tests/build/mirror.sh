#!/usr/bin/env bash
# mirror.sh PROJECT: each header with logic has a test of the same path: include/headroom/policy/dynamic.hpp has
# tests/policy/dynamic.cpp.
set -euo pipefail
cd "$1"

# Headers whose logic is tested through others, and the place of those tests.
declare -A elsewhere=(
  [config.hpp]="build/flags"
  [kernel/boundary.hpp]="kernel" # data only
)

faults=0
fault() { printf '%s\n' "$1" && faults=$((faults + 1)); }

# Whether a header contains more than includes, macro declarations, comments and empty lines.
has_logic() { [[ -n $(sed -E 's,//.*,,' "$1" | grep -vE '^[[:space:]]*($|#|HEADROOM_DETAIL_|namespace |\}|using )') ]]; }

while IFS= read -r header; do
  has_logic "include/headroom/$header" || continue
  test=${elsewhere[$header]:-${header%.*}.cpp}
  [[ $header != kernel/isa/* ]] || test=kernel # each test of the kernels runs on all instruction sets
  [[ -e tests/$test ]] || fault "$header has no tests/$test"
done < <(cd include/headroom && find . -name '*.hpp' -printf '%P\n' | LC_ALL=C sort)

echo "$faults faults"
((faults == 0))
