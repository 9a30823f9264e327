#!/usr/bin/env bash
# Converts three small checkpoints to bf16, and one of them to other formats. With a path, converts that checkpoint to a format. Installs
# what is missing on Debian 12.
#   bash examples/convert_checkpoint.sh [IN OUT --to FORMAT …]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

install_packages nlohmann-json3-dev
build_examples convert_checkpoint
convert() { printf '\n%s\n' "convert_checkpoint $*" && "$build/examples/example_convert_checkpoint" "$@"; }
if (($#)); then
  convert "$@"
  exit
fi
output=build/examples/checkpoints
rm -rf "$output" && mkdir -p "$output"
for model in deepseek gpt_oss modelopt_nvfp4; do
  convert tests/golden/checkpoints/$model $output/$model --to bf16
done
convert $output/deepseek $output/deepseek_fp8 --to fp8-128x128
convert $output/gpt_oss $output/gpt_oss_mxfp4 --to mxfp4
convert $output/modelopt_nvfp4 $output/llama_nvfp4 --to nvfp4
cat $output/llama_nvfp4/config.json
