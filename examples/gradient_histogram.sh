#!/usr/bin/env bash
# How much of the gradients fp16 would lose: trains on real digits in float, counts the gradients by their binary exponents, prints
# bars and a table, draws a picture. Alone, on a bare Debian 12: installs what is missing.
#   bash examples/gradient_histogram.sh [output directory [epochs]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

install_packages g++ cmake ninja-build libeigen3-dev
install_packages gnuplot-nox || echo "Going on without gnuplot: no picture is drawn."

output=${1:-build/examples}
mkdir -p "$output"
echo "Building takes half a minute, the training about 5 seconds."
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_gradient_histogram
build/release/examples/example_gradient_histogram examples/data/digits.csv "$output" "${@:2}" | tee "$output/gradient_histogram.log"

if command -v gnuplot >/dev/null; then
  gnuplot -e "directory='$output'; png='$output/gradients.png'" examples/plot_gradients.gp
  echo "Picture: $output/gradients.png"
else
  echo "No gnuplot, so no picture of $output/gradients.csv."
fi
