#!/usr/bin/env bash
# readme.sh PROJECT: each "That is [examples/….cpp](…)" of the README stands behind a block of code that is the whole file.
set -euo pipefail
cd "$1"

faults=0
for file in $(sed -nE 's,^That is \[(examples/[a-z_]+\.cpp)\].*,\1,p' README.md); do
  block=$(awk -v line="That is [$file]" '/^```cpp$/ { block = ""; inside = 1; next } /^```$/ { inside = 0; next }
    inside { block = block $0 "\n" } index($0, line) == 1 { printf "%s", block; exit }' README.md)
  if ! diff <(printf '%s\n' "$block") "$file"; then
    echo "the README's $file is another one"
    faults=$((faults + 1))
  fi
done
echo "$faults faults"
((faults == 0))
