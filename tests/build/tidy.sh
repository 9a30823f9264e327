#!/usr/bin/env bash
# tidy.sh REPOSITORY [FLAG ...]: fails if clang-tidy warns about a header. The flags include adapters (-include
# headroom/adapters/eigen.hpp) and headroom/gpu.hpp, and find their libraries. Versions other than 14 have other checks, so they are skipped (77).
# With SOURCES='src/c.cpp src/headroom.cpp' it reads these instead.
set -euo pipefail
cd "$1"
shift

clang-tidy --version 2>/dev/null | grep -q 'version 14\.' || { echo "clang-tidy 14 was not found" && exit 77; }
if [[ -z ${SOURCES:-} ]]; then
  for header in $(cd include && find headroom -name '*.hpp' ! -path '*/adapters/*' ! -path '*/gpu*'); do set -- "$@" -include "$header"; done
fi
clang-tidy --quiet ${SOURCES:-tests/build/everything.cpp} -- -std=c++17 -Iinclude -DHEADROOM_C_VERSION='"0"' "$@"
