#include <headroom/headroom.hpp>

#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"

using namespace headroom;

namespace {

constexpr NoOpLossScale no_op;
static_assert(no_op.loss_scale() == 1.0F && no_op.inv_scale() == 1.0F);
static_assert(no_op.adjust(false) == no_op && !(no_op.adjust(GradientReport{}) != no_op));
static_assert(noexcept(no_op.adjust(true)) && noexcept(no_op.adjust(GradientReport{})));
static_assert(sizeof(NoOpLossScale) <= 32 && std::is_trivially_copyable_v<NoOpLossScale>);

using Tree = std::map<std::string, std::vector<float>>;
const Tree small_tree = {{"a", {1.5F, -2.0F}}, {"b", {0.25F}}};

template <class Leaf>
void put_infinity(Leaf& leaf) {
  support::set_bits(leaf.at(1), headroom::binary32::infinity_bits);
}

}  // namespace

TEST_CASE("scale and unscale of a tree with a name return that very object") {
  Tree tree = small_tree;
  static_assert(std::is_same_v<decltype(no_op.scale(tree)), Tree&>);
  CHECK(&no_op.scale(tree) == &tree);
  CHECK(&no_op.scale(std::as_const(tree)) == &tree);
  CHECK(&no_op.scale(tree, headroom::sequential) == &tree);
  CHECK(&no_op.scale(tree, headroom::parallel(2)) == &tree);

  auto [grads, report] = no_op.unscale(tree);
  CHECK(&grads == &tree);
  CHECK(report.finite);
  CHECK(report.max_abs == 2.0);
  auto [const_grads, const_report] = no_op.unscale(std::as_const(tree));
  static_assert(std::is_same_v<decltype(const_grads), const Tree&>);
  CHECK(&const_grads == &tree);
  CHECK(const_report.max_abs == 2.0);
  CHECK(&no_op.unscale(tree, headroom::parallel(2)).grads == &tree);
  CHECK(tree == small_tree);
}

TEST_CASE("what has no name is moved through") {
  std::vector<float> grads = {1.0F, 2.0F};
  const float* const data = grads.data();
  static_assert(std::is_same_v<decltype(no_op.scale(std::move(grads))), std::vector<float>>);
  std::vector<float> scaled = no_op.scale(std::move(grads));
  CHECK(scaled.data() == data);
  auto unscaled = no_op.unscale(std::move(scaled));
  static_assert(std::is_same_v<decltype(unscaled), Unscaled<std::vector<float>>>);
  CHECK(unscaled.grads.data() == data);
  CHECK(unscaled.grads == std::vector<float>{1.0F, 2.0F});

  auto owner = no_op.scale(std::make_unique<std::vector<float>>(3, 1.0F));
  CHECK(owner->size() == 3);
}

TEST_CASE("unscale to a dtype returns what other policies return") {
  const ConstantLossScale by_1(1.0F);
  Tree tree = small_tree;
  static_assert(
      std::is_same_v<decltype(no_op.unscale<half>(tree)), decltype(by_1.unscale<half>(tree))>);
  const std::vector<float> grads = {1.0F, -2.0F};
  for (const bool chooses_noop : {true, false}) {
    auto [unscaled, report] =
        chooses_noop ? no_op.unscale<float>(grads) : by_1.unscale<float>(grads);
    CHECK(unscaled == grads);
    CHECK(unscaled.data() != grads.data());
    CHECK(report.max_abs == 2.0);
  }
  CHECK(no_op.unscale<half>(tree).grads.at("a")[1] == half(-2.0F));
  CHECK(&no_op.unscale<headroom::same_dtype>(tree).grads == &tree);
  const std::vector<half> halves = {half(1.5F)};
  static_assert(std::is_same_v<decltype(no_op.unscale(halves)), decltype(by_1.unscale(halves))>);
  CHECK(no_op.unscale(halves).grads == std::vector<float>{1.5F});
  std::vector<half> in_place = halves;
  CHECK(no_op.unscale_in_place(in_place).max_abs == 1.5);  // nothing is lost
}

TEST_CASE("the check runs where a report is asked for") {
  Tree tree = small_tree;
  put_infinity(tree["a"]);
  const auto before = support::bits_of(tree["a"]);
  for (const GradientReport& report :
       {no_op.unscale(tree).report, no_op.unscale(tree, headroom::sequential).report,
        no_op.unscale<float>(tree).report, no_op.unscale_in_place(tree),
        no_op.unscale_in_place(tree, headroom::sequential)}) {
    CHECK_FALSE(report.finite);
    CHECK(support::bits_of(report.max_abs) == headroom::binary64::infinity_bits);
  }
  CHECK(support::bits_of(tree["a"]) == before);
  Tree nothing;
  CHECK(no_op.unscale_in_place(nothing).finite);
}
