#!/usr/bin/env bash
# Times a step of AdamW with scaled gradients on this CPU: in separate passes, and fused. Installs what is missing on Debian 12.
#   bash examples/fused_adamw.sh [leaves [elements of each [steps]]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

echo "Takes half a minute, most of it to build."
build_examples fused_adamw
echo
lscpu | sed -nE 's/^Model name: */CPU: /p' || true
"$build/examples/example_fused_adamw" "$@"
