#!/usr/bin/env bash
# in_common.sh OBJECT ...: objects compiled with different flags share nothing of headroom, except the chosen instruction set.
# Of anything shared, the linker would keep one copy for all.
set -euo pipefail
in_common=$(for object in "$@"; do
  nm --demangle --defined-only "$object" | sed -nE 's/^[0-9a-f]+ [VWuw] //p' | sort -u
done | sort | uniq --repeated | grep headroom || true)
data=headroom::shared_v1::chosen_isa
[[ $in_common == "$data" ]] || { printf 'in common:\n%s\n' "$in_common" && exit 1; }
