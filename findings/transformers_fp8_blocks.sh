#!/usr/bin/env bash
# Packages: transformers 5.24.0, torch 2.15.0, safetensors 0.8.0 and accelerate 1.15.0 (PyPI).
# What it does: reads weights in fp8 with scales for 128 x 128 blocks. If it dequantizes them, as it does without a GPU, it divides the rows of
#   a weight by the rows of its scales to get the rows of a block. It reads 192 rows as two blocks of 96, so that rows 96 to 127 get the scale
#   of the second block. It refuses 320 rows. The weight_block_size of the configuration is not used. The same holds for columns.
# Found in: Fp8Dequantize of transformers/integrations/finegrained_fp8.py.
# Guess: the last block is cut off at the edge, as in FP8Linear of the same file, and in DeepSeek-V3, which has weights of 576 rows.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q transformers==5.24.0 torch==2.15.0 safetensors==0.8.0 accelerate==1.15.0  # some GB
CUDA_VISIBLE_DEVICES='' WORK=$work "$work/venv/bin/python" - <<'PYTHON'
import os, torch, transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, FineGrainedFP8Config, LlamaConfig

transformers.logging.set_verbosity(transformers.logging.CRITICAL)
transformers.logging.disable_progress_bar()
print("transformers", transformers.__version__, "torch", torch.__version__)

def rows_of_first_scale(rows):
    """Saves a model whose up_proj has that many rows, all 1, with the scales 1, 2, 3. Returns how many rows are 1 after loading."""
    config = LlamaConfig(hidden_size=128, intermediate_size=rows, num_hidden_layers=1, num_attention_heads=2, vocab_size=32,
                         tie_word_embeddings=False, architectures=["LlamaForCausalLM"])
    tensors = {}
    for name, tensor in AutoModelForCausalLM.from_config(config).state_dict().items():
        tensors[name] = torch.ones(tensor.shape)
        if "proj" in name:
            blocks = [(n + 127) // 128 for n in tensor.shape]
            tensors[name] = tensors[name].to(torch.float8_e4m3fn)
            tensors[name + "_scale_inv"] = torch.arange(1.0, blocks[0] * blocks[1] + 1).reshape(blocks)
    config.quantization_config = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
    directory = os.path.join(os.environ["WORK"], str(rows))
    config.save_pretrained(directory)
    save_file(tensors, directory + "/model.safetensors", {"format": "pt"})
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32,
                                                 quantization_config=FineGrainedFP8Config(dequantize=True))
    weight = model.model.layers[0].mlp.up_proj.weight
    first = int((weight[:, 0] == 1).sum())
    print(f"{rows} rows: the first scale is that of rows 0 to {first - 1}")
    return first

assert rows_of_first_scale(256) == 128
assert rows_of_first_scale(192) == 96
try:
    rows_of_first_scale(320)
    raise SystemExit("320 rows were read")
except RuntimeError as error:
    print("320 rows:", error)
PYTHON
