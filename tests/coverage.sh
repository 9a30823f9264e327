#!/usr/bin/env bash
# coverage.sh [DIRECTORY]: runs the tests of behaviour with clang's source-based coverage, in five minutes on two cores. Prints the
# lines and the sides of branches of include/ that no test reaches, and the totals. libtorch and MPI are needed for their adapters.
#
# A line or a side of a branch is reached if any instantiation reaches it, in any program. Branches on constants and templates that
# are never instantiated do not count. A constexpr function that never runs is evaluated by the compiler. Its lines do not count, and
# are totalled apart.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build/coverage}
source cmake/install_packages.sh
install_packages clang llvm

# Without precompiled headers, because CMake makes them system headers, which have no coverage. The counters are in mapped files,
# because processes that tests fork end without writing a profile.
flags='-O0 -fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation'
cmake --preset clang -B "$build" -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_DISABLE_FIND_PACKAGE_Torch=OFF \
  -DCMAKE_CXX_FLAGS="$flags" -DHEADROOM_EXHAUSTIVE_TEST_FLAGS=-O1
cmake --build "$build" --parallel "${JOBS:-$(getconf _NPROCESSORS_ONLN)}"
rm -f "$build"/*.profraw
(cd "$build" && LLVM_PROFILE_FILE="$PWD/%c%m.profraw" ctest --output-on-failure)
llvm-profdata merge "$build"/*.profraw -o "$build/profile"
mapfile -t programs < <(find "$build" -type f -perm -u+x \( -name 'test_*' -o -name 'fuzz_*' -o -name '*.so.*' \))
llvm-cov show "${programs[0]}" "${programs[@]/#/-object=}" -instr-profile="$build/profile" \
  -show-branches=count -show-instantiations -use-color=0 include >"$build/lines"

awk '
  /^\// { file = $0; sub(/:$/, "", file); sub(/.*\/include\/headroom\//, "", file); last[file] = 0 }
  /Branch \([0-9:]+\): \[True: / {
    match($0, /\([0-9:]+\)/)
    side = file ":" substr($0, RSTART + 1, RLENGTH - 2)
    sides[side " is never true"] += $0 !~ /True: 0,/
    sides[side " is never false"] += $0 !~ /False: 0\]/
  }
  match($0, /^ *(\| +)?[0-9]+\| +[0-9.]+[kMGTE]?\|/) { # possibly in the listing of an instantiation: line| count|text
    counts = substr($0, 1, RLENGTH)
    sub(/^ *\| +/, "", counts)
    split(counts, count, "|")
    line = count[1] + 0
    if (line > last[file]) last[file] = line
    text[file, line] = substr($0, RLENGTH + 1)
    reached[file, line] += count[2] !~ /^ *0$/
  }
  END {
    for (file in last) {
      indent = ""
      for (line = 1; line <= last[file]; ++line) {
        if (!((file, line) in reached)) continue
        code = text[file, line]
        if (reached[file, line]) indent = ""
        else if (indent == "" && code ~ /^ *(template.*> )?(\[\[nodiscard\]\] )?(friend |static )?constexpr .*\(.*\{/) {
          match(code, /^ */)
          indent = "." substr(code, 1, RLENGTH) "}"
        }
        if (indent != "" && ++constant) {
          if (code ~ /\}( *\/\/.*)?$/ && index("." code, indent) == 1 || code ~ /\{.*\}/ && code ~ /constexpr/) indent = ""
        } else if (++lines && reached[file, line]) ++lines_reached
        else print file ":" line ":" code
      }
    }
    for (side in sides) if (++all_sides && sides[side]) ++sides_reached; else print side
    printf "%.1f %% of %d lines, %.1f %% of %d sides of branches; %d lines that only the compiler runs\n",
      100 * lines_reached / lines, lines, 100 * sides_reached / all_sides, all_sides, constant
  }' "$build/lines" | sort -V
