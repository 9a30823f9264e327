#!/usr/bin/env bash
# The weight of the headers: millions of instructions of the compiler (-O2 -S), also as ratios to a file that includes only standard
# headers; bytes of the main example; lines by module. valgrind counts, so a busy machine gives the same. Takes minutes. headroom does
# not include <immintrin.h>. The file still does, so that its ratios compare with older ones.
#   bash benchmarks/weight.sh [checkout to compare with ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source cmake/install_packages.sh
install_packages g++ valgrind
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#include <%s>\n' immintrin.h array deque list map unordered_map vector memory functional tuple variant stdexcept >"$work/base.cpp"
echo '#include <headroom/headroom.hpp>' >"$work/umbrella.cpp"
echo '#include <headroom/policy/dynamic.hpp>' >"$work/policy.cpp"
echo '#include <headroom/training/grad_scaler.hpp>' >"$work/scaler.cpp"

row() { # NAME SOURCE [FLAG]
  local n
  n=$(valgrind --trace-children=yes --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \
    g++ -std=c++17 -O2 -Iinclude -S "${@:2}" -o "$work/x.s" 2>&1 | awk '/I +refs/ { gsub(",", "", $NF); sum += $NF } END { print int(sum / 1e6) }')
  awk -v name="$1" -v n="$n" -v base="${base:=$n}" 'BEGIN { printf "%-32s %9d %7.2f\n", name, n, n / base }'
}
for checkout in "$PWD" "$@"; do
  cd "$checkout"
  base=
  printf '\n%s at %s\n' "$checkout" "$(git log -1 --format='%h %s' 2>/dev/null || echo 'no commit')"
  row base "$work/base.cpp"
  row umbrella "$work/umbrella.cpp"
  row "one policy" "$work/policy.cpp"
  row grad_scaler.hpp "$work/scaler.cpp"
  row "umbrella, compiled kernels" "$work/umbrella.cpp" -DHEADROOM_COMPILED
  row minimal.cpp examples/minimal.cpp
  row "minimal.cpp, compiled kernels" examples/minimal.cpp -DHEADROOM_COMPILED
  g++ -std=c++17 -O2 -Iinclude examples/minimal.cpp -o "$work/minimal" -pthread
  strip "$work/minimal"
  size -A "$work/minimal" | awk '/^\.(text|rodata|eh_frame) / { print "minimal.cpp, stripped: " $1, $2, "bytes" }'
  find include/headroom -type f | awk -F/ '{ print (NF > 3 ? $3 : "top"), $0 }' | while read -r module file; do echo "$module $(wc -l <"$file")"; done |
    awk '{ lines[$1] += $2; lines["all"] += $2 } END { for (module in lines) printf "%-12s %6d lines\n", module, lines[module] }' | sort -k 2n
done
