#!/usr/bin/env bash
# views.sh INCLUDE: adapters/mdspan.hpp knows std::mdspan, with clang++-19 and libc++ 19, and Debian's Kokkos, with g++.
set -euo pipefail
include=$1
source=$(dirname "${BASH_SOURCE[0]}")/views.cpp
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-O1 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$include" "$source" -o "$work/program")
ran=
if echo '#include <mdspan>' | clang++-19 -std=c++23 -stdlib=libc++ -fsyntax-only -x c++ - 2>/dev/null; then
  clang++-19 -std=c++23 -stdlib=libc++ "${flags[@]}"
  "$work/program"
  ran=yes
fi
kokkos=$(ls /usr/lib/*/libtrilinos_kokkoscore.so 2>/dev/null) || true
if [[ -n $kokkos ]]; then
  g++ -std=c++17 -fopenmp -DKOKKOS -isystem /usr/include/trilinos "${flags[@]}" "$kokkos"
  OMP_NUM_THREADS=1 "$work/program"
  ran=yes
fi
[[ -n $ran ]] || { echo "Skipped: there is neither std::mdspan nor Kokkos." && exit 77; }
