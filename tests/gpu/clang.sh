#!/usr/bin/env bash
# clang.sh INCLUDE cuda|hip: clang compiles what kernels call as device code, without a header of CUDA or HIP. Like nvcc, it takes no
# function for device code that does not say so (T26). The code for CUDA is then compiled for this CPU, where it gives the host's results.
# clang 19 also compiles all of headroom/gpu.hpp for AMD, with the names of HIP in hip/.
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
if [[ $language == hip ]]; then
  "$clang" -x hip "${flags[@]}" -S kernel.cu -o "$work/kernel.s"
  clang=$(command -v clang++-19 || echo "$clang")
  (($("$clang" -dumpversion | cut -d . -f 1) >= 19)) || { echo "clang 19 was not found: no kernels" && exit; }
  printf '#include <headroom/gpu.hpp>\ntemplate class headroom::gpu::%s;\n' 'Scaler<>' 'TensorScales<headroom::float8_e4m3>' >"$work/kernels.cu"
  printf '__global__ void rounds(float* p) {\n  using namespace headroom::gpu::detail;\n  *p = div(add(*p, mul(p[1], p[2])), p[3]);\n}' >>"$work/kernels.cu"
  for target in gfx90a gfx942 gfx1100 "gfx90a -ffast-math -ffp-contract=fast"; do
    read -ra target <<<"$target"
    "$clang" -x hip "${flags[@]/gfx906/${target[0]}}" "${target[@]:1}" -Ihip -S "$work/kernels.cu" -o "$work/kernels.s"
    kernels=$(grep -oP '\.amdhsa_kernel .*[0-9]\K[a-z]+(_scales)?(?=_kernel)' "$work/kernels.s" | sort | paste -sd ' ')
    [[ $kernels == "assign measure quantize quantize total try unscale unscale update update_scales" ]] || { echo "kernels: $kernels" && exit 1; }
    # All keep their values in registers, and subnormal numbers.
    for line in 'vgpr_spill_count: *0' 'amdhsa_float_denorm_mode_32 3'; do
      [[ $(grep -c "\.$line\$" "$work/kernels.s") == 11 ]] || { echo "${target[*]}: not all kernels have $line" && exit 1; }
    done
    # Each operation is rounded: a division is not by the reciprocal, a product and a sum are not one instruction.
    sed -n '/^_Z6rounds/,/s_endpgm/p' "$work/kernels.s" >"$work/rounds.s"
    for operation in mul_f32 add_f32 div_fixup_f64; do grep -q "v_.*$operation" "$work/rounds.s" || { echo "no $operation" && exit 1; }; done
    if grep -E 'v_.*(fma|mad|mac).*_f32' "$work/rounds.s"; then echo "${target[*]}: contracted" && exit 1; fi
  done
  exit
fi

# Without the target. And internal, so that the linker does not take inline functions of the host in their place.
sed -E '/^target |^\$.* = comdat any$/d; s/,? comdat\b//; s/linkonce_odr( dso_local)?/internal/; s/"target-(cpu|features)"="[^"]*"//g' \
  "$work/device.ll" >"$work/cpu.ll"
"$clang" -x ir -Wno-override-module -c "$work/cpu.ll" -o "$work/device.o"
"$clang" -std=c++17 "-I$include" host.cpp "$work/device.o" -o "$work/program"
"$work/program"
