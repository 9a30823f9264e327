#!/usr/bin/env bash
# Package: libstdc++ of g++ 12.2.0-14+deb12u1 (Debian 12).
# What it does: std::hypot with two arguments of which one is Inf gives Inf, as C says. std::hypot with three arguments gives NaN: it
#   divides all by the largest before it squares them. So a norm of three parts of which one has overflowed is NaN, not Inf.
# Found in: the three-argument overload in <cmath>, C++17, seen in a norm of gradients in three lists.
# Guess: hypot(Inf, 0, 0) is Inf, as hypot(Inf, 0) is, and as hypot(Inf, NaN) is.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=12.2.0-14+deb12u1
(cd "$work" && apt-get download -q "libstdc++-12-dev=$version" >/dev/null && dpkg -x ./*.deb headers)
cat >"$work/main.cpp" <<'CPP'
#include <cmath>
#include <cstdio>
int main() {
  volatile double inf = INFINITY, zero = 0.0, one = 1.0;
  const double two = std::hypot(inf, one), three = std::hypot(inf, one, zero), last = std::hypot(zero, zero, inf);
  std::printf("hypot(inf, 1) = %g, hypot(inf, 1, 0) = %g, hypot(0, 0, inf) = %g\n", two, std::fabs(three), std::fabs(last));
  return std::isinf(two) && std::isnan(three) && std::isnan(last) ? 0 : 1;
}
CPP
headers=$work/headers/usr/include
g++ -std=c++17 -nostdinc++ -isystem "$headers/c++/12" -isystem "$headers/$(g++ -print-multiarch)/c++/12" "$work/main.cpp" -o "$work/main"
echo "libstdc++ $version"
"$work/main"
