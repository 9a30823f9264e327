#!/usr/bin/env bash
# unload_clang.sh INCLUDE: unload.cpp with the library as clang++ makes it, which unloads without being told; and
# unload_memory.cpp, with a library whose functions call each other rather than those of the program.
set -euo pipefail
command -v clang++ >/dev/null || { echo "clang++ was not found" && exit 77; }
folder=$(dirname "${BASH_SOURCE[0]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
clang++ -std=c++17 -O1 -I"$1" -fPIC -shared -pthread "$folder/library.cpp" -o "$work/library.so"
clang++ -std=c++17 -O1 "$folder/unload.cpp" -o "$work/unload" -ldl
"$work/unload" "$work/library.so"

clang++ -std=c++17 -O1 -I"$1" -fPIC -shared -pthread -Wl,-Bsymbolic-functions "$folder/library.cpp" -o "$work/symbolic.so"
clang++ -std=c++17 -O1 -I"$1" -pthread -rdynamic "$folder/unload_memory.cpp" -o "$work/unload_memory" -ldl
"$work/unload_memory" "$work/symbolic.so"
