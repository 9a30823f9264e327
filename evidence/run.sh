#!/usr/bin/env bash
# Builds a program of this folder, runs it, keeps its tables in NAME.log, and draws its pictures. Installs what is missing on Debian 12.
#   bash evidence/run.sh NAME [output directory [arguments …]]
# NAME is networks (45 minutes for 10 seeds on two idle cores), compare_policies, gradient_histogram, fp8_linear, reduction_order,
# rank_simulation, noise or fused_adamw (less than a minute each). The arguments are those of NAME.cpp after the directory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source examples/common.sh

name=${1-}
[[ -f evidence/$name.cpp ]] || { sed -n '2,5s/^# \{0,1\}//p' evidence/run.sh && exit 2; }
output=${2:-build/evidence}
arguments=(examples/data/digits.csv "$output" "${@:3}")
pictures=()
case $name in
  networks)
    pictures=(evidence_constants evidence_policy evidence_fault evidence_scales)
    build=build/release-native # Eigen multiplies the matrices, with the instructions that it was compiled for
    export CXXFLAGS=-march=native
    ;;
  compare_policies) pictures=(policies) ;;
  gradient_histogram) pictures=(gradients) ;;
  fp8_linear) pictures=(fp8) ;;
  rank_simulation | noise | fused_adamw) arguments=("${@:3}") ;;
esac
mkdir -p "$output"
build_examples "$name"
lscpu | sed -nE 's/^Model name: */CPU: /p' || true
"$build/evidence/example_$name" "${arguments[@]}" | tee "$output/$name.log"
for picture in "${pictures[@]}"; do
  draw "$output/$picture.png" evidence/plots.gp "directory='$output'; picture='$picture'"
done
