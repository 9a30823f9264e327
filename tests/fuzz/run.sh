#!/usr/bin/env bash
# Searches for a text that from_text or from_state_dict mishandles, by libFuzzer with the address and undefined-behaviour
# sanitizers. Inputs that fail are kept in the build directory. Needs clang; without it the test is skipped (77).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${1:-60}
build=${2:-build/fuzz}

compiler=$(command -v clang++ || command -v clang++-19) || { echo "Skipped: there is no clang++." && exit 77; }
mkdir -p "$build/seeds" "$build/corpus"
fuzzer=(-std=c++17 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
"$compiler" "${fuzzer[@]}" -x c++ - -o "$build/nothing" 2>"$build/log" <<<'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' ||
  { echo "Skipped: $compiler comes without libFuzzer (Debian: libclang-rt-14-dev)." && exit 77; }
"$compiler" "${fuzzer[@]}" -Iinclude tests/fuzz/state.cpp -o "$build/state"
"$compiler" -std=c++17 -Iinclude tests/fuzz/make_seeds.cpp -o "$build/make_seeds"
"$build/make_seeds" "$build/seeds"
tr '\n' '\0' <<'WORDS' | xargs -0 -n 1 printf '"%s"\n' >"$build/words"
version = 
policy = 
loss_scale = 
growth_interval = 
hysteresis_left = 
counter = 
main_scale = 
refuse_infinite_growth = 
true
0x1p126
0x0.8p-1022
inf
nan
1e3
9223372036854775807
\\x00
WORDS
"$build/state" -max_total_time="$seconds" -max_len=1000 -dict="$build/words" -artifact_prefix="$build/" -print_final_stats=1 \
  "$build/corpus" "$build/seeds" 2>"$build/log" || { tail -40 "$build/log" && exit 1; }
grep -E 'number_of_executed_units|DONE' "$build/log"
