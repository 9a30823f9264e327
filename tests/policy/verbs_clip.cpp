#include <headroom/headroom.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/samples.hpp"

using Catch::Approx;
using namespace headroom;
using support::bits_of;

namespace {

const ConstantLossScale by_eight(8.0F);

/// 3 and -4 in two leaves, times the scale.
std::vector<std::vector<float>> three_and_four() { return {{24.0F}, {}, {-32.0F}}; }

}  // namespace

TEST_CASE("non-finite gradients are unscaled, not clipped") {
  for (const auto bad : support::nonfinite_bits<headroom::binary32>()) {
    auto tree = three_and_four();
    tree[1] = support::values_with<float>({bad});
    const GradientNorm found = by_eight.unscale_and_clip_in_place(tree, 1.0);
    CHECK_FALSE(found.finite);
    CHECK(bits_of(found.max_abs) == binary64::infinity_bits);
    CHECK(bits_of(found.norm) == binary64::infinity_bits);
    CHECK(tree[0][0] == 3.0F);
    CHECK(tree[2][0] == -4.0F);
  }
}

TEST_CASE("clipped trees have the norm asked for, for every scale") {
  support::for_each_isa([](Isa) {
    std::mt19937 random(support::seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (const float scale : {1.0F, 1024.0F, 3.0F, 0x1p-5F}) {
      std::tuple<std::vector<float>, std::vector<double>> tree;
      long double squares = 0.0L, largest = 0.0L;
      const auto fill = [&](auto& leaf) {
        leaf.resize(1000);
        for (auto& element : leaf) {
          element = uniform(random) * scale;
          const long double unscaled =
              static_cast<long double>(element) / static_cast<long double>(scale);
          squares += unscaled * unscaled;
          largest = std::max(largest, std::abs(unscaled));
        }
      };
      fill(std::get<0>(tree));
      fill(std::get<1>(tree));
      const GradientNorm found = ConstantLossScale(scale).unscale_and_clip_in_place(tree, 0.5);
      CHECK(found.norm == Approx(static_cast<double>(std::sqrt(squares)))
                              .epsilon(3e-7));  // squares of floats are summed in float
      CHECK(found.max_abs == Approx(static_cast<double>(largest)).epsilon(1e-12));
      CHECK(headroom::global_norm(tree) == Approx(0.5).epsilon(1e-7));
    }
  });
}

TEST_CASE("doubles that unscaling makes Inf are an overflow, for every max_norm") {
  for (const double max_norm : {0.0, 1.0, 1e308}) {
    std::vector<double> doubles = {1e308, 1.0};
    const GradientNorm found =
        ConstantLossScale(0x1p-4F).unscale_and_clip_in_place(doubles, max_norm);
    CHECK_FALSE(found.finite);
    CHECK(bits_of(found.norm) == binary64::infinity_bits);
    CHECK(bits_of(doubles[0]) == binary64::infinity_bits);
    CHECK(doubles[1] == 16.0);
  }
}
