#!/usr/bin/env bash
# torch2.sh PROJECT TORCH FLAG ...: compiles and runs the tests of the adapter's tensors with torch 2, if TORCH is its folder.
set -euo pipefail
project=$1 torch=$2
[[ -f $torch/lib/libtorch_cpu.so ]] || { echo "torch 2 was not found: set HEADROOM_TEST_TORCH2" && exit 77; }
[[ -f /usr/include/catch2/catch.hpp ]] || { echo "Catch2 version 2 was not found" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

g++ -std=c++20 -O0 "${@:3}" -DCATCH_CONFIG_MAIN -I"$project/include" -I"$project/tests" -isystem "$torch/include" \
  -isystem "$torch/include/torch/csrc/api/include" "$project/tests/adapters/torch_tensor.cpp" -o "$work/test" \
  "$torch/lib/libtorch_cpu.so" "$torch/lib/libc10.so" -Wl,-rpath,"$torch/lib"
OMP_NUM_THREADS=1 "$work/test" # small tensors: more threads would wait for each other
