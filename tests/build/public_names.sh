#!/usr/bin/env bash
# public_names.sh PROJECT: what is public is what public_names.txt lists: the names in the namespaces headroom, headroom::kernel,
# headroom::presets and headroom::observe, and the macros without DETAIL in their names. Adapters only specialise what others declare.
#   bash public_names.sh PROJECT --write    writes the list
set -euo pipefail
project=$1
list=$project/tests/build/public_names.txt
compiler=$(command -v clang++ clang++-19 | head -1) || { echo "Skipped: there is no clang++." && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$project/include" && find headroom -name '*.hpp' -not -path 'headroom/adapters/*' -not -path 'headroom/kernel/isa/*' |
  LC_ALL=C sort | sed 's,.*,#include <&>,') >"$work/all.cpp"
compile=("$compiler" -std=c++17 "-I$project/include" "$work/all.cpp")

# The parameters of alias and variable templates are in no scope of their own, and clang lists them among the names.
parameters='T|P|To|Tree|Type|Policy|Growth|Backoff|Refill'
{
  "${compile[@]}" -fsyntax-only -Xclang -ast-list -Xclang -ast-dump-filter -Xclang headroom:: |
    sed -nE 's/^headroom::(v[0-9][a-z0-9_]*::)?//p' | grep -vE '^(v[0-9][a-z0-9_]*|detail|shared_v1|boundary_v1)?(::.*)?$' |
    grep -oE '^((kernel|presets|observe)::)?[A-Za-z_0-9]+' | grep -vxE "kernel|presets|observe|operator|boundary_v1|$parameters" || true
  "${compile[@]}" -dM -E | grep -oE '^#define HEADROOM_[A-Z0-9_]+' | sed 's/#define //' | grep -v '^HEADROOM_DETAIL_'
} | LC_ALL=C sort -u >"$work/found"

[[ ${2:-} != --write ]] || cp "$work/found" "$list"
diff --unchanged-line-format= --old-line-format='%L is listed, and gone
' --new-line-format='%L is public, and not listed: put it into detail, or document it and list it
' "$list" "$work/found" | sed 'N;s/\n/ /' && echo "as listed"
