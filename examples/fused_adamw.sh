#!/usr/bin/env bash
# What a step of AdamW costs with scaled gradients, one after the other and fused. Alone, on a bare Debian 12: installs what is missing.
#   bash examples/fused_adamw.sh [leaves [elements of each [steps]]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

install_packages g++ cmake ninja-build
cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
cmake --build build/release --target example_fused_adamw
build/release/examples/example_fused_adamw "$@"
