#!/usr/bin/env bash
# run.sh REFERENCE PROJECT COMPILER FLAG ...: compiles the check with these flags, links it with the reference, and runs it. The flags are not
# used for linking, because -ffast-math would switch on flush-to-zero there.
set -euo pipefail
reference=$1 project=$2 compiler=$3
shift 3

check=$(mktemp -d)
trap 'rm -r "$check"' EXIT
"$compiler" -std=c++17 "$@" "-I$project/include" "-I$project/tests" -c "$project/tests/build/flags/check.cpp" -o "$check/check.o"
"$compiler" "$check/check.o" "$reference" -o "$check/check"
if [[ " $* " == *" -mavx512f "* ]] && ! grep -q avx512f /proc/cpuinfo; then exit; fi # this CPU can compile it but not run it
"$check/check"
