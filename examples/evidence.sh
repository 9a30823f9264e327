#!/usr/bin/env bash
# What loss scaling is worth on three networks, and what the mistakes of other systems cost: trains them over many seeds, prints
# tables, draws pictures. 10 seeds take about 25 minutes on two cores; stopped and started again, it goes on. Alone, on a bare
# Debian 12: installs what is missing.
#   bash examples/evidence.sh [output directory [seeds]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

install_packages g++ cmake ninja-build libeigen3-dev
install_packages gnuplot-nox || echo "Going on without gnuplot: no picture is drawn."

# For this machine alone: the products of matrices are Eigen's, which chooses instructions when it is compiled.
output=${1:-build/examples}
mkdir -p "$output"
echo "Building takes a minute, the trainings ${2:-10} times 2.5 minutes on two idle cores."
cmake -S . -B build/evidence -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS=-march=native -DHEADROOM_BUILD_TESTS=OFF \
  -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/evidence --target example_evidence
build/evidence/examples/example_evidence examples/data/digits.csv "$output" "${@:2}" | tee "$output/evidence.log"

if command -v gnuplot >/dev/null; then
  for kind in policy fault; do
    gnuplot -e "csv='$output/evidence_differences.csv'; kind='$kind'; png='$output/evidence_$kind.png'" examples/plot_evidence.gp
    echo "Picture: $output/evidence_$kind.png"
  done
  gnuplot -e "directory='$output'; png='$output/evidence_scales.png'" examples/plot_evidence_scales.gp
  echo "Picture: $output/evidence_scales.png"
else
  echo "No gnuplot, so no pictures of $output/evidence_differences.csv."
fi
