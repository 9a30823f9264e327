#!/usr/bin/env bash
# one_definition.sh INCLUDE FOLDER: g++ finds no name with two definitions in two units with different flags. The units share no
# code of headroom, even if nothing is inlined.
set -euo pipefail
command -v g++ >/dev/null || { echo "g++ was not found" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Fat objects: they contain machine code besides what the linker optimises.
flags=(-std=c++17 -O0 -fPIC -flto -ffat-lto-objects -I"$1")
g++ "${flags[@]}" -DUNIT=plain -c "$2/unit.cpp" -o "$work/plain.o"
g++ "${flags[@]}" -DUNIT=avx512 -march=skylake-avx512 -ffast-math -fno-exceptions -c "$2/unit.cpp" -o "$work/avx512.o"
g++ "${flags[@]}" -Wodr -Wlto-type-mismatch -Werror -shared "$work"/*.o -o "$work/library.so"
objcopy --remove-section='.gnu.lto_*' "$work/plain.o"
objcopy --remove-section='.gnu.lto_*' "$work/avx512.o"
bash "$2/in_common.sh" "$work/plain.o" "$work/avx512.o"
