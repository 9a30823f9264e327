#!/usr/bin/env bash
# The tables and pictures of README.md, docs/evidence.md and its notes, and of docs/quantize.md, all from one run on one machine.
#   bash docs/figures.sh                  makes them: build/figures/NAME.txt and build/figures/*.png
#   bash docs/figures.sh --write          makes them, and puts them into the documents and into docs/
#   bash docs/figures.sh --check [NAME…]  compares the tables of the documents, all or those named, with build/figures/NAME.txt
# A table stands in a `text` block after the line <!-- figure: NAME, within 10 % or 0.2 -->. The check wants the same words. Two numbers
# are alike if they differ by at most that share of the larger one, or by at most the second bound. Numbers from 10,000 on are loss
# scales, and are alike within a factor of 4. Other numbers in the first line are settings, and must be the same. A p that is not small
# may be any number up to 1 on another CPU, so tables with p have a second bound of at least 1. Rows in which rounding decides whether a
# network diverges have no bounds: "within 25 % or 10, except ROW|ROW". A table without bounds is not compared.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
output=build/figures
documents=(README.md docs/evidence.md docs/notes/evidence.md)

# table NAME LOG FIRST [ROWS]: the lines of a log from the one that has FIRST to the next empty one; with ROWS, those that match.
table() {
  rm -f "$output/$1.txt"
  [[ -f $output/$2.log ]] || return 0
  awk -v first="$3" -v rows="${4:-.}" 'index($0, first) { on = 1 } on && /^$/ { exit } on && $0 ~ rows' "$output/$2.log" >"$output/$1.txt"
}
tables() {
  table digits digits "test accuracy final loss"
  table gradients gradient_histogram "Of the gradients that" '^Of| largest |layers\[[046]\].weight|^all'
  table policies compare_policies "skipped, bits wasted"
  table evidence_digits networks "digits recognised in the test set, %"
  table evidence_gpt networks "test loss, nats a word"
  table evidence_recurrent networks "log10 of the test error"
  table evidence_policies networks "difference, p, skipped"
  table evidence_faults networks "right answers with faults, %"
  table speed speed "256 MiB  "
}

make() {
  echo "This takes about 25 minutes on two idle cores."
  rm -rf "$output" # so that all of it is of one run
  mkdir -p "$output"
  {
    lscpu | sed -nE 's/^Model name: */CPU       /p'
    echo "cores     $(nproc)"
    echo "has       $(grep -oE '\<(f16c|fma|avx2|avx512f|asimdhp|asimd|sve)\>' /proc/cpuinfo | sort -u | paste -sd ' ')"
    echo "compiler  $(c++ --version | head -n 1)"
  } | tee "$output/machine.txt"
  bash examples/run.sh "$output"
  for name in gradient_histogram compare_policies networks fp8_linear; do
    bash evidence/run.sh "$name" "$output"
  done
  bash benchmarks/run.sh --quick | tee "$output/speed.log"
  tables
}

# insert DOCUMENT: replaces each block by the table of its name, if there is one.
insert() {
  awk -v output="$output" '
    /^<!-- figure: / { name = $3; sub(/,.*/, "", name) }
    inside && !/^```/ { next }
    { print }
    /^```/ && inside { inside = 0; next }
    /^```text$/ && name {
      while ((getline line <(output "/" name ".txt")) > 0) { print line; inside = 1 }
      name = ""
    }' "$1" >"$output/document.md"
  cp "$output/document.md" "$1"
}

# check [NAME…]: a line for each table that agrees with the run; 1 if one differs, or if a named one is not in the documents.
check() {
  tables
  awk -v output="$output" -v wanted="$*" '
    function fault(what) {
      printf "%s:%d: table %s: %s\n", FILENAME, FNR, name, what
      failed = differs = 1
    }
    function value(word) { gsub(/,/, "", word); sub(/:$/, "", word); return word }
    function is_number(word) { return word ~ /^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?$/ }
    function size(a) { return a < 0 ? -a : a }
    function alike(a, b,   larger) {
      if (a == b) return 1
      a = value(a); b = value(b)
      if (!is_number(a) || !is_number(b)) return 0
      a += 0; b += 0
      if (a >= 10000 && b >= 10000) return a <= 4 * b && b <= 4 * a
      if (lines == 1) return 0
      if (is_excepted) return 1
      larger = size(a) > size(b) ? size(a) : size(b)
      return size(a - b) <= share / 100 * larger || size(a - b) <= bound + 1e-9
    }
    BEGIN { all = split(wanted, names) == 0; for (i in names) is_wanted[names[i]] = 1 }
    FNR == 1 { inside = 0; name = "" }
    /^<!-- figure: / {
      name = $3; sub(/,$/, "", name); differs = 0
      if (/^<!-- figure: [a-z_]+, within [0-9.]+ % or [0-9.]+(, except .+)? -->$/) {
        share = $5; bound = $8 + 0; excepted = ""
        if (match($0, /except .* -->$/)) excepted = "^ *(" substr($0, RSTART + 7, RLENGTH - 11) ") "
        if (!all && !(name in is_wanted)) name = ""
      } else {
        if (!/^<!-- figure: machine -->$/) fault("not \"NAME, within A % or B\": " $0)
        name = ""
      }
      next
    }
    /^```text$/ && name {
      inside = 1; lines = 0; file = output "/" name ".txt"
      if ((getline line <file) < 0) { fault(file " is missing. Make it with bash docs/figures.sh."); inside = 0; name = "" }
      close(file)
      next
    }
    /^```$/ && inside {
      if ((getline line <file) > 0) fault("a line is missing: " line)
      close(file)
      if (!differs) printf "%s: %s agrees with %s within %s %% or %s\n", FILENAME, name, file, share, bound
      ++count; found_names[name] = 1; inside = 0; name = ""
      next
    }
    inside {
      ++lines
      if ((getline line <file) <= 0) { fault("not in " file ": " $0); next }
      is_excepted = excepted != "" && $0 ~ excepted
      n = split(line, found); same = n == NF
      for (i = 1; same && i <= n; i++) same = alike($i, found[i])
      if (!same) fault("the run has\n  " line "\nand the document\n  " $0)
    }
    END {
      for (name in is_wanted) {
        if (!(name in found_names)) { printf "table %s was not compared\n", name; failed = 1 }
      }
      printf "%d tables compared with %s\n", count, output
      exit failed || count == 0
    }' "${documents[@]}"
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
  --check) check "${@:2}" ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && exit 2 ;;
esac
