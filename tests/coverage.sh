#!/usr/bin/env bash
# coverage.sh [DIRECTORY]: runs the tests of behaviour with clang's source-based coverage, in five minutes on two cores. Prints the totals of
# each header of include/, and writes DIRECTORY/html, which marks the lines and the sides of branches that no test reaches. Templates that are
# never instantiated do not count. The compiler evaluates some constexpr functions, which then count as not reached. libtorch and MPI are
# needed for their adapters.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/coverage}
source cmake/install_packages.sh
install_packages clang llvm

# Without precompiled headers, because CMake makes them system headers, which have no coverage. The counters are in mapped files,
# because processes that tests fork end without writing a profile.
flags='-O0 -fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation'
cmake --preset clang -B "$build" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_DISABLE_FIND_PACKAGE_Torch=OFF \
  -DCMAKE_CXX_FLAGS="$flags" -DHEADROOM_EXHAUSTIVE_TEST_FLAGS=-O1
cmake --build "$build" --parallel "${JOBS:-$(getconf _NPROCESSORS_ONLN)}"
rm -f "$build"/*.profraw
(cd "$build" && LLVM_PROFILE_FILE="$PWD/%c%m.profraw" ctest --output-on-failure)
llvm-profdata merge "$build"/*.profraw -o "$build/profile"
mapfile -t programs < <(find "$build" -type f -perm -u+x \( -name 'test_*' -o -name 'fuzz_*' -o -name '*.so.*' \))
coverage=("${programs[0]}" "${programs[@]/#/-object=}" -instr-profile="$build/profile")
llvm-cov show "${coverage[@]}" -format=html -output-dir="$build/html" -show-branches=count -show-instantiations=false include
llvm-cov report "${coverage[@]}" include
