#!/usr/bin/env bash
# fifth_isa.sh PROJECT: adds an instruction set to a copy of the headers, as CONTRIBUTING.md says. It has the portable kernels, and comes
# last, so it is the one that is chosen. The tests that depend on the list of instruction sets pass with it.
set -euo pipefail
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[[ -f /usr/include/catch2/catch.hpp ]] || { echo "Catch2 version 2 was not found" && exit 77; }
cp -r include "$work"
kernel=$work/include/headroom/kernel

# change FILE SED: fails if it changes nothing.
change() {
  cp "$1" "$work/before" && sed -i "$2" "$1"
  if cmp -s "$1" "$work/before"; then echo "${1#"$work/"} has no place for $2" && exit 1; fi
}
cp "$kernel/isa/portable.hpp" "$kernel/isa/fifth.hpp"
change "$kernel/isa/fifth.hpp" 's/detail::portable/detail::fifth/; s/Isa::portable/Isa::fifth/'
change "$kernel/isa.hpp" '/^enum class Isa/s/ }/, fifth }/'
change "$kernel/isa.hpp" '/ isa_names\[\] = /s/}/, "fifth"}/'
change "$kernel/isa.hpp" 's/ return isa == Isa::portable/& || isa == Isa::fifth/'
change "$kernel/table.hpp" 's,^#include <headroom/kernel/isa/neon.hpp>,&\n#include <headroom/kernel/isa/fifth.hpp>,'

g++ -std=c++17 -O0 -Wall -Wextra -Werror "-I$work/include" -Itests tests/support/main.cpp tests/kernel/isa.cpp \
  tests/ops/{find_nonfinite,run,strided}.cpp -o "$work/tests" -pthread
HEADROOM_ISA=fifth "$work/tests"
