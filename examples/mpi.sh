#!/usr/bin/env bash
# Data-parallel training under MPI: trains on handwritten digits with 1 to 4 ranks, some of which overflow, fail or are killed. Prints
# for each promise whether it was kept, and ends with 1 if one was not. Installs what is missing on Debian 12.
#   bash examples/mpi.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

install_packages openmpi-bin libopenmpi-dev
build_examples mpi_digits
bash tests/examples/mpi_digits.sh "$PWD/$build/examples/example_mpi_digits" "$PWD/examples/data/digits.csv"
