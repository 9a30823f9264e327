#!/usr/bin/env bash
# Which module may include which, and other rules for headers. `bash arrows.sh include/headroom` prints each line that breaks
# one.
set -euo pipefail
cd "$1"

# What a module may include, by the arrows of the architecture. Only kernel/ includes kernel/isa. A module may also include
# itself, except adapters/: an adapter knows one library and no other adapter.
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
  [training]="$base dtype tree kernel ops state policy"
  [observe]="$base dtype tree kernel ops state policy"
  [quantize.hpp]="dtype quantize"
  [quantize]="$base dtype tree kernel ops state policy"
  [adapters]="$base dtype tree ops state policy training"
  [gpu.hpp]="gpu"
  [gpu]="$base dtype tree kernel/sums.hpp ops policy quantize"
)

faults=0
fault() {
  echo "$1"
  faults=$((faults + 1))
}

# A header's module is its folder, or the header itself at the top level. The loops are a module, too: each instruction set
# includes them.
module_of() {
  case $1 in
    kernel/boundary.hpp | kernel/isa.hpp | kernel/sums.hpp) echo "$1" ;;
    kernel/*.inl) echo kernel/kernels.inl ;;
    */*) dirname "$1" ;;
    *) echo "$1" ;;
  esac
}

# The project's headers that file $1 includes, each as "line path". Paths are relative to include/headroom.
own_includes() {
  grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*("|<headroom/)' "$1" | while IFS= read -r line; do
    path=$(sed -E 's/.*include[[:space:]]*["<]([^">]*)[">].*/\1/' <<<"$line")
    case $path in
      headroom/*) path=${path#headroom/} ;;
      *) path=$(realpath --canonicalize-missing --relative-to=. "$(dirname "$1")/$path") ;;
    esac
    echo "${line%%:*} $path"
  done
}

check_includes() {
  local file=$1 module number path target
  module=$(module_of "$file")
  if [[ ! -v may_include[$module] ]]; then
    fault "$file: no module of this name"
    return
  fi
  while read -r number path; do
    [[ -n $path ]] || continue
    [[ -f $path ]] || fault "$file:$number: no such header: $path"
    target=$(module_of "$path")
    if [[ $target == "$module" && $module != adapters ]]; then continue; fi
    [[ " ${may_include[$module]} " == *" $target "* ]] || fault "$file:$number: $module may not include $target ($path)"
  done < <(own_includes "$file")
}

# Prints the lines of $1 whose code matches the pattern $2, each as "number:line". Ignores // comments.
code_matching() { sed -E 's,//.*,,' "$1" | grep -nE "$2" || true; }

check_code() {
  local file=$1 pattern=$2 why=$3 line
  while IFS= read -r line; do
    [[ -z $line ]] || fault "$file:${line%%:*}: $why"
  done < <(code_matching "$file" "$pattern")
}

# The umbrella is a sorted list of the project's headers without adapters, and nothing else.
check_umbrella() {
  local own line list
  own='^[[:space:]]*($|#[[:space:]]*(pragma once|ifndef HEADROOM_|define HEADROOM_|endif|include[[:space:]]*("|<headroom/)))'
  while IFS= read -r line; do
    [[ -z $line ]] || fault "headroom.hpp:$line: something else than an include"
  done < <(sed -E 's,//.*,,' headroom.hpp | grep -nvE "$own" || true)
  check_code headroom.hpp 'include.*adapters/' "an adapter in the umbrella"
  list=$(own_includes headroom.hpp | cut -d ' ' -f 2)
  LC_ALL=C sort --check <<<"$list" || fault "headroom.hpp: not sorted"
}

while IFS= read -r file; do
  check_code "$file" '\b(isfinite|isnan|isinf)[[:space:]]*\(' "classification in the floating-point domain folds away under -ffast-math"
  check_code "$file" 'std::(cout|cerr|clog)|\b(f|v|vf)?printf[[:space:]]*\(|\bputs[[:space:]]*\(' "library code does not print"
  [[ $file == detail/* ]] || check_code "$file" '\b(exit|abort)[[:space:]]*\(' "library code does not exit"
  [[ $file == kernel/isa[./]* ]] || check_code "$file" 'include.*<(immintrin|x86intrin|cpuid|arm_neon)\.h>' "SIMD outside kernel/isa"
  # Every unit that includes the umbrella pays for these. A few lines of our own replace most of them.
  [[ $file =~ ^(adapters/|observe/|ops/executor\.hpp|training/async_grad_scaler\.hpp|state/text\.hpp) ]] ||
    check_code "$file" 'include.*<(iterator|numeric|iostream|sstream|charconv|chrono|thread|mutex|future|regex)>' "a heavy header of the standard library"
  [[ $file == headroom.hpp ]] || check_includes "$file"
done < <(find . -type f -printf '%P\n' | LC_ALL=C sort)
check_umbrella

echo "$faults faults"
((faults == 0))
