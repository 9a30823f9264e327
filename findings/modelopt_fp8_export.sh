#!/usr/bin/env bash
# Packages: nvidia-modelopt 0.47.0, transformers 5.24.0, torch 2.15.0 and accelerate 1.15.0 (PyPI).
# What it does: simulates fp8 weights with a scale for each 128 x 128 block, in the model that is evaluated, and exports them. In some weight
#   tensors hundreds of elements of the export are the neighbouring number of e4m3: where a weight lies in the middle between two of them, the
#   simulation multiplies it by 448 / amax, the export divides it by amax / 448, and the two roundings decide differently.
# Found in: fp8_eager of modelopt/torch/quantization/tensor_quant.py, to_quantized_weight of modelopt/torch/export/quant_utils.py.
# Guess: the exported checkpoint has the numbers of the model that was evaluated.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q nvidia-modelopt==0.47.0 transformers==5.24.0 torch==2.15.0 accelerate==1.15.0 \
  safetensors==0.8.0 requests datasets  # some GB
CUDA_VISIBLE_DEVICES='' WORK=$work "$work/venv/bin/python" - <<'PYTHON'
import os, torch, transformers, modelopt
import modelopt.torch.quantization as mtq
from modelopt.torch.export import export_hf_checkpoint
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

print("modelopt", modelopt.__version__, "transformers", transformers.__version__, "torch", torch.__version__)
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(hidden_size=256, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                     vocab_size=128, tie_word_embeddings=False, architectures=["LlamaForCausalLM"])).bfloat16()
mtq.quantize(model, mtq.FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG, lambda m: m(torch.arange(8)[None]))
simulated = {name + ".weight": module.weight_quantizer(module.weight).detach().clone() for name, module in model.named_modules()
             if hasattr(module, "weight_quantizer") and module.weight_quantizer.is_enabled}
export_hf_checkpoint(model, export_dir=os.environ["WORK"] + "/export")
exported = load_file(os.environ["WORK"] + "/export/model.safetensors")
differ = {}
for name, weight in simulated.items():
    codes, scales = exported.get(name), exported.get(name + "_scale")
    if codes is None or codes.dtype != torch.float8_e4m3fn: continue
    scales = scales.squeeze(3).squeeze(1).repeat_interleave(128, 0).repeat_interleave(128, 1)
    numbers = (codes.float() * scales).bfloat16()
    if (numbers != weight).any():
        i, j = (numbers != weight).nonzero()[0].tolist()
        differ[name] = int((numbers != weight).sum())
        print(f"{name}: {differ[name]} of {weight.numel()} elements differ, such as {weight[i, j]:.6f}, exported as {numbers[i, j]:.6f} "
              f"= {codes[i, j].item()} * {scales[i, j].item():.6g}")
assert differ and max(differ.values()) > 50, differ
PYTHON
