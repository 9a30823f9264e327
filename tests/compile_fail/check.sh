#!/usr/bin/env bash
# check.sh SNIPPET [FLAG ...]: with each of $COMPILERS,
# - SNIPPET compiles with -DHEADROOM_CONTROL, so that it is right but for the one thing it does wrong,
# - it does not compile without, and the compiler prints the text of each leading line `// expect: text`.
set -euo pipefail
export LC_ALL=C # plain quotes in the compilers' messages
snippet=$1
shift

expected=$(sed -n 's,^// expect: ,,p' "$snippet")
[[ -n $expected ]] || { echo "$snippet has no line '// expect: text'" && exit 1; }

for compiler in ${COMPILERS:?names no compiler}; do
  compile=("$compiler" -std=c++17 "$@" -fsyntax-only "$snippet")
  "${compile[@]}" -DHEADROOM_CONTROL || { echo "does not even compile as the control: ${compile[*]} -DHEADROOM_CONTROL" && exit 1; }
  if output=$("${compile[@]}" 2>&1); then
    echo "compiles, and should not: ${compile[*]}" && exit 1
  fi
  while IFS= read -r text; do
    grep -qF -- "$text" <<<"$output" || { printf '%s\nis not in what %s says:\n%s\n' "$text" "$compiler" "$output" && exit 1; }
  done <<<"$expected"
done
