#!/usr/bin/env bash
# Measures unscaling of fp16 gradients against the limits of the machine and against Eigen: GB/s of bytes read and written, the
# median of many runs in random order. Installs what is missing on Debian 12.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh
install_packages g++ cmake ninja-build libeigen3-dev libbenchmark-dev

cmake -S . -B build/benchmarks -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_BENCHMARKS=ON \
  -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=OFF
cmake --build build/benchmarks
build/benchmarks/benchmarks/benchmark_unscale --benchmark_enable_random_interleaving=true --benchmark_repetitions=15 \
  --benchmark_min_time=0.05 --benchmark_report_aggregates_only=true "$@" | grep -E 'Benchmark|_median' | sed 's/_median//'
