#!/usr/bin/env bash
# versions.sh PROJECT: every file that has headroom's version in it agrees with version.hpp. The recipes that read the version from there
# have none: packaging/check.sh compares the versions of their packages.
set -euo pipefail
cd "$1"
version=$(sed -n 's/^#define HEADROOM_VERSION_[A-Z]* //p' include/headroom/version.hpp | paste -sd.)

faults=0
expect() { # FILE EXPECTED FOUND
  [[ $3 == "$2" ]] || { echo "$1 has the version '$3', version.hpp has '$2'" && faults=$((faults + 1)); }
}
expect CHANGELOG.md "$version" "$(sed -nE 's/^## ([0-9.]+).*/\1/p' CHANGELOG.md | head -n 1)"
expect packaging/vcpkg/vcpkg.json "$version" "$(sed -nE 's/.*"version": "(.*)".*/\1/p' packaging/vcpkg/vcpkg.json)"
while IFS=: read -r file found; do
  expect "$file" "${version%.*}" "${found##* }"
done < <(grep -roE 'find_package\(headroom [0-9.]+' README.md docs cmake tests/consumer | grep -v ' 99$')
while IFS=: read -r file found; do
  expect "$file" "$version" "${found##*[/_]}"
done < <(grep -oE 'headroom(/|-dev_)[0-9.]+[0-9]' docs/installing.md | sed 's,^,docs/installing.md:,')
for recipe in conanfile.py meson.build packaging/python/pyproject.toml; do
  expect "$recipe" '' "$(grep -F "$version" "$recipe" || true)"
done

echo "$faults faults"
((faults == 0))
