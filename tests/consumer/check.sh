#!/usr/bin/env bash
# check.sh WAY SOURCE BUILD: builds and runs project/ against the headroom in SOURCE, that has been configured in BUILD.
set -euo pipefail
way=$1 source=$2 build=$3
project=$source/tests/consumer/project
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build_and_run() {
  cmake -S "$project" -B "$work/build" -G Ninja "$@"
  cmake --build "$work/build"
  for program in "$work"/build/use_*; do "$program"; done
}

case $way in
  find_package)
    cmake --install "$build" --prefix "$work/prefix"
    build_and_run -DCMAKE_PREFIX_PATH="$work/prefix"
    ;;
  add_subdirectory)
    build_and_run -DHEADROOM_SOURCE_DIR="$source"
    [[ ! -e $work/build/headroom/tests ]] || { echo "a subproject builds headroom's tests" && exit 1; }
    ;;
  command_line)
    g++ -std=c++17 -O2 -I "$source/include" "$project/use_headroom.cpp" -o "$work/use_headroom"
    "$work/use_headroom"
    ;;
esac
