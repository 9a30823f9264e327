#!/usr/bin/env bash
# check_release.sh PROJECT: no file states another version than include/headroom/version.hpp, and CITATION.cff has the date of
# CHANGELOG.md, if there is one.
# check_release.sh PROJECT TAG: also, TAG is that version, it has a date, and TAG names the clean checkout. See CONTRIBUTING.md.
set -euo pipefail
cd "$1"
tag=${2:-}

faults=0
fault() { printf '%s\n' "$1" && faults=$((faults + 1)); }

version=$(awk '/^#define HEADROOM_VERSION_(MAJOR|MINOR|PATCH) [0-9]+$/ { printf "%s%s", dot, $3; dot = "." }' include/headroom/version.hpp)
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fault "include/headroom/version.hpp: $version is not a version"

# Lines that state a version of headroom: `version: 0.2.0`, `"version": "0.2.0"`, `VERSION 0.2.0`, `headroom/0.2.0`,
# `libheadroom-dev_0.2.0`, `find_package(headroom 0.2`.
while IFS=: read -r file line stated; do
  [[ $version == "$stated" || $version == "$stated".* ]] || fault "$file:$line: says $stated, not $version"
done < <(grep -rnoP '(?<![a-z_-])(?<!cmake_minimum_required\()(version"? ?[:=]|VERSION|headroom/|libheadroom-dev_|find_package\(headroom) ?["'\'']?\K[0-9]+(\.[0-9]+)+' \
  CITATION.cff README.md docs/installing.md docs/c.md conanfile.py meson.build packaging --exclude='*.png')

read -r heading date < <(sed -nE '/^## /{s/^## ([^,]*), (.*)/\1 \2/p;q}' CHANGELOG.md) ||
  fault "CHANGELOG.md: the first heading is not \`## $version, DATE\`"
[[ $heading == "$version" ]] || fault "CHANGELOG.md: the first heading is for $heading, not $version"
cited=$(sed -nE "s/^date-released: '?([0-9-]+)'?$/\1/p" CITATION.cff)
if [[ $date == 'not released yet' ]]; then
  [[ -z $cited ]] || fault "CITATION.cff: has a date, but CHANGELOG.md says that $version is not released yet"
else
  [[ $date =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] || fault "CHANGELOG.md: $date is not a date"
  [[ $cited == "$date" ]] || fault "CITATION.cff: date-released is '$cited', CHANGELOG.md has $date"
fi

if [[ -n $tag ]]; then
  [[ $tag == "v$version" ]] || fault "the tag $tag is not v$version"
  [[ $date != 'not released yet' ]] || fault "CHANGELOG.md: $version has no date"
  [[ $(git rev-parse --quiet --verify "refs/tags/$tag^{commit}") == $(git rev-parse HEAD) ]] || fault "the tag $tag is not on this commit"
  [[ -z $(git status --porcelain) ]] || fault "there are changes that are not committed"
fi

echo "$faults faults"
((faults == 0))
