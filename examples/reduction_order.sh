#!/usr/bin/env bash
# In which order should ranks scale, sum and unscale their gradients? Builds the example and prints its table, in seconds, alone, on a
# bare Debian 12.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh
install_packages g++ cmake ninja-build libeigen3-dev
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_reduction_order
build/release/examples/example_reduction_order examples/data/digits.csv
