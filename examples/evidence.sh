#!/usr/bin/env bash
# What loss scaling is worth on three networks, and what mistakes of other systems cost: trains with many seeds, prints tables, draws
# pictures. Installs what is missing on Debian 12.
#   bash examples/evidence.sh [output directory [seeds]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

echo "Building takes a minute, the trainings ${2:-10} times 2 minutes on two idle cores."
output=${1:-build/examples}
mkdir -p "$output"
# Eigen multiplies the matrices, with the instructions that it was compiled for.
build=build/evidence
CXXFLAGS=-march=native build_examples evidence
"$build/examples/example_evidence" examples/data/digits.csv "$output" "${@:2}" | tee "$output/evidence.log"
for kind in policy fault; do
  draw "$output/evidence_$kind.png" plot_evidence "csv='$output/evidence_differences.csv'; kind='$kind'"
done
draw "$output/evidence_scales.png" plot_evidence_scales "directory='$output'"
