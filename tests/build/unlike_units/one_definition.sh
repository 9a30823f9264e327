#!/usr/bin/env bash
# one_definition.sh INCLUDE FOLDER: g++ sees nothing in two units with unlike flags that has one name and two definitions.
set -euo pipefail
command -v g++ >/dev/null || { echo "g++ was not found" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

flags=(-std=c++17 -O0 -fPIC -flto -I"$1")
g++ "${flags[@]}" -DUNIT=plain -c "$2/unit.cpp" -o "$work/plain.o"
g++ "${flags[@]}" -DUNIT=avx512 -march=skylake-avx512 -ffast-math -fno-exceptions -c "$2/unit.cpp" -o "$work/avx512.o"
g++ "${flags[@]}" -Wodr -Wlto-type-mismatch -Werror -shared "$work"/*.o -o "$work/library.so"
