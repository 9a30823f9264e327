#!/usr/bin/env bash
# Times a step of AdamW with scaled gradients, in separate passes and fused, on this CPU. Runs alone on a bare Debian 12: installs what is
# missing, and builds.
#   bash examples/fused_adamw.sh [leaves [elements of each [steps]]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

echo "Takes half a minute, most of it to build."
install_packages g++ cmake ninja-build
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_fused_adamw
echo
lscpu | sed -nE 's/^Model name: */CPU: /p' || true
build/release/examples/example_fused_adamw "$@"
