#!/usr/bin/env bash
# The order in which ranks scale, sum and unscale their gradients, and what each order costs. Runs alone on a bare Debian 12: installs what
# is missing, builds, and prints a table.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh
echo "Takes half a minute, most of it to build."
install_packages g++ cmake ninja-build libeigen3-dev
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_reduction_order
build/release/examples/example_reduction_order examples/data/digits.csv
