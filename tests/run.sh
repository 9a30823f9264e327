#!/usr/bin/env bash
# Passes the tests, alone, on a bare Debian 12: installs what is missing, configures, builds, runs.
#   bash tests/run.sh                     what headroom does, with g++: a few minutes
#   bash tests/run.sh all                 everything else: checks, other flags, compilers and CPUs, sanitizers
#   bash tests/run.sh clang asan-ubsan    these presets of CMakePresets.json
#   bash tests/run.sh --torch ...         the same, and installs libtorch (hundreds of MB) for the tests of its adapters
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

presets=() installs_torch=
for argument in "$@"; do
  case $argument in
    --torch) installs_torch=yes ;;
    -*) sed -n '2,/^[^#]/s/^# //p' tests/run.sh && exit 2 ;;
    *) presets+=("$argument") ;;
  esac
done
if ((${#presets[@]} == 0)); then presets=(gcc); fi
if [[ ${presets[*]} == all ]]; then
  presets=(checks fast-math aarch64 clang asan-ubsan tsan)
fi

# So that an installation, a compilation or a test is not silent for long.
say_the_time() {
  while sleep 20 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do printf '   %d s\n' $((SECONDS - start)); done
}
echo "Installs the packages that are missing, then builds and tests, on two idle cores in about:"
for preset in "${presets[@]}"; do
  case $preset in
    gcc) minutes=4 ;;
    checks) minutes=20 ;;
    fast-math | aarch64) minutes=3 ;;
    clang) minutes=4 ;;
    asan-ubsan) minutes=7 ;;
    memory) minutes=5 ;;
    tsan) minutes=8 ;;
    threads) minutes=1 ;;
    *) minutes='?' ;; # of CMakeUserPresets.json
  esac
  printf '  %2s minutes for the preset %s\n' $minutes "$preset"
done
start=$SECONDS
say_the_time &
clock=$!
trap 'kill $clock 2>/dev/null || true' EXIT

install_packages g++ cmake ninja-build catch2 libeigen3-dev libxtensor-dev nlohmann-json3-dev libcli11-dev
if [[ -n $installs_torch ]]; then
  install_packages libtorch-dev libgloo-dev || echo "Going on without libtorch: what needs it is skipped."
elif ! has_package libtorch-dev; then
  echo "libtorch-dev is not installed. To install it and test adapters/torch and adapters/c10d: bash tests/run.sh --torch"
fi
install_packages libopenmpi-dev openmpi-bin || echo "Going on without Open MPI: what needs it is skipped."
for preset in "${presets[@]}"; do
  case $preset in
    checks)
      install_packages python3 # reads the documents
      install_packages clang clang-format clang-tidy libclang-rt-dev || echo "Going on without clang: what needs it is skipped."
      install_packages qemu-user || echo "Going on without qemu: what is run on CPUs unlike this one is skipped."
      install_packages pkg-config meson || echo "Going on without pkg-config or Meson: what needs them is skipped."
      install_packages doxygen || echo "Going on without doxygen: comments are not checked."
      install_packages gfortran python3-numpy rustc || echo "Going on without Fortran, numpy or Rust: what needs them is skipped."
      install_packages default-jdk-headless libjna-java || echo "Going on without Java: its example is skipped."
      ;;
    clang | memory | asan-ubsan) install_packages clang libclang-rt-dev ;;
    aarch64) [[ $(uname -m) == aarch64 ]] || install_packages g++-aarch64-linux-gnu qemu-user ;;
  esac
done

jobs=$(getconf _NPROCESSORS_ONLN) # also on macOS
for preset in "${presets[@]}"; do
  printf '\n== preset %s\n' "$preset"
  begun=$SECONDS
  cmake --preset "$preset"
  cmake --build --preset "$preset" --parallel "$jobs"
  ctest --preset "$preset" --output-on-failure --parallel "$jobs"
  printf '== preset %s passed in %d s\n' "$preset" $((SECONDS - begun))
done
