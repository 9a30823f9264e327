#!/usr/bin/env bash
# public_names.sh PROJECT: docs/reference.md declares what the headers do. declarations.pl reads both.
#
# - Each declaration of the reference is in the header under which it stands, word for word.
# - Each declaration of a header is in the reference: functions, classes, macros, and all public members. Exceptions are comparisons,
#   specialisations, `fields`, and members of
#     - policies, if BasicDynamicLossScale has them too, or if they are verbs: free functions, with an argument more
#     - rules of BasicDynamicLossScale, which policy/dynamic.hpp explains: they need not be shown at all
#     - formats, which are constants
#     - classes that the reference shows without members
#   Classes may be shown without their bases, and functions as `name(...)`.
# - Each name that clang sees in the namespaces headroom and headroom::presets is in the reference, and each macro without DETAIL in its
#   name. Adapters are left out of this: each needs its library.
set -euo pipefail
export LC_ALL=C
project=$1
reference=$project/docs/reference.md
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$project/include/headroom" && find . -name '*.hpp' -not -path './kernel/isa/*' -printf '%P\n' | sort) >"$work/headers"
while read -r header; do perl "$tests/declarations.pl" "$header" "$project/include/headroom"; done <"$work/headers" >"$work/declared"
perl "$tests/declarations.pl" "$reference" >"$work/documented"

faults=0
fault() { printf '%s\n' "$1" && faults=$((faults + 1)); }

rules='^(Grow|BackOff|Refill|IgnoreMagnitudes|FollowPeak)'
awk -F '\t' -v rule="$rules" '
  function place() { return $1 FS $2 FS without_base() }
  function without_base() { return $4 ~ /^(template <.*> )?(class|struct) / ? cut($4) : $4 }
  function cut(text) { sub(/ : .*/, "", text); return text }
  function shown() { return ($2 == "" ? "" : $2 ": ") $4 }
  function by_name() { return $1 FS $2 FS $3 FS "(...)" }
  FILENAME ~ /declared$/ && pass == 1 { exact[$0]; plain[place()]; plain[by_name()]; next }
  FILENAME ~ /documented$/ && $4 ~ /\(\.\.\.\)$/ {
    if (!(by_name() in plain)) print "docs/reference.md has what " $1 " has not: " shown()
    known[by_name()]; next
  }
  FILENAME ~ /documented$/ {
    has_members[$1 FS $2]
    if (!($0 in exact) && !($4 == without_base() && place() in plain)) print "docs/reference.md has what " $1 " has not: " shown()
    if ($0 in documented) print "docs/reference.md has this twice: " shown()
    documented[$0]; known[place()]; if ($4 ~ /(class|struct) /) is_class[$1 FS $3]; if ($1 ~ /^ops/ && $2 == "") verb[$3]; next
  }
  $3 ~ /^(fields|not_specialized|std|operator [=!<>].*|~.*)$/ || $4 ~ /^template <.*> (class|struct) [a-zA-Z_0-9]+</ { next }
  $1 ~ /^policy/ && $3 ~ rule { next }
  $2 ~ /</ || $2 ~ /^(float|ieee)_format$/ || $1 ~ /^policy/ && $2 ~ rule { next }
  $1 ~ /^policy/ && $2 != "" && $2 != "presets" {
    if ($2 ~ /^(LossScaleVerbs|NoOpLossScale)$/ && $3 in verb) next
    generic = $4
    gsub($2, "BasicDynamicLossScale", generic)
    if (("policy/dynamic.hpp" FS "BasicDynamicLossScale" FS generic) in known) next
  }
  ($1 FS $2) in is_class && !(($1 FS $2) in has_members) { if ($4 ~ /^(class|struct) /) is_class[$1 FS $3]; next }
  !(place() in known) && !(by_name() in known) { print $1 " has what docs/reference.md has not: " shown() }
' pass=1 "$work/declared" "$work/documented" pass=2 "$work/declared" >"$work/differences"
while IFS= read -r difference; do fault "$difference"; done <"$work/differences"

compiler=$(command -v clang++ || command -v clang++-19 || true)
if [[ -n $compiler ]]; then
  grep -v '^adapters/' "$work/headers" | sed 's,.*,#include <headroom/&>,' >"$work/all.cpp"
  compile=("$compiler" -std=c++17 "-I$project/include" "$work/all.cpp")
  "${compile[@]}" -fsyntax-only -Xclang -ast-list -Xclang -ast-dump-filter -Xclang headroom:: >"$work/names"
  "${compile[@]}" -dM -E >"$work/macros"
  # The parameters of alias and variable templates are in no scope of their own, and clang lists them among the names.
  parameters='T|P|To|Tree|Type|Policy|Growth|Backoff|Refill'
  {
    sed -nE 's/^headroom::(v[0-9][a-z0-9_]*::)?//p' "$work/names" | grep -vE '^(v[0-9][a-z0-9_]*|detail|shared_v1|boundary_v4)?(::.*)?$' |
      sed 's/^presets:://' | grep -oE '^[A-Za-z_0-9]+' | grep -vxE "presets|operator|$parameters" | grep -vE "$rules"
    grep -oE '^#define HEADROOM_[A-Z0-9_]+' "$work/macros" | sed 's/#define //' | grep -v '^HEADROOM_DETAIL_'
  } | sort -u >"$work/found"
  awk -F '\t' '$1 !~ /^adapters/ && ($2 == "" || $2 == "presets") { print $3 }' "$work/documented" | sort -u >"$work/listed"
  while read -r name; do fault "$name is public, and not in docs/reference.md: put it into detail, or document it"; done < <(comm -13 "$work/listed" "$work/found")
  while read -r name; do fault "$name is in docs/reference.md, and clang does not see it"; done < <(comm -23 "$work/listed" "$work/found")
else
  echo "Without clang++, names are taken from the text of the headers alone."
fi
echo "$(wc -l <"$work/documented") declarations, $faults faults"
((faults == 0))
