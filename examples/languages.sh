#!/usr/bin/env bash
# Builds and runs the programs that call headroom's C library, and the test of the Python module. Skips a language if its tool is missing.
# Without LIBRARY it builds libheadroom.so.0 first. --install installs what is missing on Debian 12.
#   bash examples/languages.sh [--install] [LIBRARY [c|fortran|java|python|rust ...]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh

jna=/usr/share/java/jna.jar
if [[ ${1-} == --install ]]; then
  shift
  install_packages gcc g++ cmake ninja-build gfortran python3-numpy rustc default-jdk-headless libjna-java
fi
if [[ -z ${1-} ]]; then
  echo "Building the library takes half a minute."
  cmake -S . -B build/release -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_C=ON
  cmake --build build/release --target headroom_c
fi
library=$(realpath "${1:-build/release/libheadroom.so.0}")
languages=("${@:2}")
((${#languages[@]})) || languages=(c fortran java python rust)
directory=$(dirname "$library")
export LD_LIBRARY_PATH=$directory${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

has() { type -P "$@" >/dev/null || { echo "Skipped: there is no $*." && exit 77; }; }

# run LANGUAGE: exits with 77 if its tool is missing.
run() {
  local link=(-L"$directory" -lheadroom -o "$work/train") python
  case $1 in
    c) has cc && cc -std=c99 -O2 -Wall -Wextra -pedantic -Werror -Iinclude examples/c/train.c "${link[@]}" -lm && "$work/train" ;;
    fortran) has gfortran && gfortran -std=f2018 -O2 -Wall -Wextra -pedantic -Werror examples/fortran/train.f90 "${link[@]}" && "$work/train" ;;
    rust) has rustc && rustc --edition 2021 -O -D warnings -L "native=$directory" examples/rust/train.rs -o "$work/train" && "$work/train" ;;
    java)
      has javac
      [[ -f $jna ]] || { echo "Skipped: there is no $jna." && exit 77; }
      javac -Xlint:all -Werror -cp "$jna" -d "$work" examples/java/Train.java &&
        java -Dheadroom.library="$library" -cp "$jna:$work" Train
      ;;
    python)
      for python in python3 /usr/bin/python3; do "$python" -c 'import numpy' 2>/dev/null && break; done ||
        { echo "Skipped: there is no numpy." && exit 77; }
      export HEADROOM_LIBRARY=$library PYTHONPATH=examples/python
      "$python" -B examples/python/train.py examples/data/digits.csv && "$python" -B tests/examples/headroom_python.py
      ;;
  esac
}

declare -A expected=([c]='"weight"[13]' [fortran]='"weight"(3)' [java]='"weight"[2]' [python]='"body"[' [rust]='"weight"[2]')
ran=
for language in "${languages[@]}"; do
  echo "== $language"
  status=0
  (run "$language") >"$work/output" 2>&1 || status=$?
  cat "$work/output"
  ((status != 77)) || continue
  ran=yes
  ((status == 0)) && grep -qF "skipped: inf in ${expected[$language]}" "$work/output" || { echo "$language failed" && exit 1; }
done
[[ -n $ran ]] || exit 77
