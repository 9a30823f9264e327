# Functions for the scripts of examples/ and evidence/. Source it in the root of the repository.
source cmake/install_packages.sh

# build_examples NAME…: installs what they need and builds them in Release mode, in the directory $build.
build=build/release
build_examples() {
  install_packages g++ cmake ninja-build libeigen3-dev
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=ON
  cmake --build "$build" --target "${@/#/example_}"
}

# draw PNG SCRIPT [SETTINGS]: a picture by gnuplot, which it installs if it is missing. SETTINGS come before the script.
draw() {
  command -v gnuplot >/dev/null || install_packages gnuplot-nox || true
  if command -v gnuplot >/dev/null; then
    gnuplot -e "png='$1'; ${3-}" "$2"
    echo "Picture: $1"
  else
    echo "There is no gnuplot, so no picture $1."
  fi
}
