#!/usr/bin/env bash
# Data-parallel training under MPI, alone, on a bare Debian 12: installs what is missing, builds, trains handwritten digits with 1, 2 and 4
# ranks, overflows, fails and kills some of them, and says what came of it.
#   bash examples/mpi.sh [epochs, 400 [seeds, "8 9 10"]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

install_packages g++ cmake ninja-build libeigen3-dev openmpi-bin libopenmpi-dev

cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_mpi_digits
bash tests/examples/mpi_digits.sh "$PWD/build/release/examples/example_mpi_digits" "$PWD/examples/data/digits.csv" "${1:-400}" "${2:-8 9 10}"
