#!/usr/bin/env bash
# Package: ziglang 0.17.1 (PyPI), whose compiler is clang 22.1.8; the same since 0.13.0 (clang 18.1.6).
# What it does: in inline assembly, %x0 and %g0 name the operand's register with 128 and 512 bits. That is so for the vector registers 0 to 15.
#   Of register 21 clang makes a general register: %r13w and %r16. Code that has no such operand today fails to assemble, or assembles
#   with another register, once the compiler chooses a high one. g++ 12 and clang 14 print %xmm21 and %zmm21.
# Found in: an AVX-512 kernel that was compiled for musl.
# Guess: a modifier gives the same register another width, whatever its number.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q ziglang==0.17.1
cat >"$work/widths.c" <<'C'
typedef unsigned short vector __attribute__((vector_size(32)));
void widths(vector value) {
  register vector low __asm__("ymm5") = value;
  register vector high __asm__("ymm21") = value;
  __asm__ volatile("# register 5: %x0 %0 %g0; register 21: %x1 %1 %g1" : : "v"(low), "v"(high));
}
C
export ZIG_GLOBAL_CACHE_DIR=$work/cache
"$work/venv/bin/python" -m ziglang cc --version | head -n 1
"$work/venv/bin/python" -m ziglang cc -target x86_64-linux-musl -O2 -mavx512f -mavx512vl -S -o "$work/widths.s" "$work/widths.c"
grep -o '# register 5.*' "$work/widths.s" | tee "$work/found"
[[ $(<"$work/found") == '# register 5: %xmm5 %ymm5 %zmm5; register 21: %r13w %ymm21 %r16' ]]
