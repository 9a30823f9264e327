#!/usr/bin/env bash
# Which loss scale would have served better: takes every policy through recorded and made-up gradients, prints a table, draws a
# picture. Alone, on a bare Debian 12: installs what is missing.
#   bash examples/compare_policies.sh [output directory [epochs [trace.csv …]]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

install_packages g++ cmake ninja-build libeigen3-dev
install_packages gnuplot-nox || echo "Going on without gnuplot: no picture is drawn."

output=${1:-build/examples}
mkdir -p "$output"
echo "Building takes half a minute, the rest about 20 seconds."
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_compare_policies
build/release/examples/example_compare_policies examples/data/digits.csv "$output" "${@:2}" | tee "$output/compare_policies.log"

if command -v gnuplot >/dev/null; then
  gnuplot -e "directory='$output'; png='$output/policies.png'" examples/plot_policies.gp
  echo "Picture: $output/policies.png"
else
  echo "No gnuplot, so no picture of $output/policies.csv."
fi
