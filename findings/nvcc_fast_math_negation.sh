#!/usr/bin/env bash
# Packages: nvidia-cuda-nvcc, nvidia-cuda-crt and nvidia-nvvm 13.0.88, nvidia-cuda-runtime 13.0.96 (PyPI).
# What it does: with -use_fast_math a change of sign and fabsf become instructions that flush subnormal numbers to zero, neg.ftz.f32 and
#   abs.ftz.f32. So -x and |x| of a subnormal float are 0.
# Found in: the PTX of kernels that must keep subnormal gradients.
# Guess: -ftz=true is about sums, products and quotients; a sign is a bit, and -x of any x has the magnitude of x.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96
cuda=$(echo "$work"/venv/lib/python3*/site-packages/nvidia/cu13)
cat >"$work/sign.cu" <<'CU'
extern "C" __global__ void sign(float* p) {
  p[0] = -p[1];
  p[2] = fabsf(p[3]);
}
CU
"$cuda/bin/nvcc" --version | grep release
for flags in "" -use_fast_math; do
  "$cuda/bin/nvcc" -I"$cuda/include" $flags -ptx "$work/sign.cu" -o "$work/sign$flags.ptx"
  echo "nvcc $flags: $(grep -oE '(neg|abs)\S*' "$work/sign$flags.ptx" | tr '\n' ' ')"
done
[[ $(grep -cE '(neg|abs)\.f32' "$work/sign.ptx") == 2 && $(grep -cE '(neg|abs)\.ftz\.f32' "$work/sign-use_fast_math.ptx") == 2 ]]
