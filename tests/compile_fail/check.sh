#!/usr/bin/env bash
# check.sh FILE CASE FOLDER [FLAG ...]: the part of FILE after its line `// case: CASE`, with what precedes the first case,
# - compiles with -DHEADROOM_CONTROL and the first of $COMPILERS, which shows that it has no other mistake,
# - does not compile without that flag, and each compiler prints the text of each line `// expect: text`, the place of each line that ends
#   with `// error`, and one error, or as many as a line `// errors: n` says.
# FOLDER has headroom precompiled by each compiler. alone.cpp is compiled without it.
set -euo pipefail
export LC_ALL=C # plain quotes in the compilers' messages

file=$1 name=$2 folder=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
snippet=$work/$(basename "$file")
# Other cases become empty lines, so that the numbers of lines stay.
awk -v name="$name" '/^\/\/ case: / { other = $3 != name } { print other ? "" : $0 }' "$file" >"$snippet"
expected=$(sed -n 's,^// expect: ,,p' "$snippet")
[[ -n $expected ]] || { echo "$file: $name has no line '// expect: text'" && exit 1; }
expected+=$(sed -n '\,// error$,=' "$snippet" | sed "s,.*,\n${snippet##*/}:&:,")
errors=$(sed -n 's,^// errors: ,,p' "$snippet")

for compiler in ${COMPILERS:?names no compiler}; do
  compile=("$compiler" -std=c++17 "$@" -fsyntax-only "$snippet")
  [[ $file == */alone.cpp ]] || compile+=(-include "$folder/$(basename "$compiler")/headroom.hpp")
  [[ $compiler != *clang* ]] || compile+=(-ferror-limit=0)
  [[ $compiler != "${COMPILERS%% *}" ]] || "${compile[@]}" -DHEADROOM_CONTROL || { echo "does not even compile as the control: ${compile[*]} -DHEADROOM_CONTROL" && exit 1; }
  if output=$("${compile[@]}" 2>&1); then
    echo "compiles, and should not: ${compile[*]}" && exit 1
  fi
  while IFS= read -r text; do
    grep -qF -- "$text" <<<"$output" || { printf '%s\nis not in what %s says:\n%s\n' "$text" "$compiler" "$output" && exit 1; }
  done <<<"$expected"
  count=$(grep -cE '(^|[^[:alnum:]])error: ' <<<"$output")
  [[ $count == "${errors:-1}" ]] || { printf '%s errors of %s, expected %s:\n%s\n' "$count" "$compiler" "${errors:-1}" "$output" && exit 1; }
done
