#!/usr/bin/env bash
# links.sh PROJECT: the targets of README.md, CONTRIBUTING.md, SECURITY.md and docs/ exist: linked files, headings after a #, and paths in
# backquotes. Every test that docs/notes/numerics.md gives for a trap names the trap, and no test names another one.
set -euo pipefail
cd "$1"
shopt -s nullglob

faults=0
fault() { printf '%s\n' "$1" && faults=$((faults + 1)); }

# The anchors of headings: lower case, no punctuation, a hyphen for each space.
anchors() { sed -nE '/^#+ /{s/^#+ +//; s/\[([^]]*)\]\([^)]*\)/\1/g; p}' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'; }

for document in README.md CONTRIBUTING.md SECURITY.md docs/*.md docs/notes/*.md; do
  prose=$(awk '/^```/ { inside = !inside; next } !inside' "$document")

  while read -r link; do
    [[ $link != *://* ]] || continue
    target=${link%%#*}
    file=$(dirname "$document")/$target
    [[ -n $target ]] || file=$document
    if [[ ! -e $file ]]; then
      fault "$document: there is no $link"
    elif [[ $link == *'#'* ]] && ! anchors "$file" | grep -qxF -e "${link#*#}"; then
      fault "$document: $file has no heading for #${link#*#}"
    fi
  done < <(grep -oE '\]\([^) ]+\)' <<<"$prose" | sed -E 's/^\]\(|\)$//g')

  while read -r path; do
    [[ $path != *'<'* && $path != */NAME.* ]] || continue # a placeholder
    found=($path)
    [[ ${#found[@]} -gt 0 && -e ${found[0]} ]] || fault "$document: there is no $path"
  done < <({
    grep -oE '`(\.ci|include|tests|examples|docs|benchmarks|cmake)/[^` ]*`' <<<"$prose" || true
    grep -oE '`(dtype|kernel|tree|ops|policy|state|training|observe|quantize|adapters|detail)/[^` ]*`' <<<"$prose" | sed 's,`,&include/headroom/,'
  } | tr -d '`')
done

declare -A listed
while IFS='|' read -r _ trap _ _ held _; do
  trap=${trap// /}
  listed[$trap]=1
  while read -r path; do
    grep -rqE "\\b$trap([^0-9]|\$)" "$path" || fault "docs/notes/numerics.md: $path does not name $trap"
  done < <(grep -oE '`tests/[^`]*`' <<<"$held" | tr -d '`')
done < <(grep -E '^\| T[0-9]+ \|' docs/notes/numerics.md)
for trap in $(grep -rohE '\bT[0-9]+[:_]' tests | tr -d ':_' | sort -u); do
  [[ -n ${listed[$trap]:-} ]] || fault "docs/notes/numerics.md: does not list $trap, which tests name"
done

echo "$faults faults"
((faults == 0))
