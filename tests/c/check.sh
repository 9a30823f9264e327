#!/usr/bin/env bash
# check.sh SOURCE BUILD: the header is C99 and C++17 without warnings, programs in both link the library in BUILD, and the library exports
# what the header declares, and nothing else.
set -euo pipefail
source=$1 build=$2 work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-Wall -Wextra -pedantic -Wconversion -Werror "-I$source/include" "$source/tests/c/loop.c")
shared=(-x none "-L$build" -lheadroom "-Wl,-rpath,$build")
static=(-DHEADROOM_C_STATIC -x none "$build/libheadroom.a" -lstdc++ -lm)

for compiler in gcc clang; do
  command -v $compiler >/dev/null || continue
  for libraries in shared static; do
    declare -n link=$libraries
    for language in "c -std=c99" "c++ -std=c++17"; do
      $compiler -x $language "${flags[@]}" "${link[@]}" -o "$work/loop"
      "$work/loop"
    done
  done
done
nm -D --defined-only "$build/libheadroom.so" | sed -nE 's/^[0-9a-f]+ [^A] (.*)@@HEADROOM_1$/\1/p; t; /HEADROOM_1$/!p' | sort >"$work/exported"
grep -oE '\bheadroom_[a-z_]+\(' "$source/include/headroom.h" | tr -d '(' | sort -u >"$work/declared"
diff "$work/declared" "$work/exported"
(($(wc -l <"$work/declared") > 30))
