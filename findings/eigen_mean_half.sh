#!/usr/bin/env bash
# Package: libeigen3-dev 3.4.0-4 (Debian 12).
# What it does: mean() of 70000 halves of 0.5 is 0. It divides their sum by their number as a half, and half(70000) is Inf. So the mean of
#   more than 65519 halves is 0 if their sum is finite.
# Found in: Array<Eigen::half>::mean(), for a layer of more than 65519 gradients.
# Guess: 0.5, or less because the sum stops growing at 1024.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download libeigen3-dev=3.4.0-4 && dpkg -x libeigen3-dev_*.deb .)
cat >"$work/mean.cpp" <<'EOF'
#include <Eigen/Core>
#include <iostream>

int main() {
    std::cout << "Eigen " << EIGEN_WORLD_VERSION << '.' << EIGEN_MAJOR_VERSION << '.' << EIGEN_MINOR_VERSION << '\n';
    bool as_described = true;
    for (int size : {64, 65504, 70000}) {
        const auto halves = Eigen::Array<Eigen::half, Eigen::Dynamic, 1>::Constant(size, Eigen::half(0.5F)).eval();
        const float mean = static_cast<float>(halves.mean());
        std::cout << size << " halves of 0.5: sum " << halves.sum() << ", mean " << mean << ", mean as float "
                  << halves.cast<float>().mean() << '\n';
        as_described = as_described && (size == 70000 ? mean == 0 : mean > 0) && (size != 64 || mean == 0.5F);
    }
    return as_described ? 0 : 1;
}
EOF
"${CXX:-g++}" -std=c++17 -O2 -I"$work/usr/include/eigen3" "$work/mean.cpp" -o "$work/mean"
"$work/mean"
