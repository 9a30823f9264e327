#!/usr/bin/env bash
# Runs all benchmarks: kernels beside the limits of the machine and beside Eigen, xtensor, libtorch, Highway and plain loops; small calls,
# trees of small leaves, and threads; the C interface beside the C++ one; quantizing beside torch 2; steps beside its fused operators; and
# the decision of MPI's ranks. Prints tables, and writes JSON and a picture. Each program except the last runs its contenders in random order.
# Compare only figures of one run.
# Installs what is missing on Debian 12, and torch 2 from PyPI into the build directory (540 MB to download, 1.3 GB installed).
#   bash benchmarks/run.sh [output directory [flags of Google Benchmark]]
#   bash benchmarks/run.sh --quick     the table of README, in a minute; beside libtorch, too, if it is installed
#   bash benchmarks/run.sh --quantize  8 and 4 bits alone, in a minute
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh
flags=(--benchmark_enable_random_interleaving=true --benchmark_repetitions=9 --benchmark_min_time=0.01)
if [[ ${1:-} == --quick ]]; then
  echo "Takes about a minute on two idle cores."
  install_packages g++ cmake ninja-build libeigen3-dev libxtensor-dev libbenchmark-dev
  cmake -S . -B build/quick -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_BENCHMARKS=ON -DHEADROOM_BUILD_TESTS=OFF \
    -DHEADROOM_BUILD_EXAMPLES=OFF -DHEADROOM_TORCH="$(has_package libtorch-dev && echo ON || echo OFF)" >/dev/null
  cmake --build build/quick --target benchmark_kernels >/dev/null
  work='unscale float in place|unscale fp16 to float|unscale bf16 to float|measure float'
  build/quick/benchmarks/benchmark_kernels build/quick/kernels.tsv "${flags[@]}" \
    --benchmark_filter="^($work)[|](headroom .*|limit.*|obvious loop|Eigen.*|libtorch.*)[|]268435456" >/dev/null
  awk -F '\t' '
    BEGIN { printf "256 MiB                loop without  plain  Eigen\n                             checks   loop    3.4\n" }
    NF > 1 && !/^[0-9]/ { work = $1; delete column; for (i = 2; i <= NF; ++i) if ($i !~ /portable/ || !("headr" in column)) column[substr($i, 1, 5)] = i }
    /^268435456/ {
      ours = $column["headr"]
      printf "%-22s %12.1f %6.1f %6.1f\n", work, ours / $column["limit"], ours / $column["obvio"], ours / $column["Eigen"]
      if ("libto" in column) torch = torch sprintf("%-22s %12.1f\n", work, ours / $column["libto"])
    }
    END { if (torch != "") printf "\n%-22s %12s\n%s", "", "libtorch", torch }' build/quick/kernels.tsv
  exit
fi
only_quantize=
if [[ ${1:-} == --quantize ]]; then
  only_quantize=yes
  shift
fi
install_packages g++ cmake ninja-build libeigen3-dev libxtensor-dev libbenchmark-dev
if [[ -z $only_quantize ]]; then
  echo "Takes about six minutes on two idle cores, and more to install torch 2. Other work on the machine makes the figures useless."
  for packages in libhwy-dev libtbb-dev libtorch-dev "libopenmpi-dev openmpi-bin" gnuplot-nox; do
    install_packages $packages || echo "Going on without $packages."
  done
fi
# Debian's libtorch is 1.13. Of the libraries for GPUs that pip would install, several GB, torch needs these two on the CPU as well.
torch_packages=(torch==2.15.0 nvidia-cuda-cupti==13.2.86 nvidia-cuda-runtime==13.2.86)
environment=build/benchmarks/python
torch=
if install_packages python3-venv && python3 -m venv "$environment" &&
  "$environment/bin/pip" install --quiet --no-compile --no-deps "${torch_packages[@]}"; then
  torch=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch
else
  echo "Going on without torch 2."
fi

output=${1:-build/benchmarks}
flags+=("${@:2}")
mkdir -p "$output"
cmake -S . -B build/benchmarks -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_BENCHMARKS=ON \
  -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=OFF -DHEADROOM_C=ON -DHEADROOM_BENCHMARK_TORCH="$torch"
cmake --build build/benchmarks --parallel "$(nproc)" ${only_quantize:+--target benchmark_quantize}
programs=build/benchmarks/benchmarks
lscpu | sed -nE 's/^(Model name|CPU\(s\)|L[123].? cache): */\1: /p' || true
"$programs/benchmark_quantize" "$output/quantize.tsv" "${flags[@]}"
[[ -z $only_quantize ]] || exit 0
"$programs/benchmark_kernels" "$output/kernels.tsv" --benchmark_out="$output/kernels.json" "${flags[@]}"
"$programs/benchmark_trees" "$output/calls.tsv" "$output/threads.tsv" "$output/streaming.tsv" "${flags[@]}"
"$programs/benchmark_c" "$output/c.tsv" "${flags[@]}"
if [[ -x $programs/benchmark_torch_step ]]; then
  "$programs/benchmark_torch_step" --benchmark_report_aggregates_only "${flags[@]}" | grep median | sort
fi
if [[ -n $torch ]]; then
  echo
  "$programs/benchmark_torch_fused" --benchmark_out="$output/torch_fused.json" "${flags[@]}" \
    --benchmark_repetitions=51 --benchmark_min_time=0.001 "${@:2}" # one run at a time, so that contenders alternate often
fi
if [[ -x $programs/benchmark_mpi_decision ]]; then # a column for each number of ranks. If they are more than cores, they wait for a core
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 # Open MPI's; others do not read them
  for ranks in 1 2 4 8; do
    mpiexec -n $ranks "$programs/benchmark_mpi_decision" $([[ $ranks != 1 ]] || echo names) >"$output/decision.$ranks"
  done
  paste -d '' "$output"/decision.{1,2,4,8}
fi

if command -v gnuplot >/dev/null; then
  gnuplot -e "tsv='$output/kernels.tsv'; png='$output/kernels.png'" benchmarks/plot_kernels.gp
  echo "Picture: $output/kernels.png"
fi
