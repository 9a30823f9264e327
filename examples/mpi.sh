#!/usr/bin/env bash
# Data-parallel training under MPI: trains on handwritten digits with 1, 2 and 4 ranks, some of which overflow, fail or are killed. Prints
# for each promise whether it was kept, and ends with 1 if one was not. Installs what is missing on Debian 12.
#   bash examples/mpi.sh [epochs, 400 [seeds, "8 9 10"]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

echo "Takes about two minutes on two idle cores, and several if they are busy."
install_packages openmpi-bin libopenmpi-dev
build_examples mpi_digits
bash tests/examples/mpi_digits.sh "$PWD/$build/examples/example_mpi_digits" "$PWD/examples/data/digits.csv" "${1:-400}" "${2:-8 9 10}"
