#!/usr/bin/env bash
# traps.sh include/headroom: finds compiler traps of target regions in the source of kernel/isa and of the loops. Tests of
# behaviour cover the others, under the number of the trap: T1 ... T3, T7, T8, T10 ... T12, T15 ... T26.
set -euo pipefail
cd "$1/kernel"

faults=0
# refuse TRAP WHY PATTERN FILE ...: fails if a line of code of the files matches the pattern.
refuse() {
  local trap=$1 why=$2 pattern=$3
  shift 3
  if grep -nHE "$pattern" "$@" | grep -vE '^[^:]+:[0-9]+: *//'; then
    echo "$trap: $why"
    faults=$((faults + 1))
  fi
}
mapfile -t loops < <(grep -l 'include <headroom/kernel/kernels.inl>' isa/*.hpp | grep -vx isa/scalar.hpp)
loops+=(isa/registers.inl isa/x86.inl isa/blocks.inl kernels.inl measure.inl)

refuse T4 "a lambda does not inherit the target of its function" '\[[&=]?\] *\(' "${loops[@]}"
refuse T5 "g++ leaves friends defined in a class out of the region" '\bfriend\b' "${loops[@]}"
refuse T6 "always_inline fails where the caller has not the target; the loop is included in the region instead" 'always_inline' "${loops[@]}"
refuse T9 "__AVX2__ and its like say nothing inside a region" '__(AVX|SSE|F16C|FMA)[0-9A-Z_]*__' "${loops[@]}"
refuse T13 "a raw register loses its alignment as a template argument: wrap it in a struct" '<[^<>]*__m(128|256|512)[id]?[ ,>]' "${loops[@]}"
refuse T18 "a constant outside of functions may be initialised with another instruction set" '^(inline |static |constexpr |const )+__m(128|256|512)[id]? [a-z_0-9]+ *[={]' "${loops[@]}"

# T14: clang warns about a region without a function. So open a region only before functions, and end it before the next.
refuse T14 "a region is opened by HEADROOM_DETAIL_BEGIN_TARGET" '#pragma (clang attribute|GCC (push_options|target))' isa/*.hpp *.inl
for file in isa/*.hpp; do
  regions=$(grep -oE '^HEADROOM_DETAIL_(BEGIN|END)_TARGET' "$file" | tr -d '\n' || true)
  while [[ $regions == HEADROOM_DETAIL_BEGIN_TARGETHEADROOM_DETAIL_END_TARGET* ]]; do regions=${regions#*END_TARGET}; done
  [[ -z $regions ]] || { echo "T14: in $file BEGIN and END do not take turns" && faults=$((faults + 1)); }
done

echo "$faults faults"
((faults == 0))
