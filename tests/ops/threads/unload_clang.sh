#!/usr/bin/env bash
# unload_clang.sh INCLUDE: unload.cpp with the library as clang++ makes it, which unloads without being told.
set -euo pipefail
command -v clang++ >/dev/null || { echo "clang++ was not found" && exit 77; }
folder=$(dirname "${BASH_SOURCE[0]}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
clang++ -std=c++17 -O1 -I"$1" -fPIC -shared -pthread "$folder/library.cpp" -o "$work/library.so"
clang++ -std=c++17 -O1 "$folder/unload.cpp" -o "$work/unload" -ldl
"$work/unload" "$work/library.so"
