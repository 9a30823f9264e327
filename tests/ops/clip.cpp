#include <headroom/ops/clip.hpp>
#include <headroom/ops/measure.hpp>

#include <cstdint>
#include <tuple>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/flush.hpp"
#include "support/isa.hpp"

using Catch::Approx;
using namespace headroom;
using support::bits_of;

namespace {

using Tree = std::vector<std::vector<float>>;
const Tree three_and_four = {{3.0F}, {}, {0.0F, -4.0F}};

}  // namespace

TEST_CASE("a norm above max_norm is brought down to it") {
  support::for_each_isa([](Isa) {
    auto tree = three_and_four;
    const GradientNorm before = clip_by_global_norm(tree, 2.5);
    CHECK(before.finite);
    CHECK(before.norm == 5.0);
    CHECK(before.max_abs == 4.0);
    CHECK(tree == Tree{{1.5F}, {}, {0.0F, -2.0F}});
    CHECK(clip_by_global_norm(tree, 1.0, parallel(2)).norm == 2.5);
    CHECK(global_norm(tree) == Approx(1.0).epsilon(1e-7));
  });
}

TEST_CASE("a norm of at most max_norm is left alone") {
  for (const double& max_norm : {5.0, 5.5, 1e308, detail::infinity}) {
    auto tree = three_and_four;
    CHECK(clip_by_global_norm(tree, max_norm).norm == 5.0);
    CHECK(tree == three_and_four);
  }
}

TEST_CASE("a factor far below all floats clips every dtype exactly, on every instruction set") {
  support::for_each_isa([](Isa) {
    auto tree =
        std::make_tuple(std::vector<double>{0x1p250}, std::vector<bfloat16>(65, bfloat16(0x1p127F)),
                        std::vector<float>(33, -0x1p127F));
    CHECK(clip_by_global_norm(tree, 1.0).norm == 0x1p250);
    CHECK(std::get<0>(tree) == std::vector<double>{1.0});
    CHECK(std::get<1>(tree) == std::vector<bfloat16>(65, bfloat16(0x1p-123F)));
    CHECK(std::get<2>(tree) == std::vector<float>(33, -0x1p-123F));
  });
}

TEST_CASE("a norm beyond double cannot be clipped, and counts as an overflow") {
  for (const double max_norm : {1.0, 1e-300, 1e308}) {
    std::vector<double> grads(16, 1.7e308);
    const GradientNorm before = clip_by_global_norm(grads, max_norm);
    CHECK_FALSE(before.finite);
    CHECK(bits_of(before.max_abs) == binary64::infinity_bits);
    CHECK(bits_of(before.norm) == binary64::infinity_bits);
    CHECK(grads == std::vector<double>(16, 1.7e308));
  }
}

TEST_CASE("what overflows only when it is stored is an overflow") {
  std::vector<float> grads{1.0F, 0x1.8p127F};
  CHECK_FALSE(unscale_and_clip_in_place(grads, 0.5F, 1e300).finite);
  CHECK(grads[0] == 2.0F);
  grads[1] = 0x1.8p126F;
  CHECK(unscale_and_clip_in_place(grads, 0.5F, 1e300).max_abs == 0x1.8p127);
}

TEST_CASE("non-finite trees are left alone") {
  for (const auto bad : support::nonfinite_bits<binary32>()) {
    auto tree = three_and_four;
    tree[1] = support::values_with<float>({bad});
    const GradientNorm found = clip_by_global_norm(tree, 1.0);
    CHECK_FALSE(found.finite);
    CHECK(bits_of(found.norm) == binary64::infinity_bits);
    CHECK(tree[0][0] == 3.0F);
    CHECK(bits_of(tree[1]) == std::vector<std::uint32_t>{bad});
    CHECK(tree[2][1] == -4.0F);
  }
}

TEST_CASE("a max_norm of 0 makes zeros; an empty tree has nothing to clip") {
  auto tree = three_and_four;
  CHECK(clip_by_global_norm(tree, 0.0).norm == 5.0);
  CHECK(tree == Tree{{0.0F}, {}, {0.0F, 0.0F}});
  CHECK(clip_by_global_norm(tree, 0.0).norm == 0.0);
  auto same = three_and_four;
  CHECK(clip_by_global_norm(same, -0.0).norm == 5.0);
  for (std::size_t i = 0; i < tree.size(); ++i) CHECK(bits_of(same[i]) == bits_of(tree[i]));
  Tree empty;
  CHECK(clip_by_global_norm(empty, 1.0).finite);
}

TEST_CASE("a max_norm that is no norm is refused before anything is read or written") {
  for (const double& max_norm : support::values_with<double>(
           {0xBFF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000000})) {
    auto tree = three_and_four;
    CHECK_INVALID("max_norm is ", clip_by_global_norm(tree, max_norm));
    CHECK_INVALID("it must be 0 or more", clip_by_global_norm(tree, max_norm, sequential));
    CHECK(tree == three_and_four);
  }
}
