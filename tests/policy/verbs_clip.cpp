#include <headroom/headroom.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/isa.hpp"
#include "support/network.hpp"
#include "support/samples.hpp"

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using headroom::binary64;
using headroom::ConstantLossScale;
using headroom::GradientNorm;
using headroom::half;
using support::bits_of;

namespace {

const ConstantLossScale policy(8.0F);

/// 3 and 4 in two leaves, scaled.
std::vector<std::vector<float>> three_and_four() { return {{24.0F}, {}, {-32.0F}}; }

}  // namespace

TEST_CASE("unscale_and_clip returns the norm before it clips") {
  auto tree = three_and_four();
  const GradientNorm found = policy.unscale_and_clip_in_place(tree, 1.0);
  CHECK(found.finite);
  CHECK(found.norm == 5.0);
  CHECK(found.max_abs == 4.0);
  CHECK(tree[0][0] == Approx(0.6).epsilon(1e-7));
  CHECK(tree[2][0] == Approx(-0.8).epsilon(1e-7));
}

TEST_CASE("a norm that is small enough is left as it is") {
  for (const double max_norm : {5.0, 5.1, 1e300}) {
    auto tree = three_and_four();
    CHECK(policy.unscale_and_clip_in_place(tree, max_norm).norm == 5.0);
    CHECK(tree[0][0] == 3.0F);
    CHECK(tree[2][0] == -4.0F);
  }
}

TEST_CASE("an infinite max_norm clips nothing") {
  double infinity = 0.0;
  support::set_bits(infinity, binary64::infinity_bits);
  auto tree = three_and_four();
  CHECK(policy.unscale_and_clip_in_place(tree, infinity).norm == 5.0);
  CHECK(tree[2][0] == -4.0F);
  // Without clipping, unscaled gradients are correctly rounded quotients here, too.
  std::vector<float> third = {1.0F};
  CHECK(ConstantLossScale(3.0F).unscale_and_clip_in_place(third, infinity).finite);
  CHECK(third[0] == 1.0F / 3.0F);
}

