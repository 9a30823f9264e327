#!/usr/bin/env bash
# Packages: mlx 0.32.4 (PyPI).
# What it does: the global_scale of NVFP4 is neither a factor nor a divisor, but the largest magnitude of the tensor. The numbers are the
#   codes times the scales of the blocks times global_scale / 2688, and 2688 is 6 * 448. So 1 limits all numbers to 1, and differs from
#   leaving the argument out.
# Found in: mlx.core.quantize and mlx.core.dequantize with mode="nvfp4". mlx-lm stores it in checkpoints as NAME.global_scale.
# Guess: a factor, as ModelOpt's weight_scale_2, or a divisor, as weight_global_scale of compressed-tensors. Either way 1 is neutral.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q mlx==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
"$work/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import mlx.core as mx, numpy as np

mx.set_default_device(mx.cpu)
print("mlx", importlib.metadata.version("mlx"))
values = np.tile(np.array([[3, -1.5, 0.75, 0.25]], np.float32), (1, 8))

def there_and_back(global_scale):
    scale = {} if global_scale is None else {"global_scale": mx.array(global_scale, mx.float32)}
    codes, scales = mx.quantize(mx.array(values), mode="nvfp4", **scale)
    result = np.array(mx.dequantize(codes, scales, mode="nvfp4", dtype=mx.float32, **scale))
    print(f"{values[0, :4].tolist()} with global_scale {global_scale}: {result[0, :4].tolist()}, scales {np.array(scales)[0].tolist()}")
    return result

assert np.abs(there_and_back(None) - values).max() < 0.1
assert np.abs(there_and_back(3.0) - values).max() < 0.1  # the largest magnitude
assert np.abs(there_and_back(1.0)).max() == 1
assert np.abs(there_and_back(3 / 2688)).max() < 0.002  # ModelOpt's weight_scale_2
factor = [float(mx.dequantize(mx.array([[2, 0, 0, 0]], mx.uint32), mx.array([[56, 56]], mx.uint8), mode="nvfp4", dtype=mx.float32,
                              global_scale=mx.array(scale))[0, 0]) for scale in (1.0, 2688.0)]
print("the code of 1 with a block scale of 1, global_scale 1 and 2688:", factor)
assert np.float32(factor[0]) == np.float32(1 / 2688) and factor[1] == 1
PYTHON
