#!/usr/bin/env bash
# check.sh FILE.md LINE BUILD [FLAG ...]: tests the code block of FILE.md that opens in LINE. BUILD is headroom's build directory. The
# flags are for the libraries that adapters need.
#
# cpp    With `int main` the block is a program. It must compile without warnings and exit with 0. If the next block is `text` after the
#        line `<!-- test: output -->`, the program must print that; line breaks may differ. Without `int main` the block is compiled and
#        run in tests/docs/NAME.cpp, in place of `#include BLOCK`. NAME stands before the block as `<!-- test: NAME -->`; the default is
#        `statements`. Adapters for GPUs are compiled with tests/gpu/shim, which has CUDA's headers for the CPU.
# c      A program in C99, which links the C library of BUILD. The rest is as in cpp.
# cmake  A CMakeLists.txt, with or without its first two lines (cmake_minimum_required, project). It builds `train` from train.cpp, which is
#        examples/minimal.cpp, or from examples/c/train.c. It may find headroom installed, in third_party/headroom, or by FetchContent
#        under the name `headroom`.
# sh     Must succeed in a copy of the project with train.cpp in it. $HOME is empty. pkg-config and CMake find headroom installed. Scripts
#        in lines `bash SCRIPT ...` must exist, but are not run. A block that installs headroom and asks pkg-config for it runs a second
#        time for headroom::compiled.
# c++    Declarations. tests/build/public_names.sh compares them with the headers.
# Blocks in python, in other languages and without a language are not tested.
set -euo pipefail
document=$1 line=$2 build=$3
flags=("${@:4}")
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source=$(dirname "$tests")
read -r _ tag surroundings < <(bash "$tests/docs/blocks.sh" "$document" | grep "^$line ") || {
  echo "$document:$line: no block opens in this line" && exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
block=$work/block.inc
{ [[ $tag != cpp ]] || printf '#line %d "%s"\n' $((line + 1)) "$document"; bash "$tests/docs/blocks.sh" "$document" "$line"; } >"$block"

check_cpp() {
  local program=$block libraries=()
  if ! grep -q '\bint main(' "$block"; then
    program=$tests/docs/${surroundings:-statements}.cpp
    [[ -f $program ]] || { echo "$document:$line: there is no $program" && exit 1; }
  fi
  if grep -qE 'adapters/(torch|c10d)|torch::' "$program" "$block"; then
    [[ -n ${TORCH_LIBRARIES:-} ]] || { echo "Skipped: libtorch was not found." && exit 77; }
    read -ra libraries <<<"$TORCH_LIBRARIES"
  fi
  if grep -q ProcessGroupGloo "$program" && [[ -z ${HAS_GLOO:-} ]]; then
    echo "Skipped: libtorch without Gloo, or without Gloo's headers." && exit 77
  fi
  if grep -q 'adapters/mpi' "$program" "$block"; then
    [[ -n ${MPI_LIBRARIES:-} ]] || { echo "Skipped: MPI was not found." && exit 77; }
    read -ra libraries <<<"$MPI_LIBRARIES"
  fi
  if grep -qE 'adapters/cuda|docs/gpu' "$program" "$block"; then
    flags+=("-I$tests/gpu/shim" -Wno-unknown-pragmas)
    sed -i -E 's/(\w+)<<<([^>]*)>>>\(/launch(\1, \2, /' "$block"
  fi
  "${CXX:-g++}" -std=c++17 -Wall -Wextra -Wpedantic -Werror -Wno-unused -I"$source/include" -I"$tests" "${flags[@]}" \
    -DBLOCK="\"$block\"" -x c++ "$program" -x none -o "$work/program" -pthread "${libraries[@]}"
  check_output
}
check_output() {
  local output
  output=$(bash "$tests/docs/blocks.sh" "$document" | sed -nE "/^$line /{n; s/^([0-9]+) text output$/\1/p}")
  [[ -z $output ]] || bash "$tests/docs/blocks.sh" "$document" "$output" | one_word_a_line >"$work/expected"
  cd "$work"
  ./program | tee printed
  [[ -z $output ]] || one_word_a_line <printed | diff expected -
}
check_c() {
  needs_c
  "${CC:-cc}" -std=c99 -Wall -Wextra -pedantic -Werror -I"$source/include" -x c "$block" -x none -o "$work/program" \
    -L"$build" -lheadroom -Wl,-rpath,"$build"
  check_output
}
needs_c() { [[ -e $build/libheadroom.so ]] || { echo "Skipped: $build has no C library." && exit 77; }; }
one_word_a_line() { tr -s ' \n' '\n'; }

install() { cmake --install "$build" --prefix "$work/prefix" >/dev/null; }

check_cmake() {
  local project=$work/project
  mkdir -p "$project/third_party"
  ln -s "$source" "$project/third_party/headroom"
  cp "$source/examples/minimal.cpp" "$project/train.cpp"
  cp "$source/examples/c/train.c" "$project"
  ! grep -q 'headroom::c\b' "$block" || needs_c
  {
    grep -q cmake_minimum_required "$block" || echo 'cmake_minimum_required(VERSION 3.16)'
    grep -q '^project(' "$block" || echo 'project(train LANGUAGES C CXX)'
    cat "$block"
  } >"$project/CMakeLists.txt"
  install
  cmake -S "$project" -B "$project/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DFETCHCONTENT_SOURCE_DIR_HEADROOM="$source"
  cmake --build "$project/build" --target train
  "$project/build/train"
}

check_sh() {
  local script missing=0
  for script in $(sed -nE 's,^bash ([^ ]+).*,\1,p' "$block"); do
    [[ -f $source/$script ]] || { echo "$document:$line: there is no $script" && missing=1; }
  done
  ((missing == 0))
  grep -qvE '^(bash .*|#.*|)$' "$block" || return 0
  install
  mkdir "$work/home" "$work/project"
  git -C "$source" ls-files -z --cached --others --exclude-standard | (cd "$source" && xargs -0 cp --parents -t "$work/project")
  cd "$work/project"
  cp examples/minimal.cpp train.cpp
  sed -E 's/^bash .*//; s/^cmake -S .*/& -DCMAKE_CXX_FLAGS_RELEASE=-O0/' "$block" >"$work/script" # takes a third of the time
  run_script
  if grep -q 'pkg-config .* headroom)' "$work/script"; then
    rm -rf "$work/home" build
    mkdir "$work/home"
    sed -i -E 's/^cmake -S .*/& -DHEADROOM_COMPILED=ON/; s/(pkg-config .* headroom)\)/\1-compiled)/' "$work/script"
    run_script
  fi
}
run_script() {
  HOME=$work/home CMAKE_PREFIX_PATH=$work/prefix PKG_CONFIG_PATH=$work/prefix/share/pkgconfig bash -euo pipefail "$work/script"
}

case $tag in
  c | cpp | cmake | sh) "check_$tag" ;;
esac
