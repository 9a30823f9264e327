#!/usr/bin/env bash
# check.sh install|pkg_config|optimised SOURCE BUILD WORK: SOURCE is configured in BUILD. `install` empties WORK and installs into WORK/prefix,
# which `pkg_config` uses.
set -euo pipefail
way=$1 source=$2 build=$3 work=$4
consumer=$source/tests/consumer

case $way in
  install) # and moves the installation
    rm -rf "$work"
    cmake --install "$build" --prefix "$work/first"
    mv "$work/first" "$work/prefix"
    ;;
  pkg_config) # the headers, headroom::compiled, the shared C library and the static one
    command -v pkg-config >/dev/null || { echo "pkg-config was not found" && exit 77; }
    export PKG_CONFIG_PATH=$work/prefix/share/pkgconfig:$work/prefix/lib/pkgconfig LD_LIBRARY_PATH=$work/prefix/lib
    use() { # COMMAND PACKAGE ...: compiles, links and runs a program
      read -ra flags < <(pkg-config --cflags --libs "${@:2}")
      $1 "${flags[@]}" -o "$work/use"
      "$work/use"
    }
    headers="g++ -std=c++17 $consumer/project/use_headroom.cpp"
    use "$headers -O2" 'headroom >= 0.2'
    [[ -e $work/prefix/lib/libheadroom.a ]] || exit 0
    # Flags that differ from the library's.
    use "$headers -O2 -ffast-math -march=native -fno-exceptions" headroom-compiled
    use "gcc -std=c99 $source/tests/c/loop.c" headroom-c
    use "gcc -std=c99 -static $source/tests/c/loop.c" --static headroom-c
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
