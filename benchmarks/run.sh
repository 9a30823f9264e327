#!/usr/bin/env bash
# Measures the kernels against the limits of the machine, against Eigen, xtensor, libtorch, Highway and plain loops; small calls,
# trees of small leaves, and threads; and the decision of MPI's ranks. Prints tables, and writes JSON and a picture. Each program
# but the last runs everything in random order; figures of different runs or machines are not to be compared. Installs what is
# missing on Debian 12. Takes five minutes.
#   bash benchmarks/run.sh [output directory [flags of Google Benchmark]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh
install_packages g++ cmake ninja-build libeigen3-dev libxtensor-dev libbenchmark-dev
install_packages libhwy-dev || echo "Going on without Highway."
install_packages libtbb-dev || echo "Going on without oneTBB."
install_packages libtorch-dev || echo "Going on without libtorch."
install_packages libopenmpi-dev openmpi-bin || echo "Going on without MPI."
install_packages gnuplot-nox || echo "Going on without gnuplot: no picture is drawn."

output=${1:-build/benchmarks}
flags=(--benchmark_enable_random_interleaving=true --benchmark_repetitions=9 --benchmark_min_time=0.01 "${@:2}")
mkdir -p "$output"
cmake -S . -B build/benchmarks -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_BENCHMARKS=ON \
  -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=OFF
cmake --build build/benchmarks --parallel "$(nproc)"
programs=build/benchmarks/benchmarks
"$programs/benchmark_kernels" "$output/kernels.tsv" --benchmark_out="$output/kernels.json" "${flags[@]}"
"$programs/benchmark_trees" "$output/calls.tsv" "$output/threads.tsv" "${flags[@]}"
if [[ -x $programs/benchmark_torch_step ]]; then
  "$programs/benchmark_torch_step" --benchmark_report_aggregates_only "${flags[@]}" | grep median | sort
fi
if [[ -x $programs/benchmark_mpi_decision ]]; then
  bash benchmarks/mpi_decision.sh "$programs/benchmark_mpi_decision"
fi

if command -v gnuplot >/dev/null; then
  gnuplot -e "tsv='$output/kernels.tsv'; png='$output/kernels.png'" benchmarks/plot_kernels.gp
  echo "Picture: $output/kernels.png"
fi
