#!/usr/bin/env bash
# The examples of GradScaler and AsyncGradScaler: a libtorch loop that is stopped and resumed, and an optimizer in a background thread.
# Runs alone on a bare Debian 12: installs what is missing, builds, and trains on handwritten digits. Ends with 1 if the resumed training
# or the background thread changes a bit of the weights.
#   bash examples/grad_scaler.sh [output directory]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

echo "Takes about three minutes on two idle cores, and more if libtorch has to be installed (510 MB)."
install_packages g++ cmake ninja-build libeigen3-dev libtorch-dev

output=${1:-build/examples}
mkdir -p "$output"
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_torch_loop example_async_optimizer
build/release/examples/example_torch_loop examples/data/digits.csv "$output"
echo
build/release/examples/example_async_optimizer examples/data/digits.csv
