#!/usr/bin/env bash
# Passes the tests, alone, on a bare Debian 12: installs what is missing, configures, builds, runs.
#   bash tests/run.sh                     presets gcc, fast-math and aarch64
#   bash tests/run.sh clang asan-ubsan    these presets of CMakePresets.json
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

install_packages g++ cmake ninja-build catch2 libeigen3-dev libxtensor-dev nlohmann-json3-dev
install_packages libtorch-dev || echo "Going on without libtorch: what needs it is skipped."
install_packages clang clang-format libclang-rt-dev || echo "Going on without clang: what needs it is skipped."

presets=("$@")
if ((${#presets[@]} == 0)); then presets=(gcc fast-math aarch64); fi
install_packages qemu-user || echo "Going on without qemu: what is run on CPUs unlike this one is skipped."
if [[ " ${presets[*]} " == *" aarch64 "* && $(uname -m) != aarch64 ]]; then
  install_packages g++-aarch64-linux-gnu qemu-user
fi

jobs=$(nproc)
for preset in "${presets[@]}"; do
  printf '\n== preset %s\n' "$preset"
  cmake --preset "$preset"
  cmake --build --preset "$preset" --parallel "$jobs"
  ctest --preset "$preset" --output-on-failure --parallel "$jobs"
done