TEST_CASE("gradients that are not clipped are correctly rounded quotients") {
  std::mt19937 random(support::seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> tree(1000), expected;
  for (float& element : tree) {
    element = uniform(random);
    const volatile float scale = 3.0F;  // -ffast-math would multiply
    expected.push_back(element / scale);
  }
  CHECK(ConstantLossScale(3.0F).unscale_and_clip_in_place(tree, 1e30).finite);
  CHECK(bits_of(tree) == bits_of(expected));
}

TEST_CASE("a norm of exactly max_norm is not clipped") {
  // 41 times the reciprocal of 41, rounded to float, is the float below 1.
  std::vector<float> grads = {41.0F};
  CHECK(ConstantLossScale(41.0F).unscale_and_clip_in_place(grads, 1.0).norm == 1.0);
  CHECK(grads[0] == 1.0F);
}

TEST_CASE("a max_norm of 0 leaves only zeros") {
  auto tree = three_and_four();
  CHECK(policy.unscale_and_clip_in_place(tree, 0.0).norm == 5.0);
  CHECK(tree[0][0] == 0.0F);
  CHECK(tree[2][0] == 0.0F);
}

TEST_CASE("a max_norm that is no norm is refused before anything is written") {
  const std::uint64_t refused[] = {0xBFF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
                                   0xFFF8000000000001, 0x7FF0000000000001, 0x8010000000000000};
  for (const std::uint64_t bits : refused) {
    double max_norm = 0.0;
    support::set_bits(max_norm, bits);
    auto tree = three_and_four();
    const std::string message = support::message_of([&] { (void)policy.unscale_and_clip_in_place(tree, max_norm); });
    CHECK_THAT(message, ContainsSubstring("max_norm is "));
    CHECK(tree == three_and_four());
  }
  double minus_one = -1.0, nan = 0.0, minus_zero = 0.0;
  support::set_bits(nan, 0x7FF8000000000000);
  support::set_bits(minus_zero, 0x8000000000000000);
  auto tree = three_and_four();
  CHECK_THAT(support::message_of([&] { (void)policy.unscale_and_clip_in_place(tree, minus_one); }),
             ContainsSubstring("max_norm is -1;"));
  CHECK_THAT(support::message_of([&] { (void)policy.unscale_and_clip_in_place(tree, nan); }),
             ContainsSubstring("max_norm is nan;"));
  CHECK(support::message_of([&] { (void)policy.unscale_and_clip_in_place(tree, minus_zero); }) == "");
}

TEST_CASE("non-finite gradients are unscaled, not clipped") {
  for (const auto bad : support::nonfinite_bits<headroom::binary32>()) {
    auto tree = three_and_four();
    tree[1] = support::values_with<float>({bad});
    const GradientNorm found = policy.unscale_and_clip_in_place(tree, 1.0);
    CHECK_FALSE(found.finite);
    CHECK(bits_of(found.max_abs) == binary64::infinity_bits);
    CHECK(bits_of(found.norm) == binary64::infinity_bits);
    CHECK(tree[0][0] == 3.0F);
    CHECK(tree[2][0] == -4.0F);
  }
}

TEST_CASE("an overflow that unscaling makes is found") {
  std::vector<half> tree = {half(60000.0F)};
  const GradientNorm found = ConstantLossScale(0.25F).unscale_and_clip_in_place(tree, std::numeric_limits<double>::max());
  CHECK_FALSE(found.finite);
  CHECK(bits_of(found.norm) == binary64::infinity_bits);
}

TEST_CASE("clipped trees have the norm asked for, in every dtype and whatever the scale") {
  support::for_each_isa([](headroom::Isa) {
    std::mt19937 random(support::seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (const float scale : {1.0F, 1024.0F, 3.0F, 0x1p-5F}) {
      std::tuple<std::vector<float>, std::vector<double>> tree;
      long double squares = 0.0L, largest = 0.0L;
      const auto fill = [&](auto& leaf) {
        leaf.resize(1000);
        for (auto& element : leaf) {
          element = uniform(random) * scale;
          const long double unscaled = static_cast<long double>(element) / static_cast<long double>(scale);
          squares += unscaled * unscaled;
          largest = std::max(largest, std::abs(unscaled));
        }
      };
      fill(std::get<0>(tree));
      fill(std::get<1>(tree));
      const GradientNorm found = ConstantLossScale(scale).unscale_and_clip_in_place(tree, 0.5);
      CHECK(found.norm == Approx(static_cast<double>(std::sqrt(squares))).epsilon(3e-7));  // of the floats; see measure
      CHECK(found.max_abs == Approx(static_cast<double>(largest)).epsilon(1e-12));
      CHECK(headroom::global_norm(tree) == Approx(0.5).epsilon(1e-7));
    }
  });
}

TEST_CASE("gradients whose norm is beyond double are unscaled, not clipped, and count as not finite") {
  for (const float scale : {1.0F, 1024.0F}) {
    for (const double max_norm : {1.0, 1e-300}) {
      std::vector<double> grads(16, 1.5e308);
      const GradientNorm found = ConstantLossScale(scale).unscale_and_clip_in_place(grads, max_norm);
      INFO("scale " << scale << ", max_norm " << max_norm);
      CHECK_FALSE(found.finite);
      CHECK(bits_of(found.norm) == binary64::infinity_bits);
      CHECK(grads == std::vector<double>(16, 1.5e308 / static_cast<double>(scale)));
    }
  }
}

TEST_CASE("doubles that unscaling makes infinite are an overflow, whatever they would be clipped to") {
  for (const double max_norm : {0.0, 1.0, 1e308}) {
    std::vector<double> grads = {1e308, 1.0};
    const GradientNorm found = ConstantLossScale(0x1p-4F).unscale_and_clip_in_place(grads, max_norm);
    CHECK_FALSE(found.finite);
    CHECK(bits_of(found.norm) == binary64::infinity_bits);
    CHECK(bits_of(grads[0]) == binary64::infinity_bits);
    CHECK(grads[1] == 16.0);
  }
}

TEST_CASE("unscale_and_clip gives the same on any number of threads") {
  std::vector<float> one_by_one(300001);
  std::mt19937 random(support::seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  for (float& element : one_by_one) element = uniform(random);
  auto shared_out = one_by_one;
  const GradientNorm expected = policy.unscale_and_clip_in_place(one_by_one, 0.5);
  const GradientNorm found = policy.unscale_and_clip_in_place(headroom::parallel(3), shared_out, 0.5);
  CHECK(found.norm == expected.norm);
  CHECK(found.max_abs == expected.max_abs);
  CHECK(bits_of(shared_out) == bits_of(one_by_one));
}

TEST_CASE("clipping an empty tree") {
  const GradientNorm found = policy.unscale_and_clip_in_place(std::vector<float>{}, 0.0);
  CHECK(found.finite);
  CHECK(found.norm == 0.0);
  CHECK(found.max_abs == 0.0);
}
