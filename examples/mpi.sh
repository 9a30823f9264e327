#!/usr/bin/env bash
# Data-parallel training under MPI. Runs alone on a bare Debian 12: installs what is missing, builds, and trains handwritten digits with 1,
# 2 and 4 ranks. Some ranks overflow, fail or are killed. Prints for each promise whether it was kept. Ends with 1 if one was not.
#   bash examples/mpi.sh [epochs, 400 [seeds, "8 9 10"]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

echo "Takes about two minutes on two idle cores, and several if they are busy."
install_packages g++ cmake ninja-build libeigen3-dev openmpi-bin libopenmpi-dev

cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_mpi_digits
bash tests/examples/mpi_digits.sh "$PWD/build/release/examples/example_mpi_digits" "$PWD/examples/data/digits.csv" "${1:-400}" "${2:-8 9 10}"
