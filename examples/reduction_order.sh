#!/usr/bin/env bash
# In which order ranks should scale, sum and unscale their gradients: prints what each order costs. Installs what is missing on Debian 12.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

echo "Takes half a minute, most of it to build."
build_examples reduction_order
"$build/examples/example_reduction_order" examples/data/digits.csv
