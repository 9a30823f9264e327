#!/usr/bin/env bash
# The examples of GradScaler and AsyncGradScaler, alone, on a bare Debian 12: a libtorch loop that is stopped and resumed, and an
# optimizer in a background thread. Installs what is missing, builds, trains on real digits.
#   bash examples/grad_scaler.sh [output directory]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

install_packages g++ cmake ninja-build libeigen3-dev libtorch-dev

output=${1:-build/examples}
mkdir -p "$output"
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_torch_loop example_async_optimizer
build/release/examples/example_torch_loop examples/data/digits.csv "$output"
echo
build/release/examples/example_async_optimizer examples/data/digits.csv
