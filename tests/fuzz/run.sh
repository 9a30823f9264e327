#!/usr/bin/env bash
# run.sh [SECONDS [DIRECTORY [NAME ...]]]: searches for inputs that make a program of this directory (state, tree, kernel, c, checkpoint; by
# default all) fail, by libFuzzer with the address and undefined-behaviour sanitizers, for so many seconds each. Starts from the inputs of
# corpus/NAME.txt and of earlier runs. Inputs that fail are kept in the directory. Needs clang; without it the test is skipped (77).
# RUNS=N in the environment ends each search after N inputs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:-60}
build=${2:-build/fuzz}
names=("${@:3}")
((${#names[@]} > 0)) || names=(state tree kernel c checkpoint)

compiler=$(command -v clang++ || command -v clang++-19) || { echo "Skipped: there is no clang++." && exit 77; }
mkdir -p "$build"
flags=(-std=c++17 -O1 -gline-tables-only -fsanitize=address,undefined -fno-sanitize-recover=all -Iinclude)
# The bytes of a tree, a kernel or calls in C are random numbers, for which comparisons tell libFuzzer little. It runs 2 to 5 times as fast
# without them and without its weights of inputs.
faster=(-fno-sanitize-coverage=trace-cmp)
"$compiler" "${flags[@]}" -fsanitize=fuzzer -x c++ - -o "$build/nothing" 2>"$build/log" <<<'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' ||
  { echo "Skipped: $compiler comes without libFuzzer (Debian: libclang-rt-14-dev)." && exit 77; }

build_library() { # two minutes, so only if a header has changed
  [[ ! -e $build/kernels.o || -n $(find include src -newer "$build/kernels.o") ]] || return 0
  "$compiler" "${flags[@]}" -DHEADROOM_COMPILED=1 -DHEADROOM_C_VERSION='"fuzzed"' -fsanitize=fuzzer-no-link "${faster[@]}" -c src/c.cpp -o "$build/c.o"
  "$compiler" "${flags[@]}" -DHEADROOM_COMPILED=1 -c src/headroom.cpp -o "$build/kernels.o"
}
# The C interface and trees with the kernels as a library, states with the headers only.
build_program() {
  local library=()
  if [[ $1 == state ]]; then
    "$compiler" -std=c++17 -Iinclude tests/fuzz/make_seeds.cpp -o "$build/make_seeds"
    "$build/make_seeds" "$build/$1.seeds"
  else
    build_library
    library=(-DHEADROOM_COMPILED=1 -DHEADROOM_C_STATIC "$build/kernels.o" "$build/c.o" -pthread -Itools)
    [[ $1 == checkpoint ]] || library+=("${faster[@]}") # its comparisons are of JSON
  fi
  "$compiler" "${flags[@]}" -fsanitize=fuzzer -Itests/fuzz -Itests "tests/fuzz/$1.cpp" "${library[@]}" -o "$build/$1"
}

for name in "${names[@]}"; do
  if [[ $name == checkpoint ]] && ! "$compiler" -fsyntax-only -x c++ - 2>>"$build/log" <<<$'#include <CLI/CLI.hpp>\n#include <nlohmann/json.hpp>'; then
    echo "checkpoint: skipped: there is no CLI11 or nlohmann_json (Debian: libcli11-dev nlohmann-json3-dev)."
    continue
  fi
  mkdir -p "$build/$name.seeds" "$build/$name.corpus" && export seeds=$build/$name.seeds
  perl -ne 'open my $seed, ">", "$ENV{seeds}/$."; print $seed pack "H*", s/\n//r' <"tests/fuzz/corpus/$name.txt"
  build_program "$name"
  options=(-max_total_time="$seconds" -runs="${RUNS:--1}" -artifact_prefix="$build/$name." -print_final_stats=1)
  case $name in
    state) options+=(-max_len=1000 -dict=tests/fuzz/state.dict) ;;
    checkpoint) options+=(-max_len=8192 -dict=tests/fuzz/checkpoint.dict -timeout=5 -malloc_limit_mb=256) ;;
    *) options+=(-max_len=400 -entropic=0) ;;
  esac
  "$build/$name" "${options[@]}" "$build/$name.corpus" "$build/$name.seeds" 2>"$build/$name.log" ||
    { tail -40 "$build/$name.log" && exit 1; }
  printf '%s: ' "$name" && grep -E 'number_of_executed_units' "$build/$name.log"
done
