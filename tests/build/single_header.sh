#!/usr/bin/env bash
# single_header.sh PROJECT MODULE ...: runs the tests of these modules with the single header in place of all others.
set -euo pipefail
project=$1
modules=("${@:2}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v python3 >/dev/null || { echo "python3 was not found" && exit 77; }

# The same header from a checkout and from a copy without git, except for the commit in the first line.
cp -r "$project"/{CMakeLists.txt,LICENSE,cmake,evidence,examples,include,src,tests} "$work"
single=$work/include/single.hpp
python3 "$project/cmake/single_header.py" "$work/from_checkout.hpp"
python3 "$work/cmake/single_header.py" "$single"
diff <(tail -n +2 "$work/from_checkout.hpp") <(tail -n +2 "$single")
version=$(sed -n 's/^#define HEADROOM_VERSION_[A-Z]* //p' "$project/include/headroom/version.hpp" | paste -sd.)
[[ $(head -n 1 "$single") == "// headroom $version" ]]
[[ $(head -n 1 "$work/from_checkout.hpp") == "// headroom $version"* ]]
if commit=$(git --git-dir="$project/.git" rev-parse HEAD 2>/dev/null); then
  [[ $(head -n 1 "$work/from_checkout.hpp") == "// headroom $version, commit $commit"* ]]
fi

# CMake reads version.hpp. The single header has compiled.hpp only if HEADROOM_COMPILED is set, but a test includes it.
find "$work/include/headroom" -name '*.hpp' -not -path '*/adapters/*' -not -path '*/gpu*' -not -name version.hpp -not -name compiled.hpp |
  while read -r header; do echo '#include <single.hpp>' >"$header"; done
rm "$work"/include/headroom/kernel/*.inl "$work"/include/headroom/kernel/isa/*.inl
for compiler in ${COMPILERS:-g++}; do
  for threads in 0 1; do
    "$compiler" -std=c++17 -O2 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$work/include" -DHEADROOM_THREADS=$threads \
      -fsyntax-only "$work/tests/build/everything.cpp"
  done
done
cmake -S "$work" -B "$work/build" -G Ninja -DHEADROOM_BUILD_EXAMPLES=OFF -DHEADROOM_TORCH=OFF -DHEADROOM_TEST_UNITY=ON -DCMAKE_CXX_FLAGS="-O0 -Wall -Wextra -Werror"
cmake --build "$work/build" --parallel "$(nproc)" --target "${modules[@]/#/test_}"
ctest --test-dir "$work/build" --output-on-failure -R "^($(IFS='|' && echo "${modules[*]}"))(/longest)?\$"
