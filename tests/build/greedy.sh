#!/usr/bin/env bash
# greedy.sh INCLUDE SOURCE FLAG ...: SOURCE compiles with each of $COMPILERS and runs, although the namespace of its types has a
# deleted template with the name of every function of headroom. A call of one with an argument of such a type, without
# `headroom::` or `detail::` before it, would choose the deleted one.
set -euo pipefail
include=$1 source=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What is declared at namespace scope is not indented. Three names are there to be found in the namespaces of users.
names=$(find "$include/headroom" -name '*.hpp' -o -name '*.inl' | xargs cat |
  perl -ne 's/\[\[.*?\]\] ?|HEADROOM_DETAIL_HD //g; print "$1\n" if /^(?!\s|using|static_assert|struct|class|friend|HEADROOM|#|\/)[^=({]*?\b([a-z]\w*)\(/ && !/\boperator\b/' |
  sort -u | grep -vxE 'alignas|decltype|headroom_tree|(from|to)_json')
[[ $(wc -l <<<"$names") -gt 300 ]] || { echo "too few functions were found" && exit 1; }
for name in $names; do # the others are as good as a template of headroom for a format of 16 bits
  echo "template <class... Ts> void $name(Ts&&...) = delete; void $name(const Format&, float) = delete;"
  echo "void $name(const Format&, std::uint16_t, std::uint16_t) = delete;"
done >"$work/greedy_names.inl"

for compiler in ${COMPILERS:?names no compiler}; do
  "$compiler" -std=c++17 -O0 "$@" -I"$include" -I"$work" "$source" -o "$work/program" -pthread && "$work/program" ||
    { echo "failed with $compiler" && exit 1; }
done
