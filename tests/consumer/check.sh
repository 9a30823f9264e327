#!/usr/bin/env bash
# check.sh WAY SOURCE BUILD: builds and runs project/ or vendored/ with the headroom in SOURCE, which is configured in BUILD.
set -euo pipefail
way=$1 source=$2 build=$3
consumer=$source/tests/consumer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

build_and_run() { # PROJECT FLAG ...
  cmake -S "$consumer/$1" -B "$work/build" -G Ninja "${@:2}"
  cmake --build "$work/build"
  for program in "$work"/build/use_*; do "$program"; done
}

case $way in
  find_package)
    cmake --install "$build" --prefix "$work/prefix"
    build_and_run project -DCMAKE_PREFIX_PATH="$work/prefix"
    ;;
  add_subdirectory)
    build_and_run project -DHEADROOM_SOURCE_DIR="$source"
    [[ ! -e $work/build/headroom/tests ]] || { echo "a subproject builds headroom's tests" && exit 1; }
    ;;
  options) build_and_run project -DHEADROOM_SOURCE_DIR="$source" -DHEADROOM_EIGEN=ON ;;
  fetch_content) build_and_run vendored -DHEADROOM_SOURCE_DIR="$source" -DJSON=after -DFETCH=ON ;;
  vendored_*) build_and_run vendored -DHEADROOM_SOURCE_DIR="$source" -DJSON="${way#vendored_}" ;;
  copy)
    cp -r "$source/include/headroom" "$work"
    g++ -std=c++17 -O2 -I "$work" "$consumer/project/use_headroom.cpp" -o "$work/use_headroom"
    "$work/use_headroom"
    ;;
  pkg_config)
    command -v pkg-config >/dev/null || { echo "pkg-config was not found" && exit 77; }
    cmake --install "$build" --prefix "$work/first"
    mv "$work/first" "$work/moved"
    export PKG_CONFIG_PATH=$work/moved/share/pkgconfig
    pkg-config --atleast-version=0.2 headroom
    read -ra flags < <(pkg-config --cflags --libs headroom)
    g++ -std=c++17 -O2 "$consumer/project/use_headroom.cpp" "${flags[@]}" -o "$work/use_headroom"
    "$work/use_headroom"
    ;;
  c) # and headroom::compiled: installed, with find_package and pkg-config, which link the shared library and the static one; as subprojects
    cmake -S "$source" -B "$work/headroom" -G Ninja -DHEADROOM_C=ON -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=OFF \
      -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_CXX_FLAGS=-O0
    cmake --build "$work/headroom"
    cmake --install "$work/headroom" --prefix "$work/first"
    mv "$work/first" "$work/prefix"
    loop=$source/tests/c/loop.c
    build_and_run in_c -DCMAKE_PREFIX_PATH="$work/prefix" -DLOOP="$loop"
    rm -r "$work/build"
    build_and_run project -DCMAKE_PREFIX_PATH="$work/prefix" -DCOMPONENT=compiled # the archive is the same
    rm -r "$work/build"
    if command -v pkg-config >/dev/null; then
      export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig:$work/prefix/share/pkgconfig
      read -ra flags < <(pkg-config --cflags --libs headroom-c)
      gcc -std=c99 "$loop" "${flags[@]}" -o "$work/shared"
      LD_LIBRARY_PATH=$work/prefix/lib "$work/shared"
      read -ra flags < <(pkg-config --static --cflags --libs headroom-c)
      gcc -std=c99 -static "$loop" "${flags[@]}" -o "$work/static"
      "$work/static"
      read -ra flags < <(pkg-config --cflags --libs headroom-compiled)
      # Flags that differ from the library's.
      g++ -std=c++17 -O2 -ffast-math -march=native -fno-exceptions "$consumer/project/use_headroom.cpp" "${flags[@]}" -o "$work/use_headroom"
      "$work/use_headroom"
    fi
    build_and_run project -DHEADROOM_SOURCE_DIR="$source" -DCOMPONENT=compiled -DCMAKE_CXX_FLAGS=-O0
    rm -r "$work/build"
    build_and_run in_c -DHEADROOM_SOURCE_DIR="$source" -DHEADROOM_C=ON -DCMAKE_CXX_FLAGS=-O0 -DLOOP="$loop"
    ;;
  optimised) # headroom::compiled has -O2 by default, at the top, as a subproject and fetched; flags and build types of the user win
    level() { # PROJECT FLAG ...: prints the last -O flag in the compiler's command
      rm -rf "$work/build"
      cmake -S "$1" -B "$work/build" -G Ninja -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_CXX_FLAGS= -DCMAKE_BUILD_TYPE= "${@:2}" >&2
      sed -nE '/"command".*src\/headroom\.cpp/{s/.* -(O[0-9a-z]*) .*/\1/; s/.*"command".*/none/; p}' "$work/build/compile_commands.json"
    }
    expect() {
      [[ $1 == "$2" ]] || { echo "headroom::compiled is optimised by '$1', and should be by '$2'" && exit 1; }
    }
    alone=("$source" -DHEADROOM_COMPILED=ON -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=OFF)
    expect "$(level "${alone[@]}")" O2
    expect "$(level "$consumer/project" -DHEADROOM_SOURCE_DIR="$source" -DCOMPONENT=compiled)" O2
    expect "$(level "$consumer/vendored" -DHEADROOM_SOURCE_DIR="$source" -DJSON=after -DFETCH=ON)" O2
    expect "$(level "${alone[@]}" -DCMAKE_CXX_FLAGS='-g -O1')" O1
    echo 'add_compile_options(-g -O3)' >"$work/options.cmake"
    expect "$(level "${alone[@]}" -DCMAKE_PROJECT_headroom_INCLUDE="$work/options.cmake")" O3
    expect "$(level "${alone[@]}" -DCMAKE_BUILD_TYPE=Release)" O3
    expect "$(level "${alone[@]}" -DCMAKE_BUILD_TYPE=Debug)" none
    ;;
esac
