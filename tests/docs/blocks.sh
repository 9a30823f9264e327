#!/usr/bin/env bash
# Lists the code blocks of a Markdown file. check.sh says what blocks there may be and how they are tested.
set -euo pipefail

awk -v wanted="${2:-}" '
  function fault(what) { printf "%s:%d: %s\n", FILENAME, NR, what > "/dev/stderr"; failed = 1 }
  !inside && /^ +```/ { fault("an indented code block is not tested: start it at the margin") }
  !inside && /^    / && blank { fault("a code block by indentation has no language: fence it") }
  { blank = !inside && /^$/ }
  /^```/ {
    inside = !inside
    if (!inside) next
    tag = substr($0, 4) == "" ? "text" : substr($0, 4)
    if (tag !~ /^(c|cpp|c\+\+|cmake|sh|python|text)$/) fault("a code block in no language that the tests know: " tag)
    line = NR
    if (!wanted) print line, tag, surroundings
    surroundings = ""
    next
  }
  inside { if (line == wanted) print; next }
  /^<!-- test: [a-z_0-9]+ -->$/ { surroundings = $3; next }
  !/^$/ { surroundings = "" }
  END { if (inside) fault("the last code block does not end"); exit failed }
' "$1"
