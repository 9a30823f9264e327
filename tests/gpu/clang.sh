#!/usr/bin/env bash
# clang.sh INCLUDE cuda|hip: clang compiles what kernels call as device code, without a header of CUDA or HIP. Like nvcc, it takes no
# function for device code that does not say so (T26). The code for CUDA is then compiled for this CPU, where it gives the host's results.
set -euo pipefail
include=$1 language=$2
clang=$(command -v clang++ || command -v clang++-19) || { echo "clang++ was not found" && exit 77; }
case $language in
  cuda) target=nvptx64 flags=(-nocudainc -nocudalib -Wno-unknown-cuda-version --cuda-gpu-arch=sm_70) ;;
  hip) target=amdgcn flags=(-nogpuinc -nogpulib --offload-arch=gfx906) ;;
esac
grep -qw "$target" <<<"$("$clang" --print-targets)" || { echo "$clang has no $target" && exit 77; }
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

flags+=(-std=c++17 -O2 -Wall -Wextra -Wpedantic -Werror "-I$include" --cuda-device-only -Xclang -fno-cuda-host-device-constexpr)
for space in host device global; do flags+=("-D__${space}__=__attribute__(($space))"); done
"$clang" -x "$language" "${flags[@]}" -S -emit-llvm kernel.cu -o "$work/device.ll"
if output=$("$clang" -x "$language" "${flags[@]}" -DUNANNOTATED -S kernel.cu -o "$work/kernel.s" 2>&1); then
  echo "clang compiles a kernel that calls a host function" && exit 1
fi
grep -q "reference to __host__ function 'inv_scale' in __global__ function" <<<"$output" || { echo "$output" && exit 1; }
if [[ $language == hip ]]; then "$clang" -x hip "${flags[@]}" -S kernel.cu -o "$work/kernel.s" && exit; fi

# Without the target. And internal, so that the linker does not take inline functions of the host in their place.
sed -E '/^target |^\$.* = comdat any$/d; s/,? comdat\b//; s/linkonce_odr( dso_local)?/internal/; s/"target-(cpu|features)"="[^"]*"//g' \
  "$work/device.ll" >"$work/cpu.ll"
"$clang" -x ir -Wno-override-module -c "$work/cpu.ll" -o "$work/device.o"
"$clang" -std=c++17 "-I$include" host.cpp "$work/device.o" -o "$work/program"
"$work/program"
