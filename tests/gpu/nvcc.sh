#!/usr/bin/env bash
# nvcc.sh INCLUDE: T24, T25, T26: nvcc compiles all of headroom without flags and warnings. The program runs without a GPU, with a .cpp first or last.
# NVDISASM: the program that lists instructions, if it is neither in the PATH nor beside nvcc; `pip install nvidia-cuda-nvdisasm` has it.
set -euo pipefail
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || { echo "nvcc was not found" && exit 77; }
include=$1
cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compile=("$nvcc" -Werror all-warnings "-I$include")
"${compile[@]}" -std=c++17 -c everything.cu -o "$work/cu.o"
"${compile[@]}" -std=c++20 -cuda everything.cu -o "$work/everything.ii"
if output=$("${compile[@]}" -std=c++17 -DUNANNOTATED -cuda kernel.cu -o "$work/kernel.ii" 2>&1); then
  echo "nvcc compiles a kernel that calls a host function" && exit 1
fi
grep -q 'calling a constexpr __host__ function("inv_scale") from a __global__ function' <<<"$output" || { echo "$output" && exit 1; }

# The recipe of docs/notes/gpu.md for a conditional node. It needs a GPU to run.
sed -n '/test: gpu_conditional/,/^```$/p' ../../docs/notes/gpu.md | sed '1,2d;$d' >"$work/if_taken.hpp"
"${compile[@]}" -std=c++17 "-I$work" conditional.cu -o "$work/conditional"

# With -use_fast_math, too, kernels flush no subnormal gradient.
printf '#include <headroom/gpu.hpp>\ntemplate class headroom::gpu::%s;\n' 'Scaler<>' \
  'TensorScales<headroom::float8_e4m3>' >"$work/kernels.cu"
"${compile[@]}" -std=c++17 -use_fast_math -ptx "$work/kernels.cu" -o "$work/kernels.ptx"
if sed -n '/\(entry\|func\).*\(measure\|unscale\|quantize\)_.*($/,/^}/p' "$work/kernels.ptx" | tee "$work/ptx" | grep ftz; then
  echo "nvcc compiles kernels that flush subnormal numbers" && exit 1
fi
[[ $(grep -c entry "$work/ptx") == 5 ]] || { echo "kernels are missing" && exit 1; }

# Registers, spills and instructions: the limits are those of nvcc 13.0.
codes=() listings=()
for code in $("$nvcc" --list-gpu-code | grep -xE 'sm_(80|90|100|120)'); do codes+=(-gencode "arch=${code/sm/compute},code=$code"); done
mkdir "$work/code"
"${compile[@]}" -std=c++17 "${codes[@]}" --threads 2 -Xptxas -v -c --keep --keep-dir "$work/code" "$work/kernels.cu" \
  -o "$work/kernels.o" 2>"$work/log" || { cat "$work/log" && exit 1; }
if nvdisasm=$(command -v "${NVDISASM:-nvdisasm}" || command -v "$(dirname "$nvcc")/nvdisasm"); then
  for cubin in "$work"/code/*.cubin; do "$nvdisasm" -c "$cubin" >"$cubin.sass" && listings+=("$cubin.sass"); done
fi
python3 kernels.py kernels.txt "$work/log" "${listings[@]}" || ! "$nvcc" --version | grep 'release 13\.0' || exit 1

# The .cu and the .cpp may share inline functions, so their tables of kernels must be equal: the .cu has those for AVX-512, too.
kernels() { nm --demangle --defined-only "$work/cu.o" | grep -o "$1::Kernels::.*" | sed "s/$1/isa/g" | sort; }
[[ $(kernels avx2) == "$(kernels avx512)" ]] || { echo "nvcc compiles other kernels for AVX-512 than for AVX2" && exit 1; }
g++ -std=c++17 "-I$include" -x c++ -c everything.cu -o "$work/cpp.o"
for order in "cu cpp" "cpp cu"; do
  read -r first last <<<"$order"
  "$nvcc" "$work/$first.o" "$work/$last.o" -o "$work/program" && "$work/program"
done
