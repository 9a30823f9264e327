#!/usr/bin/env bash
# Which module may include which, and other rules for headers. `bash arrows.sh include/headroom` prints each line that breaks
# one.
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
)

faults=0
fault() { echo "$1" && faults=$((faults + 1)); }

# A header's module is its folder, or the header itself at the top level. The loops are a module, too: each instruction set
# includes them.
module_of() {
  case $1 in
    kernel/boundary.hpp | kernel/isa.hpp | kernel/sums.hpp | quantize/rules.hpp) echo "$1" ;;
    kernel/*.inl) echo kernel/kernels.inl ;;
    */*) dirname "$1" ;;
    *) echo "$1" ;;
  esac
}

# All lines as file:line:code, without // comments.
code=$(find . -type f -printf '%P\n' | LC_ALL=C sort | xargs grep -n '' | sed 's,//.*,,')

# refuse WHY PATTERN [FILES]: no code matches the pattern, except in files that the second pattern matches.
refuse() {
  local line
  while IFS= read -r line; do fault "$line: $1"; done < <(grep -E "^[^:]+:[0-9]+:.*($2)" <<<"$code" | grep -vE "^(${3:-nothing})" | cut -d : -f 1,2)
}
refuse "classification in the floating-point domain folds away under -ffast-math" '\b(isfinite|isnan|isinf)[[:space:]]*\('
refuse "library code does not print" 'std::(cout|cerr|clog)|\b(f|v|vf)?printf[[:space:]]*\(|\bputs[[:space:]]*\('
refuse "library code does not exit" '\b(exit|abort)[[:space:]]*\(' detail/
refuse "SIMD outside kernel/isa" 'include.*<(immintrin|x86intrin|cpuid|arm_neon)\.h>' 'kernel/isa[./]'
# Every unit that includes the umbrella pays for these. A few lines of our own replace most of them.
refuse "a heavy header of the standard library" 'include.*<(iterator|numeric|iostream|sstream|charconv|chrono|thread|mutex|future|regex)>' \
  'adapters/|observe/|ops/executor\.hpp|training/async_grad_scaler\.hpp|state/text\.hpp'
refuse "not as <headroom/...>" '# *include *"'

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
