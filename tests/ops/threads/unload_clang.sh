#!/usr/bin/env bash
# unload_clang.sh INCLUDE PROGRAM: PROGRAM, which is unload.cpp, with the library as clang++ makes it: it unloads without being told.
set -euo pipefail
command -v clang++ >/dev/null || { echo "clang++ was not found" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
clang++ -std=c++17 -O1 -I"$1" -fPIC -shared -pthread "$(dirname "${BASH_SOURCE[0]}")/library.cpp" -o "$work/library.so"
"$2" "$work/library.so"
