#!/usr/bin/env bash
# GradScaler and AsyncGradScaler: a libtorch loop that is stopped and resumed, and an optimizer in a background thread, on handwritten
# digits. Ends with 1 if the resumed training or the background thread changes a bit of the weights. Installs what is missing on Debian 12.
#   bash examples/grad_scaler.sh [output directory]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

echo "Takes about three minutes on two idle cores."
has_package libtorch-dev || echo "Installs libtorch first (510 MB)."
install_packages libtorch-dev
output=${1:-build/examples}
mkdir -p "$output"
build_examples torch_loop async_optimizer
"$build/examples/example_torch_loop" examples/data/digits.csv "$output"
echo
"$build/examples/example_async_optimizer" examples/data/digits.csv
