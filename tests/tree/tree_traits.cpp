// The routes by which a struct becomes a branch.
#include <headroom/tree/tree_traits.hpp>

#include <headroom/tree/walk.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/paths.hpp"

using headroom::element_count;
using support::paths_of;
using Paths = std::vector<std::string>;

namespace users {

struct WithNames {
  std::vector<float> weight;
  float bias = 0.0F;
};
template <class T>
struct Template {
  std::vector<T> weight;
  T bias{};
  HEADROOM_TREE(Template, weight, bias)
};
struct After {
  float first_member = 0.0F;
  std::vector<float> second_member;
};
HEADROOM_TREE(After, first_member, second_member)
class Private {
 public:
  explicit Private(float a) : a_(a) {}

  HEADROOM_TREE(Private, a_)

 private:
  float a_;
};
/// Views, which children() returns by value.
struct WithViews {
  float* data;
  std::size_t size;
};
/// Both routes at once: the specialisation comes first. A member `children` is none.
struct Everything {
  float traits = 1.0F, member = 2.0F, macro = 4.0F;
  auto children() { return std::tie(member); }
  HEADROOM_TREE(Everything, macro)
};
struct Sixteen {
  float a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
};
struct SixtyFour {
  Sixteen q, r, s, t;
};
// clang-format off
HEADROOM_TREE(SixtyFour,
  q.a, q.b, q.c, q.d, q.e, q.f, q.g, q.h, q.i, q.j, q.k, q.l, q.m, q.n, q.o, q.p,
  r.a, r.b, r.c, r.d, r.e, r.f, r.g, r.h, r.i, r.j, r.k, r.l, r.m, r.n, r.o, r.p,
  s.a, s.b, s.c, s.d, s.e, s.f, s.g, s.h, s.i, s.j, s.k, s.l, s.m, s.n, s.o, s.p,
  t.a, t.b, t.c, t.d, t.e, t.f, t.g, t.h, t.i, t.j, t.k, t.l, t.m, t.n, t.o, t.p)
// clang-format on

}  // namespace users

template <>
struct headroom::tree_traits<users::WithNames> {
  template <class Self>
  static auto children(Self& self) {
    return std::tie(self.weight, self.bias);
  }
  static constexpr std::array<const char*, 2> names = {"weight", "bias"};
};
template <>
struct headroom::tree_traits<users::WithViews> {
  static auto children(const users::WithViews& self) {
    return std::make_tuple(headroom::span<float>(self.data, self.size));
  }
};
template <>
struct headroom::tree_traits<users::Everything> {
  static auto children(users::Everything& self) { return std::tie(self.traits); }
};

namespace {

template <class Tree>
std::vector<float> values_of(Tree& tree) {
  std::vector<float> values;
  headroom::for_each_leaf(tree, [&](auto& leaf) {
    if constexpr (std::is_same_v<std::decay_t<decltype(leaf)>, float>) values.push_back(leaf);
  });
  return values;
}
/// The same leaves, const if the tree is.
template <class Tree>
void check_paths(Tree tree, const Paths& expected) {
  CHECK(paths_of(tree) == expected);
  headroom::for_each_leaf(tree, [](auto& leaf) {
    static_assert(!std::is_const_v<std::remove_reference_t<decltype(leaf)>>);
  });
  const Tree constant = tree;
  headroom::for_each_leaf(constant, [](auto& leaf) {
    static_assert(std::is_const_v<std::remove_reference_t<decltype(leaf)>>);
  });
}

}  // namespace

TEST_CASE("a specialisation of tree_traits with names") {
  check_paths(users::WithNames{{1.0F}, 2.0F}, {"weight", "bias"});
  check_paths(std::vector<users::WithNames>(1), {"[0].weight", "[0].bias"});
}

TEST_CASE("HEADROOM_TREE in a class template, in a struct and after it and of private members") {
  check_paths(users::Template<float>{}, {"weight", "bias"});
  check_paths(users::After{}, {"first_member", "second_member"});
  check_paths(std::tuple<users::After>{}, {"<0>.first_member", "<0>.second_member"});
  check_paths(users::Private(1.0F), {"a_"});
}

TEST_CASE("HEADROOM_TREE takes 64 members, in their order") {
  using headroom::detail::are_members;
  static_assert(are_members("a, b") && !are_members("a, b.c") && !are_members("b->c") &&
                !are_members("b()"));
  users::SixtyFour tree{};
  float count = 0.0F;
  headroom::for_each_leaf(tree, [&](float& leaf) { leaf = count++; });
  CHECK(count == 64.0F);
  CHECK((tree.q.a == 0.0F && tree.q.p == 15.0F && tree.r.i == 24.0F && tree.t.o == 62.0F &&
         tree.t.p == 63.0F));
  const Paths paths = paths_of(tree);
  CHECK(paths.front() == "q.a");
  CHECK(paths.back() == "t.p");
}

TEST_CASE("views may be children by value") {
  float values[3] = {1.0F, 2.0F, 3.0F};
  const users::WithViews tree{values, 3};
  CHECK(paths_of(tree) == Paths{"<0>"});
  CHECK(element_count(tree) == 3);
}

TEST_CASE("of several routes the traits count first") {
  users::Everything everything;
  CHECK(values_of(everything) == std::vector<float>{1.0F});
  const users::Everything constant;
  CHECK(values_of(constant) == std::vector<float>{1.0F});
}
