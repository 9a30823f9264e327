#!/usr/bin/env bash
# one_definition.sh -I... FOLDER: g++ sees no type or function of the units there that has one name and two definitions.
set -euo pipefail
command -v g++ >/dev/null || { echo "g++ was not found" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compile() { # NAME FLAG ...
  g++ -std=c++17 -O0 -flto "$include" "${@:2}" -DUNIT="$1" -c "$folder/unit.cpp" -o "$work/$1.o"
}
include=$1 folder=$2
compile plain
compile plain_without_exceptions -fno-exceptions
compile avx2 -mavx2 -mfma -mf16c -ffast-math
compile avx512 -march=skylake-avx512
g++ -std=c++17 -O0 -flto -Wodr -Wlto-type-mismatch -Werror "$folder/main.cpp" "$work"/*.o -pthread -o "$work/program"
