#!/usr/bin/env bash
# How many gradients fp16 would lose: trains on real digits in float, counts the gradients by exponent, prints bars and a table, draws a
# picture. Installs what is missing on Debian 12.
#   bash examples/gradient_histogram.sh [output directory [epochs]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

echo "Building takes half a minute, the training about 5 seconds."
output=${1:-build/examples}
mkdir -p "$output"
build_examples gradient_histogram
"$build/examples/example_gradient_histogram" examples/data/digits.csv "$output" "${@:2}" | tee "$output/gradient_histogram.log"
draw "$output/gradients.png" plot_gradients "directory='$output'"
