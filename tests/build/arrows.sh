#!/usr/bin/env bash
# Which module may include which, and other rules for headers. `bash arrows.sh include/headroom` prints each line that breaks
# one. Compiler traps of target regions (docs/notes/numerics.md) have their numbers; tests of behaviour cover the other traps.
set -euo pipefail
cd "$1"

# What a module may include, by the arrows of the architecture: the core, then the four wings, which nothing in the core includes. Only
# kernel/ includes kernel/isa. A module may also include itself, except adapters/: an adapter knows one library and no other adapter.
base="config.hpp report.hpp detail"
declare -A may_include=(
  [version.hpp]=""
  [config.hpp]="version.hpp"
  [report.hpp]="config.hpp"
  [detail]="config.hpp"
  [dtype]="$base"
  [kernel/boundary.hpp]="config.hpp"
  [kernel/isa.hpp]="$base"
  [kernel/sums.hpp]="config.hpp"
  [kernel/isa]="$base dtype kernel/boundary.hpp kernel/isa.hpp kernel/sums.hpp kernel/kernels.inl"
  [kernel/kernels.inl]=""
  [kernel]="$base dtype kernel/boundary.hpp kernel/isa.hpp kernel/sums.hpp kernel/isa"
  [tree]="$base dtype"
  [ops]="$base dtype tree kernel kernel/sums.hpp"
  [state]="$base dtype"
  [policy]="$base dtype state"
  [training]="$base dtype tree ops state policy"
  # the wings
  [observe]="$base dtype ops state policy"
  [quantize.hpp]="quantize"
  [quantize]="$base dtype tree kernel ops state quantize/rules.hpp"
  [quantize/rules.hpp]="$base dtype"
  [gpu.hpp]="gpu"
  [gpu]="$base dtype tree kernel/sums.hpp ops policy quantize/rules.hpp"
  [adapters]="$base dtype tree ops state training"
  [adapters/torch_cuda.hpp]="adapters policy gpu"
)

faults=0
fault() { echo "$1" && faults=$((faults + 1)); }

# A header's module is its folder, or the header itself at the top level. The loops are a module, too: each instruction set
# includes them.
module_of() {
  case $1 in
    kernel/boundary.hpp | kernel/isa.hpp | kernel/sums.hpp | quantize/rules.hpp | adapters/torch_cuda.hpp) echo "$1" ;;
    kernel/*.inl) echo kernel/kernels.inl ;;
    */*) dirname "$1" ;;
    *) echo "$1" ;;
  esac
}

# All lines as file:line:code, without // comments.
code=$(find . -type f -printf '%P\n' | LC_ALL=C sort | xargs grep -n '' | sed 's,//.*,,')

# refuse WHY PATTERN [EXCEPT [FILES]]: no code of the files matches the pattern, except in those that EXCEPT matches.
refuse() {
  local line
  while IFS= read -r line; do fault "$line: $1"; done < <(grep -P "^(${4:-[^:]+}):[0-9]+:.*($2)" <<<"$code" | grep -vE "^(${3:-nothing})" | cut -d : -f 1,2)
}
refuse "classification in the floating-point domain folds away under -ffast-math" '\b(isfinite|isnan|isinf)[[:space:]]*\('
refuse "library code does not print" 'std::(cout|cerr|clog)|\b(f|v|vf)?printf[[:space:]]*\(|\bputs[[:space:]]*\('
refuse "library code does not exit" '\b(exit|abort)[[:space:]]*\(' detail/
refuse "SIMD outside kernel/isa" 'include.*<(immintrin|x86intrin|cpuid|arm_neon)\.h>' 'kernel/isa[./]'
# Every unit that includes the umbrella pays for these. A few lines of our own replace most of them.
refuse "a heavy header of the standard library" 'include.*<(iterator|numeric|iostream|sstream|charconv|chrono|thread|mutex|future|regex)>' \
  'adapters/|observe/|training/async_grad_scaler\.hpp|state/text\.hpp'
refuse "not as <headroom/...>" '# *include *"'

# The loops over elements in target regions, and what they call.
region() { refuse "$1" "$2" 'kernel/isa/(scalar|common)\.' 'kernel/(isa/[^:]*|(kernels|measure)\.inl)'; }
region "T4: a lambda does not inherit the target of its function" '\[[&=]?\] *\('
region "T5: g++ leaves friends defined in a class out of the region" '\bfriend\b'
refuse "T6: always_inline fails where the caller has not the target; the loop is included in the region instead" 'always_inline' \
  'kernel/measure\.inl' 'kernel/(isa/[^:]*|kernels\.inl)' # measure's own callers are in the region
region "T9: __AVX2__ and its like say nothing inside a region" '__(AVX|SSE|F16C|FMA)[0-9A-Z_]*__'
region "T13: a raw register loses its alignment as a template argument: wrap it in a struct" '<[^<>]*__m(128|256|512)[id]?[ ,>]'
region "T18: a constant outside of functions may be initialised with another instruction set" \
  '(?<=[0-9]:)(inline |static |constexpr |const )+__m(128|256|512)[id]? [a-z_0-9]+ *[={]'
# T14: clang warns about a region without a function. So open a region only before functions, and end it before the next.
refuse "T14: a region is opened by HEADROOM_DETAIL_BEGIN_TARGET" '#pragma (clang attribute|GCC (push_options|target))' '' 'kernel/.*'
for file in kernel/isa/*.hpp; do
  regions=$(grep -oE '^HEADROOM_DETAIL_(BEGIN|END)_TARGET' "$file" | paste -sd ' ' || true)
  [[ $regions =~ ^(HEADROOM_DETAIL_BEGIN_TARGET HEADROOM_DETAIL_END_TARGET ?)*$ ]] || fault "$file: T14: BEGIN and END do not take turns"
done

while IFS=: read -r file line include; do
  path=${include#*headroom/}
  module=$(module_of "$file") target=$(module_of "$path")
  [[ -f $path ]] || fault "$file:$line: no such header: $path"
  [[ -v may_include[$module] ]] || fault "$file: no module of this name"
  if [[ $target == "$module" && $module != adapters ]]; then continue; fi
  [[ " ${may_include[$module]-} " == *" $target "* ]] || fault "$file:$line: $module may not include $target ($path)"
done < <(grep -oE '^[^:]+:[0-9]+: *# *include *<headroom/[^>]*' <<<"$code" | grep -v '^headroom\.hpp:')

# The umbrella is a sorted list of the project's headers of the core, and nothing else.
umbrella=$(sed -nE 's/^headroom\.hpp:[0-9]+:(.*[^ ].*)/\1/p' <<<"$code")
grep -vE '^#pragma once$|^#include <headroom/' <<<"$umbrella" && fault "headroom.hpp: something else than an include"
grep -E '(gpu|quantize|observe|adapters)/' <<<"$umbrella" && fault "headroom.hpp: a wing in the umbrella"
grep include <<<"$umbrella" | LC_ALL=C sort --check || fault "headroom.hpp: not sorted"

echo "$faults faults"
((faults == 0))
