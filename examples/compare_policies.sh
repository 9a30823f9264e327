#!/usr/bin/env bash
# Compares loss scales: takes every policy through recorded and made-up gradients, prints tables, draws a picture. Installs what is
# missing on Debian 12.
#   bash examples/compare_policies.sh [output directory [epochs [trace.csv …]]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

echo "Building takes half a minute, the rest about 20 seconds."
output=${1:-build/examples}
mkdir -p "$output"
build_examples compare_policies
"$build/examples/example_compare_policies" examples/data/digits.csv "$output" "${@:2}" | tee "$output/compare_policies.log"
draw "$output/policies.png" plot_policies "directory='$output'"
