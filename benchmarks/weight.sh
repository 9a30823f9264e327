#!/usr/bin/env bash
# The weight of the headers: CPU seconds of a compiler (-O2 -c, best of 5) as ratios to a file that includes only the standard
# headers that headroom needs, bytes of the main example, lines by module. Compare only ratios of one run.
#   bash benchmarks/weight.sh [checkout to compare with ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
compiler=${CXX:-g++}
checkouts=("$PWD" "$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The files that are compiled: a line of the table each, with its flags.
names=(base umbrella "one policy" "umbrella, compiled kernels" minimal.cpp "minimal.cpp, compiled kernels")
printf '#include <%s>\n' immintrin.h array deque list map unordered_map vector memory functional tuple variant stdexcept >"$work/base.cpp"
echo '#include <headroom/headroom.hpp>' >"$work/umbrella.cpp"
echo '#include <headroom/policy/dynamic.hpp>' >"$work/policy.cpp"
sources=("$work/base.cpp" "$work/umbrella.cpp" "$work/policy.cpp" "$work/umbrella.cpp" examples/minimal.cpp examples/minimal.cpp)
flags=("" "" "" -DHEADROOM_COMPILED "" -DHEADROOM_COMPILED)

# The CPU milliseconds of a command, its children's included.
cpu_ms() {
  local TIMEFORMAT='%U %S'
  { time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ printf "%d\n", ($1 + $2) * 1000 }'
}

declare -A best
for round in 1 2 3 4 5; do
  for checkout in "${checkouts[@]}"; do
    for i in "${!names[@]}"; do
      [[ -z ${flags[i]} || -d $checkout/src ]] || continue # it has no compiled kernels
      ms=$(cd "$checkout" && cpu_ms "$compiler" -std=c++17 -O2 ${flags[i]} -Iinclude -c "${sources[i]}" -o "$work/x.o")
      key=$checkout/$i
      [[ -n ${best[$key]:-} ]] && ((best[$key] <= ms)) || best[$key]=$ms
    done
  done
done

for checkout in "${checkouts[@]}"; do
  printf '\n%s at %s\n' "$checkout" "$(git -C "$checkout" log -1 --format='%h %s' 2>/dev/null || echo 'no commit')"
  printf '%-32s %9s %7s\n' "$("$compiler" -dumpfullversion) -O2 -c" seconds ratio
  for i in "${!names[@]}"; do
    ms=${best[$checkout/$i]:-}
    [[ -z $ms ]] || awk -v name="${names[i]}" -v ms="$ms" -v base="${best[$checkout/0]}" 'BEGIN { printf "%-32s %9.2f %7.2f\n", name, ms / 1000, ms / base }'
  done

  "$compiler" -std=c++17 -O2 -I"$checkout/include" "$checkout/examples/minimal.cpp" -o "$work/minimal" -pthread
  strip "$work/minimal"
  size -A "$work/minimal" | awk '$1 ~ "^\\.(text|rodata|eh_frame)$" { sum += $2; text = $1 == ".text" ? $2 : text } END { printf "minimal.cpp, stripped: %d bytes in .text, %d with constants and unwinding\n", text, sum }'

  # Lines of headers by module: all, and the share of those that hold only a comment.
  (cd "$checkout/include/headroom" && find . -name '*.hpp' -o -name '*.inl' | xargs awk '
    FNR == 1 { module = FILENAME; sub(/^\.\//, "", module); if (!sub(/\/.*/, "", module)) module = "top" }
    { lines[module]++; lines["all"]++ }
    /^ *\/\// { comments[module]++; comments["all"]++ }
    END { for (module in lines) printf "%-12s %6d lines, %4.1f %% comments\n", module, lines[module], 100 * comments[module] / lines[module] }' | sort -k 2n)
done
