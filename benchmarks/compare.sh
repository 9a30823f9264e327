#!/usr/bin/env bash
# How much faster the working tree is than another commit: builds benchmark_kernels of both, runs them in turn, and prints the median
# times and their ratio. In three minutes on two idle cores; equal kernels had ratios from 0.9 to 1.1, and from 0.8 to 1.3 on a machine
# that others use, too.
# The tensors are of 0.5 and 256 MiB. To time others, write a benchmark.
#   bash benchmarks/compare.sh COMMIT [REGEX]    COMMIT may be main or HEAD~1; REGEX chooses works, such as 'unscale fp16'
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh
commit=$(git rev-parse --verify --quiet "${1-}^{commit}") || { sed -n '2,6s/^# \{0,1\}//p' benchmarks/compare.sh && exit 2; }
if git diff --quiet "$commit" -- include src 'benchmarks/*.cpp'; then
  echo "The working tree has the kernels of $1: there is nothing to compare. Is your change on a branch of its own?" && exit 2
fi
install_packages g++ cmake ninja-build libeigen3-dev libxtensor-dev libbenchmark-dev

output=$PWD/build/compare
git worktree remove --force "$output/source" 2>/dev/null || git worktree prune
git worktree add --quiet --detach "$output/source" "$commit"
trap 'git worktree remove --force "$output/source"' EXIT
for side in old new; do
  echo "Building $side"
  source=$PWD
  [[ $side == new ]] || source=$output/source
  cmake -S "$source" -B "$output/$side" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_BENCHMARKS=ON -DHEADROOM_BUILD_TESTS=OFF \
    -DHEADROOM_BUILD_EXAMPLES=OFF -DHEADROOM_TORCH=OFF >/dev/null
  cmake --build "$output/$side" --target benchmark_kernels -- --quiet
done
rounds=9
for ((round = 1; round <= rounds; ++round)); do
  printf '\rRound %d of %d' $round $rounds
  for side in old new; do
    "$output/$side/benchmarks/benchmark_kernels" "$output/$side.tsv" --benchmark_filter="^.*${2-}.*[|]headroom .*[|](524288|268435456)/" \
      --benchmark_min_time=0.01 --benchmark_out="$output/$side.$round.csv" --benchmark_out_format=csv >/dev/null
  done
done
printf '\n\nEqual kernels had ratios from 0.9 to 1.1, and from 0.8 to 1.3 on a machine that others use, too.\n%-34s %10s %10s %10s %10s %14s\n' "" "" "bytes" "old, us" "new, us" "times as fast"
# A row of Google Benchmark: "work|headroom …|bytes",iterations,real_time,cpu_time,unit,…
for side in old new; do
  for file in "$output/$side".[1-9].csv; do sed -n "s/^\"\\(.*|headroom.*\\)/$side\",\"\\1/p" "$file"; done
done | awk -F '"' '
  function median(list, n, values, i, j, t) {
    n = split(list, values, " ")
    for (i = 1; i <= n; ++i) for (j = i + 1; j <= n; ++j) if (values[j] + 0 < values[i] + 0) { t = values[i]; values[i] = values[j]; values[j] = t }
    return values[int((n + 1) / 2)]
  }
  { split($4, row, ","); if (!($3 in seen)) { seen[$3] = 1; names[++n] = $3 } times[$1, $3] = times[$1, $3] " " row[3] / (row[5] == "ns" ? 1e3 : row[5] == "ms" ? 1e-3 : 1) }
  END {
    for (i = 1; i <= n; ++i) {
      split(names[i], part, "[|/]")
      sub("headroom ", "", part[2])
      old = median(times["old", names[i]]); new = median(times["new", names[i]])
      printf "%-34s %10s %10s %10s %10s %14s\n", part[1], part[2], part[3], old ? sprintf("%.1f", old) : "-", new ? sprintf("%.1f", new) : "-", old && new ? sprintf("%.2f", old / new) : "-"
    }
  }'
