#!/usr/bin/env bash
# in_common.sh OBJECT ...: objects compiled with unlike flags have nothing of headroom in common, of which the linker would keep one
# for all, but the chosen instruction set.
set -euo pipefail
in_common=$(for object in "$@"; do
  nm --demangle --defined-only "$object" | sed -nE 's/^[0-9a-f]+ [VWuw] //p' | sort -u
done | sort | uniq --repeated | grep headroom || true)
data=headroom::shared_v1::chosen_isa
[[ $in_common == "$data" ]] || { printf 'in common:\n%s\n' "$in_common" && exit 1; }
