#!/usr/bin/env bash
# api.sh PROJECT: every public entity of the headers has a comment, by the rules of docs/api_filter.pl. Skipped without doxygen.
set -euo pipefail
cd "$1"
command -v doxygen >/dev/null || { echo "Skipped: there is no doxygen." && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '@INCLUDE = docs/Doxyfile\nOUTPUT_DIRECTORY = %s\n' "$work" | doxygen -
found=$(find "$work" -name '*.html' | wc -l)
echo "$found pages, and no comment is missing"
((found > 100)) # else doxygen has not read the headers
