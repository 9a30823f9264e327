#!/usr/bin/env bash
# The code blocks of a Markdown file. Which blocks there may be, and what is done with them, is written down in check.sh.
#   bash blocks.sh FILE.md         prints "LINE TAG SURROUNDINGS" for each, LINE being that of its opening fence
#   bash blocks.sh FILE.md LINE    prints the one that opens there
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
    if (tag !~ /^(cpp|c\+\+|cmake|sh|python|text)$/) fault("a code block in no language that the tests know: " tag)
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
