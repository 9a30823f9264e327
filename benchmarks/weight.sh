#!/usr/bin/env bash
# The weight of the headers: what a compiler executes (-O2 -S) as ratios to a file that includes only the standard headers that
# headroom needs, bytes of the main example, lines by module. Counts instructions, by perf or else valgrind, so that a busy
# machine gives the same; minutes with valgrind. Without either it measures CPU milliseconds: compare only ratios of one run.
#   bash benchmarks/weight.sh [checkout to compare with ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
compiler=${CXX:-g++}
checkouts=("$PWD" "$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The files that are compiled: a line of the table each, with its flags.
names=(base umbrella "one policy" grad_scaler.hpp "umbrella, compiled kernels" minimal.cpp "minimal.cpp, compiled kernels")
printf '#include <%s>\n' immintrin.h array deque list map unordered_map vector memory functional tuple variant stdexcept >"$work/base.cpp"
echo '#include <headroom/headroom.hpp>' >"$work/umbrella.cpp"
echo '#include <headroom/policy/dynamic.hpp>' >"$work/policy.cpp"
echo '#include <headroom/training/grad_scaler.hpp>' >"$work/scaler.cpp"
sources=("$work/base.cpp" "$work/umbrella.cpp" "$work/policy.cpp" "$work/scaler.cpp" "$work/umbrella.cpp" examples/minimal.cpp examples/minimal.cpp)
flags=("" "" "" "" -DHEADROOM_COMPILED "" -DHEADROOM_COMPILED)

# The cost of a command with its children: millions of instructions, or CPU milliseconds.
if perf stat -e instructions:u true 2>&1 | grep -q '[0-9] *instructions'; then
  unit=instructions
  cost() { perf stat -x, -e instructions:u -o "$work/cost" "$@" && awk -F, '/instructions/ { print int($1 / 1e6) }' "$work/cost"; }
elif [[ -n $(type -P valgrind) ]]; then
  unit=instructions
  cost() {
    valgrind --trace-children=yes --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null "$@" 2>&1 |
      awk '/I +refs/ { gsub(",", "", $NF); sum += $NF } END { print int(sum / 1e6) }'
  }
else
  unit=CPU
  cost() {
    local TIMEFORMAT='%U %S'
    { time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print int(($1 + $2) * 1000) }'
  }
fi

declare -A best
for round in 1 2 3 4 5; do
  [[ $round == 1 || $unit == CPU ]] || break
  for checkout in "${checkouts[@]}"; do
    for i in "${!names[@]}"; do
      [[ -z ${flags[i]} || -d $checkout/src ]] || continue # it has no compiled kernels
      n=$(cd "$checkout" && cost "$compiler" -std=c++17 -O2 ${flags[i]} -Iinclude -S "${sources[i]}" -o "$work/x.s")
      key=$checkout/$i
      [[ -n ${best[$key]:-} ]] && ((best[$key] <= n)) || best[$key]=$n
    done
  done
done

for checkout in "${checkouts[@]}"; do
  printf '\n%s at %s\n' "$checkout" "$(git -C "$checkout" log -1 --format='%h %s' 2>/dev/null || echo 'no commit')"
  printf '%-32s %9s %7s\n' "$("$compiler" -dumpfullversion) -O2 -S" "$([[ $unit == CPU ]] && echo CPU ms || echo 10^6)" ratio
  for i in "${!names[@]}"; do
    n=${best[$checkout/$i]:-}
    [[ -z $n ]] || awk -v name="${names[i]}" -v n="$n" -v base="${best[$checkout/0]}" 'BEGIN { printf "%-32s %9d %7.2f\n", name, n, n / base }'
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
