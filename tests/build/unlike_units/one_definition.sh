#!/usr/bin/env bash
# one_definition.sh INCLUDE FOLDER OBJECT ...: units with different flags share no code of headroom: neither these objects, nor two in which
# nothing is inlined. Of anything shared, the linker would keep one copy for all. In the two, g++ finds no name with two definitions.
set -euo pipefail
share_nothing() { # OBJECT ...
  local in_common
  in_common=$(for object; do nm --demangle --defined-only "$object" | sed -nE 's/^[0-9a-f]+ [VWuw] //p' | sort -u; done |
    sort | uniq --repeated | grep headroom || true)
  # except the chosen instruction set
  [[ $in_common == headroom::shared_v1::chosen_isa ]] || { printf 'in common:\n%s\n' "$in_common" && exit 1; }
}
share_nothing "${@:3}"
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
share_nothing "$work"/*.o
