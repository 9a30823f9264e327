#!/usr/bin/env bash
# Trains on real digits in 8 bits, with one loss scale, with a scale for each tensor, with both. Prints a table, draws a
# picture. Installs what is missing on Debian 12.
#   bash examples/fp8_linear.sh [output directory [epochs]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

echo "Building takes half a minute, the trainings half a minute."
output=${1:-build/examples}
mkdir -p "$output"
build_examples fp8_linear
"$build/examples/example_fp8_linear" examples/data/digits.csv "$output" "${@:2}" | tee "$output/fp8_linear.log"
draw "$output/fp8.png" plot_fp8 "csv='$output/fp8_scales.csv'"
