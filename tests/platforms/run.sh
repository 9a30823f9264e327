#!/usr/bin/env bash
# Builds tests/platforms/hash.cpp for many platforms, runs it, and compares what it prints with what g++ on this machine prints.
#   bash tests/platforms/run.sh [--install] [NAME ...]
# NAMEs are platforms of the list at the end, such as riscv64; the default is all. A platform is skipped if a tool is missing.
# --install installs Debian's packages, and into build/platforms what is not among them: zig, wasmtime and an unpacked libc++.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source cmake/install_packages.sh

build=$PWD/build/platforms
mkdir -p "$build"
if [[ ${1-} == --install ]]; then
  shift
  install_packages g++ clang qemu-user wine wine64 python3-venv g++-arm-linux-gnueabihf g++-mingw-w64-x86-64 \
    g++-{aarch64,i686,powerpc64le,riscv64,s390x}-linux-gnu
  python3 -m venv "$build/venv"
  "$build/venv/bin/pip" install --quiet ziglang wasmtime
  # libc++-14-dev would remove libunwind-dev, which other libraries use.
  (cd "$build" && apt-get download libc++1-14 libc++abi1-14 libc++-14-dev libc++abi-14-dev libunwind-14 libunwind-14-dev)
  for package in "$build"/*.deb; do dpkg-deb --extract "$package" "$build/libcxx"; done
fi
# The interpreter of the venv runs zig and wasmtime.
python=$build/venv/bin/python
export WINEPREFIX=$build/wine WINEDEBUG=-all
flags=(-std=c++17 -O2 -Iinclude -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
names=" $* " failures=0
for name; do grep -q "^platform $name " "$0" || { echo "There is no platform $name" && exit 2; }; done

# Runs a program for WASI.
wasi() {
  "$python" - "$1" <<'PYTHON'
import sys, wasmtime
engine = wasmtime.Engine()
store, linker, config = wasmtime.Store(engine), wasmtime.Linker(engine), wasmtime.WasiConfig()
config.inherit_stdout()
store.set_wasi(config)
linker.define_wasi()
try:
    linker.instantiate(store, wasmtime.Module.from_file(engine, sys.argv[1])).exports(store)["_start"](store)
except wasmtime.ExitTrap as exit:
    sys.exit(exit.code)
PYTHON
}

riscv64_v() { qemu-riscv64 -cpu rv64,v=true "$1"; }

# platform NAME RUNNER COMPILER FLAG ...: RUNNER is a command, "-" to run the program itself, or "" not to run it.
platform() {
  local name=$1 runner=${2#-} is_run=$2 program=$build/$1.exe start=$SECONDS tool
  shift 2
  [[ $names == "  " || $names == *" $name "* || $name == gcc ]] || return 0
  printf '%-14s ' "$name"
  for tool in "$1" $runner $([[ "$*" != *"$libcxx"* ]] || echo "$libcxx/include/c++/v1"); do
    command -v "$tool" >/dev/null || [[ -d $tool ]] || { echo "skipped: there is no $tool" && return 0; }
  done
  local expected=(grep '' "$build/gcc.txt")
  [[ "$*" != *-fno-exceptions* ]] || expected=(grep -v '^exceptions' "$build/gcc.txt")
  if ! "$@" "${flags[@]}" tests/platforms/hash.cpp -o "$program" >"$build/$name.log" 2>&1; then
    echo "FAILED to compile: see $build/$name.log"
  elif [[ -z $is_run ]]; then
    echo "built, not run" && return
  elif $runner "$program" 2>"$build/$name.log" | tr -d '\r' >"$build/$name.txt" && # Windows ends lines with \r\n
    diff <("${expected[@]}") "$build/$name.txt"; then
    echo "same $(wc -l <"$build/$name.txt") hashes, in $((SECONDS - start)) s" && return
  else
    echo "FAILED, or other hashes than those of g++: see $build/$name.log"
  fi
  failures=$((failures + 1))
}
libcxx=$build/libcxx/usr/lib/llvm-14
zig=("$python" -m ziglang c++ -target)
platform gcc - g++
platform static - g++ -static
platform no-exceptions - g++ -fno-exceptions -fno-rtti
platform no-threads - g++ -DHEADROOM_THREADS=0
platform scalar - g++ -DHEADROOM_SIMD=0
platform like-msvc - g++ -include tests/platforms/msvc.hpp
platform clang - clang++
platform libcxx - clang++ -nostdinc++ -isystem "$libcxx/include/c++/v1" "-L$libcxx/lib" -stdlib=libc++ -static-libstdc++ -pthread
platform i686 qemu-i386 i686-linux-gnu-g++ -static -msse2 -mfpmath=sse
platform aarch64 qemu-aarch64 aarch64-linux-gnu-g++ -static
platform armhf qemu-arm arm-linux-gnueabihf-g++ -static -Wno-psabi
platform armhf-neon qemu-arm clang++ --target=arm-linux-gnueabihf -static -mfpu=neon # its vectors would flush
platform riscv64 qemu-riscv64 riscv64-linux-gnu-g++ -static
platform ppc64le qemu-ppc64le powerpc64le-linux-gnu-g++ -static -Wno-psabi
platform s390x qemu-s390x s390x-linux-gnu-g++ -static
platform s390x-z13 qemu-s390x s390x-linux-gnu-g++ -static -march=z13
platform riscv64-v riscv64_v "${zig[@]}" riscv64-linux-musl -mcpu=baseline_rv64+v
platform mingw-posix wine x86_64-w64-mingw32-g++-posix -static
platform mingw-win32 wine x86_64-w64-mingw32-g++-win32 -static
platform musl - "${zig[@]}" x86_64-linux-musl
platform windows wine "${zig[@]}" x86_64-windows-gnu
platform wasi wasi "${zig[@]}" wasm32-wasi -fno-exceptions
platform wasi-simd wasi "${zig[@]}" wasm32-wasi -fno-exceptions -msimd128
# MSVC's own headers are not among Debian's packages. libc++ for MSVC's ABI and mingw's C headers stand in for them.
platform msvc "" clang++ --target=x86_64-pc-windows-msvc -c -include tests/platforms/msvc.hpp -D_LIBCPP_NO_VCRUNTIME -D__MINGW32__ \
  -fgnuc-version=4.8 -nostdinc++ -isystem "$libcxx/include/c++/v1" \
  -isystem "$(echo "$build"/venv/lib/python3*/site-packages/ziglang/lib/libc/include/any-windows-any)"
platform macos-x86_64 "" "${zig[@]}" x86_64-macos
platform macos-aarch64 "" "${zig[@]}" aarch64-macos
((failures == 0))
