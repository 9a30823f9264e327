#!/usr/bin/env bash
# Packages: qwix 0.1.8 and jax 0.10.2 (PyPI).
# What it does: quantizes float16 values of up to 0.5 to int8 as zeros. A scale below the square root of the smallest normal float16, which
#   is 0.0078, is replaced by 1. Here it would be 0.0039. bfloat16 and float32 have small enough normals.
# Found in: qwix.quantize with its default method, absmax. float8_e4m3fn meets the same limit: float16 values below 2^-10 become 0.
# Guess: a scale for the largest value makes the error at most half a step of 0.5 / 127, whatever the float type.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q qwix==0.1.8 flax==0.12.8 jax==0.10.2 jaxlib==0.10.2
JAX_PLATFORMS=cpu "$work/venv/bin/python" - <<'EOF'
import importlib.metadata, jax, jax.numpy as jnp, numpy as np, qwix

print("qwix", importlib.metadata.version("qwix"), "jax", jax.__version__)

def quantize(values, dtype, kind):
    quantized = qwix.quantize(jnp.array(values, dtype), kind)
    result = np.asarray(qwix.dequantize(quantized), np.float32)
    print(f"{kind} of {dtype.__name__} {values}: {result}, scale {quantized.scale}")
    return result

values = [0.5, -0.25, 0.1]
for dtype in (jnp.float32, jnp.bfloat16):
    assert np.abs(quantize(values, dtype, "int8") - values).max() < 0.004
assert (quantize(values, jnp.float16, "int8") == 0).all()
assert (quantize([1e-3, 9e-4], jnp.float32, "float8_e4m3fn") > 8e-4).all()
assert (quantize([9e-4, 8e-4], jnp.float16, "float8_e4m3fn") == 0).all()
EOF
