#!/usr/bin/env bash
# check.sh [ROUTE ...]: makes packages from an empty directory, and builds and runs a program with each. The routes are cpack, meson, vcpkg,
# conan and wheel; without arguments all. Conan and the wheel need PyPI. vcpkg is a stub: see vcpkg_stub.cmake. A route without its tool is skipped
# (77).
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
consumer=$project/tests/consumer/project

if (($# != 1)); then
  (($#)) || set -- cpack meson vcpkg conan wheel
  for route; do bash "$0" "$route" || [[ $? == 77 ]]; done
  exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export CXXFLAGS=-O0 # compiles in a third of the time
version=$(sed -n 's/^#define HEADROOM_VERSION_[A-Z]* //p' "$project/include/headroom/version.hpp" | paste -sd.)
without_tests=(-DHEADROOM_BUILD_TESTS=OFF -DHEADROOM_BUILD_EXAMPLES=OFF -DHEADROOM_ADAPTERS=OFF)

skip() { echo "Skipped: $1" && exit 77; }
needs() { command -v "$1" >/dev/null || skip "$1 was not found."; }
expect() { [[ -e $1 ]] || { echo "There is no $1" && exit 1; }; }
find_package() { # PREFIX [FLAG ...]: builds and runs the consumer with the package in PREFIX
  ctest --build-and-test "$consumer" consumer --build-generator Ninja \
    --build-options -DCMAKE_PREFIX_PATH="$1" "${@:2}" --test-command ctest --no-tests=error
  rm -r consumer
}
venv() { # PACKAGE ...: a Python environment with these packages of PyPI
  python3 -m venv venv && venv/bin/pip install --quiet --disable-pip-version-check "$@" || skip "pip could not install $*."
  PATH=$work/venv/bin:$PATH
}

case $1 in
  cpack)
    needs dpkg-deb
    cmake -S "$project" -B build "${without_tests[@]}"
    ! grep '^Eigen3_DIR' build/CMakeCache.txt || { echo "HEADROOM_ADAPTERS=OFF looks for Eigen" && exit 1; }
    (cd build && cpack)
    dpkg-deb --info "build/libheadroom-dev_${version}_all.deb"
    dpkg-deb --extract "build/libheadroom-dev_${version}_all.deb" root
    for file in copyright README.md CHANGELOG.md; do expect root/usr/share/doc/headroom/$file; done
    find_package "$work/root/usr"
    mkdir archive
    tar --extract --file "build/headroom-$version-Linux.tar.gz" --directory archive --strip-components 1
    diff -r archive root/usr
    ;;
  meson) # installed, and as a subproject
    needs meson
    needs pkg-config
    meson setup build "$project" -Dcompiled=true --prefix "$work/prefix" --libdir lib
    meson test -C build
    meson install -C build
    for file in copyright README.md CHANGELOG.md; do expect prefix/share/doc/headroom/$file; done
    for name in headroom headroom-compiled; do
      read -ra flags < <(PKG_CONFIG_PATH=prefix/lib/pkgconfig pkg-config --cflags --libs "$name = $version")
      g++ -std=c++17 "$consumer/use_headroom.cpp" "${flags[@]}" -o use_headroom
      ./use_headroom
    done
    mkdir -p project/subprojects
    ln -s "$project" project/subprojects/headroom
    cp "$consumer/use_headroom.cpp" project
    cat >project/meson.build <<'END'
project('consumer', 'cpp', default_options: 'cpp_std=c++17')
test('consumer', executable('use_headroom', 'use_headroom.cpp', dependencies: dependency('headroom', fallback: 'headroom'),
  cpp_args: ['-Wold-style-cast', '-Werror'])) # of which headroom's headers take no notice
END
    meson setup subproject project
    meson test -C subproject
    DESTDIR=$work/nothing meson install -C subproject
    [[ ! -e nothing ]] || { echo "The subproject installs headroom, too" && exit 1; }
    ;;
  vcpkg)
    for feature in '' compiled; do
      cmake -DFEATURES=$feature -DCURRENT_PACKAGES_DIR="$work/packages" -DBUILD="$work/build" -P "$project/packaging/vcpkg_stub.cmake"
      expect packages/share/headroom/copyright
      expect packages/share/headroom/usage
      find_package "$work/packages" -DCOMPONENT=$feature
      rm -r build packages
    done
    ;;
  conan)
    venv conan
    export CONAN_HOME=$work/conan
    mkdir conan
    printf '%s\n' "tools.cmake.cmake_layout:test_folder=$work/test" 'tools.cmake.cmaketoolchain:user_presets=' >conan/global.conf
    conan profile detect
    for option in none compiled c; do
      options=(-s compiler.cppstd=17)
      [[ $option == none ]] || options+=(-o "headroom/*:$option=True")
      conan create "$project" "${options[@]}" --test-folder=
      conan test "$project/test_package" "headroom/$version" "${options[@]}"
    done
    ;;
  wheel)
    venv build
    python -m build --wheel --outdir dist "$project/packaging/python"
    pip install --quiet "dist/headroom_headers-$version-py3-none-any.whl"
    g++ -std=c++17 "$(python -m headroom_headers --includes)" "$consumer/use_headroom.cpp" -o use_headroom
    ./use_headroom
    find_package "$(python -m headroom_headers --prefix)"
    ;;
  *) sed -n '2,/^[^#]/s/^# //p' "$project/packaging/check.sh" && exit 2 ;;
esac
