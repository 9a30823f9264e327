#!/usr/bin/env bash
# run.sh reference OBJECT PROJECT: compiles the reference without any of the flags under test.
# run.sh check OBJECT PROJECT [g++|clang++] FLAG ...: compiles the check with these flags, by each of $COMPILERS or by the named one, and
# runs it. The flags are not used for linking, because -ffast-math would switch on flush-to-zero there.
set -euo pipefail
what=$1 reference=$2 flags_folder=$3/tests/build/flags
includes=("-I$3/include" "-I$3/tests")
shift 3

read -ra compilers <<<"${COMPILERS:?names no compiler}"
if [[ $what == reference ]]; then
  exec "${compilers[0]}" -std=c++17 -O2 "${includes[@]}" -c "$flags_folder/reference.cpp" -o "$reference"
fi
if [[ $1 == *++ ]]; then
  only=
  for compiler in "${compilers[@]}"; do
    if [[ ${compiler##*/} == "$1" ]]; then only=$compiler; fi
  done
  [[ -n $only ]] || { echo "Skipped: there is no $1." && exit 77; }
  compilers=("$only")
  shift
fi

check=$(mktemp -d)
trap 'rm -r "$check"' EXIT
for compiler in "${compilers[@]}"; do
  echo "$compiler $*"
  "$compiler" -std=c++17 "$@" "${includes[@]}" -c "$flags_folder/check.cpp" -o "$check/check.o"
  "$compiler" "$check/check.o" "$reference" -o "$check/check"
  if [[ " $* " == *" -mavx512f "* ]] && ! grep -q avx512f /proc/cpuinfo; then continue; fi # this CPU can compile it but not run it
  "$check/check"
done
