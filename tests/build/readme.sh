#!/usr/bin/env bash
# readme.sh PROJECT: each "That is … [examples/….cpp](…)" of the README stands behind a block of code that is in that file, line by line,
# whatever the indentation.
set -euo pipefail
cd "$1"

faults=0
for file in $(sed -nE 's,^That is [a-z ]*\[(examples/[a-z_]+\.cpp)\].*,\1,p' README.md); do
  awk -v file="$file" '
    function bare(line) { sub(/^ +/, "", line); return line }
    FILENAME == file { source[++lines] = bare($0); next }
    /^```cpp$/ { n = 0; inside = 1; next }
    /^```$/ { inside = 0; next }
    inside { block[++n] = bare($0); next }
    /^That is / && index($0, "[" file "]") {
      for (start = 0; start + n <= lines; ++start) {
        for (i = 1; i <= n && source[start + i] == block[i]; ++i);
        if (i > n && n > 0) { found = 1; exit }
      }
      exit
    }
    END { exit !found }' "$file" README.md || { echo "the block of the README is not in $file" && faults=$((faults + 1)); }
done
echo "$faults faults"
((faults == 0))
