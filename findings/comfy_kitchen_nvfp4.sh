#!/usr/bin/env bash
# Packages: comfy-kitchen 0.2.40, nvidia-modelopt 0.47.0 and torch 2.15.0 (PyPI).
# What it does: comfy-kitchen, which quantizes for ComfyUI, stores NVFP4 in tensors of the same names, dtypes and shapes as ModelOpt does:
#   weight, weight_scale, weight_scale_2. But the first of two codes is in the upper half of a byte, and the scales are in the order of the
#   GPU's tiles of 128 x 4. Nothing in the tensors tells, and one package reads the other's file as other numbers without an error.
# Found in: TensorCoreNVFP4Layout.state_dict_tensors. Shapes differ only if 128 does not divide the rows, or 64 the columns.
# Guess: equal names, dtypes and shapes mean an equal layout.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.15.0 requests==2.34.2 huggingface_hub==2.4.0  # some GB
"$work/venv/bin/pip" install -q comfy-kitchen==0.2.40 nvidia-modelopt==0.47.0
"$work/venv/bin/python" -W ignore - <<'PYTHON'
import importlib.metadata
import torch
from comfy_kitchen.tensor import TensorCoreNVFP4Layout
from modelopt.torch.quantization.qtensor import NVFP4QTensor

print([f"{name} {importlib.metadata.version(name)}" for name in ("comfy-kitchen", "nvidia-modelopt", "torch")])
torch.manual_seed(0)
weight = torch.randn(128, 64) * torch.exp2(torch.randint(-3, 4, (128, 1)))
weight = weight.to(torch.bfloat16)

codes, parameters = TensorCoreNVFP4Layout.quantize(weight)
comfy = {"weight" + end: tensor for end, tensor in TensorCoreNVFP4Layout.state_dict_tensors(codes, parameters).items()}
quantized, scale, scale_2 = NVFP4QTensor.quantize(weight, 16)
modelopt = {"weight": quantized._quantized_data, "weight_scale": scale, "weight_scale_2": scale_2}
layouts = [{name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()} for tensors in (comfy, modelopt)]
print("both:", layouts[0])
assert layouts[0] == layouts[1]

def error(of):
    return float((of.float() - weight.float()).norm() / weight.float().norm())

def read_as_modelopt(tensors):
    q = NVFP4QTensor(weight.shape, torch.float32, tensors["weight"])
    return q.dequantize(scale=tensors["weight_scale"], double_scale=tensors["weight_scale_2"], block_sizes={-1: 16})

errors = [error(TensorCoreNVFP4Layout.dequantize(codes, parameters)), error(read_as_modelopt(modelopt)), error(read_as_modelopt(comfy))]
print("relative errors: comfy-kitchen %.2f, ModelOpt %.2f, comfy-kitchen's tensors read by ModelOpt %.2f" % tuple(errors))
assert max(errors[:2]) < 0.15 and errors[2] > 1
PYTHON
