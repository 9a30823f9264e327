#!/usr/bin/env bash
# format.sh ROOT [--fix]: checks every file of C, C++ and CUDA with clang-format 14, or formats it. Without that version it is skipped (77),
# because others format differently.
set -euo pipefail
cd "$1"
how=(--dry-run -Werror)
if [[ ${2-} == --fix ]]; then how=(-i); fi

for tool in clang-format-14 clang-format; do
  if "$tool" --version 2>/dev/null | grep -q 'version 14\.'; then
    find include src tests examples evidence benchmarks tools -type f 2>/dev/null | grep -E '\.([ch]|[ch]pp|inl|cuh?)$' | xargs -r "$tool" "${how[@]}" ||
      { echo "to mend it: bash tests/build/format.sh . --fix" && exit 1; }
    exit
  fi
done
echo "clang-format 14 was not found. Debian 12: apt-get install clang-format"
exit 77
