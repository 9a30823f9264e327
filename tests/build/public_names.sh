#!/usr/bin/env bash
# public_names.sh PROJECT: what is public is what docs/reference.md lists in the first columns of its tables: the names in the
# namespaces headroom, headroom::kernel and headroom::presets, and the macros without DETAIL in their names. Adapters
# are left out: each needs its library, and most only specialise what others declare.
set -euo pipefail
export LC_ALL=C
project=$1
reference=$project/docs/reference.md
compiler=$(command -v clang++ || command -v clang++-19) || { echo "Skipped: there is no clang++." && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$project/include" && find headroom -name '*.hpp' -not -path 'headroom/adapters/*' -not -path 'headroom/kernel/isa/*' |
  sort | sed 's,.*,#include <&>,') >"$work/all.cpp"
compile=("$compiler" -std=c++17 "-I$project/include" "$work/all.cpp")
"${compile[@]}" -fsyntax-only -Xclang -ast-list -Xclang -ast-dump-filter -Xclang headroom:: >"$work/names"
"${compile[@]}" -dM -E >"$work/macros"

# The parameters of alias and variable templates are in no scope of their own, and clang lists them among the names.
parameters='T|P|To|Tree|Type|Policy|Growth|Backoff|Refill'
{
  sed -nE 's/^headroom::(v[0-9][a-z0-9_]*::)?//p' "$work/names" | grep -vE '^(v[0-9][a-z0-9_]*|detail|shared_v1|boundary_v2)?(::.*)?$' |
    grep -oE '^((kernel|presets)::)?[A-Za-z_0-9]+' | grep -vxE "kernel|presets|operator|boundary_v2|$parameters"
  grep -oE '^#define HEADROOM_[A-Z0-9_]+' "$work/macros" | sed 's/#define //' | grep -v '^HEADROOM_DETAIL_'
} | sort -u >"$work/found"

# In the first column: `name`, `name`. The heads of the tables name folders and headers.
sed -nE 's/^\| (`[^|]*`) \|.*/\1/p' "$reference" | grep -oE '`[^`]+`' | tr -d '`' | grep -vE '/$|\.hpp$' | sort >"$work/listed"

faults=0
fault() { printf '%s\n' "$1" && faults=$((faults + 1)); }
while read -r name; do fault "$name is public, and not in docs/reference.md: put it into detail, or document it"; done < <(comm -13 "$work/listed" "$work/found")
while read -r name; do fault "$name is in docs/reference.md, and not there, or twice"; done < <(comm -23 "$work/listed" "$work/found")
echo "$faults faults"
((faults == 0))
