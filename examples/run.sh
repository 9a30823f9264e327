#!/usr/bin/env bash
# The main example, alone, on a bare Debian 12: installs what is missing, builds, trains on real digits in six ways, draws a picture.
#   bash examples/run.sh [output directory [epochs [seed]]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

install_packages g++ cmake ninja-build libeigen3-dev
install_packages gnuplot-nox || echo "Going on without gnuplot: no picture is drawn."

output=${1:-build/examples}
mkdir -p "$output"
echo "Building takes half a minute, the trainings about 20 seconds."
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_digits
build/release/examples/example_digits examples/data/digits.csv "$output" "${@:2}" | tee "$output/digits.log"

if command -v gnuplot >/dev/null; then
  gnuplot -e "csv='$output/digits.csv'; png='$output/digits.png'" examples/plot_digits.gp
  echo "Picture: $output/digits.png"
else
  echo "No gnuplot, so no picture of $output/digits.csv."
fi
