#!/usr/bin/env bash
# The main example: trains a network on real digits in six ways, prints a table, draws a picture. Installs what is missing on Debian 12.
#   bash examples/run.sh [output directory [epochs [seed]]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

echo "Building takes half a minute, the trainings about 20 seconds."
output=${1:-build/examples}
mkdir -p "$output"
build_examples digits
"$build/examples/example_digits" examples/data/digits.csv "$output" "${@:2}" | tee "$output/digits.log"
draw "$output/digits.png" examples/plot_digits.gp "csv='$output/digits.csv'"
