#!/usr/bin/env bash
# Packages: compressed-tensors 0.20.0 and torch 2.15.0 (PyPI).
# What it does: computes the scales of NVFP4 in the dtype of the weights. Weights of bf16 have another scale of the tensor, and other scales of
#   blocks, than the same numbers in float32. 2688 / amax, the scale of the tensor, becomes 1 / amax times 2688 in torch, and both are rounded
#   to 8 bits before the result becomes a float32. So is amax / 6 of a block. 2.6 % of the scales of random normal weights differ.
# Found in: generate_gparam and calculate_qparams, which the observers of llm-compressor 0.14.0.1 call with extrema in the dtype of the weight.
# Guess: all is computed in float32, the dtype of the stored scale of the tensor, so that equal weights have equal scales, as in ModelOpt.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q compressed-tensors==0.20.0 torch==2.15.0  # some GB
"$work/venv/bin/python" - <<'PYTHON'
import importlib.metadata, torch
from compressed_tensors.quantization.quant_scheme import preset_name_to_scheme
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

print("compressed-tensors", importlib.metadata.version("compressed-tensors"), "torch", torch.__version__)
settings = preset_name_to_scheme("NVFP4", ["Linear"]).weights

def scales_of(weight):
    blocks = weight.unflatten(-1, (-1, 16))
    low, high = blocks.amin(-1), blocks.amax(-1)
    of_tensor = generate_gparam(low.min(), high.max())
    of_blocks, _ = calculate_qparams(low, high, settings, of_tensor)
    return of_tensor, of_blocks.to(torch.float8_e4m3fn).view(torch.uint8).int()

different = total = 0
for seed, shape in enumerate([(576, 576), (1536, 576), (2048, 2048), (4096, 1024)]):
    torch.manual_seed(seed)
    weight = (torch.randn(shape) * 0.02).to(torch.bfloat16)
    level, scales = scales_of(weight)
    level_of_float, scales_of_float = scales_of(weight.float())
    print(f"{shape}: scale of the tensor, {level.dtype}: {level.item()}, of the same numbers in float32 {level_of_float.item():.2f}")
    assert level.dtype == torch.float32 and level == weight.abs().max().reciprocal() * 2688 != level_of_float
    different += int((scales != scales_of_float).sum())
    total += scales.numel()
    assert (scales - scales_of_float).abs().max() == 1
print(different, "of", total, "scales of blocks differ, by one step of e4m3")
assert 0.01 < different / total < 0.05
PYTHON
