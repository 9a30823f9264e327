#!/usr/bin/env bash
# hidden.sh INCLUDE: an AnyLossScale keeps the type of its policy between a library and a program with hidden symbols and without
# RTTI, by the last of $COMPILERS.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/unit.cpp" <<'END'
#include <headroom/policy/any.hpp>
__attribute__((visibility("default"))) headroom::AnyLossScale make();
#ifdef LIBRARY
headroom::AnyLossScale make() { return headroom::DynamicLossScale(); }
#else
int main() { return make() == make().get<headroom::DynamicLossScale>() && make() == headroom::AnyLossScale() ? 0 : 1; }
#endif
END
read -ra compilers <<<"${COMPILERS:?names no compiler}"
build=("${compilers[-1]}" -std=c++17 -fvisibility=hidden -fno-rtti "-I$1" "$work/unit.cpp")
"${build[@]}" -DLIBRARY -fPIC -shared -o "$work/library.so"
"${build[@]}" "$work/library.so" -o "$work/program"
"$work/program"
