#!/usr/bin/env bash
# The tables and pictures of README.md, docs/evidence.md and its notes, all from one run on one machine.
#   bash docs/figures.sh                  makes them: build/figures/NAME.txt and build/figures/*.png
#   bash docs/figures.sh --write          makes them, and puts them into the documents and into docs/
#   bash docs/figures.sh --check [NAME…]  compares the tables of the documents with those that are in build/figures
# A table stands in a `text` block after the line <!-- figure: NAME, within N -->. The check wants the same words, numbers that differ
# by at most N, and numbers from 1,000 on, which are loss scales, within a factor of 4. Without "within N" it compares nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
output=build/figures
documents=(README.md docs/evidence.md docs/notes/evidence.md)

# table NAME LOG FIRST [ROWS]: the lines of a log from the one that has FIRST to the next empty one; with ROWS, those that match.
table() {
  [[ -f $output/$2.log ]] || return 0
  awk -v first="$3" -v rows="${4:-.}" 'index($0, first) { on = 1 } on && /^$/ { exit } on && $0 ~ rows' "$output/$2.log" >"$output/$1.txt"
}
tables() {
  table digits digits "test accuracy final loss"
  table gradients gradient_histogram "Of the gradients that" '^Of| largest |layers\[[046]\].weight|^all'
  table policies compare_policies "skipped, bits wasted"
  table evidence_digits evidence "digits recognised in the test set, %"
  table evidence_transformer evidence "test loss, nats a word"
  table evidence_recurrent evidence "log10 of the test error"
  table evidence_policies evidence "difference, p, skipped"
  table evidence_faults evidence "right answers with faults, %"
  table evidence_mistakes evidence "faults: difference"
}

make() {
  echo "This takes about 30 minutes on two idle cores."
  mkdir -p "$output"
  {
    lscpu | sed -nE 's/^Model name: */CPU       /p'
    echo "cores     $(nproc)"
    echo "runs      $(grep -oE '\<(f16c|fma|avx2|avx512f|asimdhp|asimd|sve)\>' /proc/cpuinfo | sort -u | paste -sd ' ')"
    echo "compiler  $(c++ --version | head -n 1)"
  } | tee "$output/machine.txt"
  for script in run gradient_histogram compare_policies evidence; do
    bash "examples/$script.sh" "$output"
  done
  tables
}

# insert DOCUMENT: with each table in place of the block that has its name.
insert() {
  awk -v output="$output" '
    /^<!-- figure: / { name = $3; sub(/,.*/, "", name) }
    inside && !/^```/ { next }
    { print }
    /^```/ && inside { inside = 0; next }
    /^```text$/ && name {
      while ((getline line <(output "/" name ".txt")) > 0) print line
      inside = 1; name = ""
    }' "$1" >"$output/document.md"
  cp "$output/document.md" "$1"
}

# compare DOCUMENT [NAME…]: 1 if a table differs.
compare() {
  awk -v output="$output" -v wanted="${*:2}" '
    function fault(what) { printf "%s:%d: table %s: %s\n", FILENAME, NR, name, what; failed = 1 }
    function number(word) { gsub(/,/, "", word); return word ~ /^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?$/ }
    function alike(a, b) {
      if (!number(a) || !number(b)) return a == b
      a += 0; b += 0
      if (a >= 1000 && b >= 1000) return a <= 4 * b && b <= 4 * a
      return a - b <= within && b - a <= within
    }
    /^<!-- figure: .*, within [0-9.]+ -->$/ {
      name = $3; sub(/,$/, "", name); within = $5
      if (wanted != "" && index(" " wanted " ", " " name " ") == 0) name = ""
      next
    }
    /^```text$/ && name { inside = 1; file = output "/" name ".txt"; next }
    /^```$/ && inside {
      if ((getline line <file) > 0) fault("a line is missing: " line)
      close(file); inside = 0; name = ""; next
    }
    !inside { next }
    {
      if ((getline line <file) <= 0) { fault("not in " file ": " $0); next }
      n = split(line, found); same = n == NF
      for (i = 1; same && i <= n; i++) same = alike($i, found[i])
      if (!same) fault("the run has\n  " line "\nand the document\n  " $0)
    }
    END { exit failed }' "$1"
}

case ${1:-} in
  "") make ;;
  --write)
    make
    for document in "${documents[@]}"; do insert "$document"; done
    for picture in docs/*.png; do
      if [[ -f $output/${picture##*/} ]]; then cp "$output/${picture##*/}" docs; fi
    done
    ;;
  --check)
    tables
    failed=0
    for document in "${documents[@]}"; do compare "$document" "${@:2}" || failed=1; done
    ((failed == 0)) && echo "The tables of ${documents[*]} are those of $output."
    ;;
  *) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 2 ;;
esac
