// HEADROOM_TREE: how many members it takes, which, and what it says of them.
#include <headroom/tree/fields.hpp>

#include <headroom/tree/visit.hpp>

#include <array>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/paths.hpp"

using headroom::detail::Fields;
using headroom::detail::types;

namespace {

struct Inside {
  float one = 1.0F;
  const std::vector<float>& two;
  HEADROOM_TREE(Inside, one, two)
};
struct Outside {
  float one = 1.0F;
};
HEADROOM_TREE(Outside, one)
struct Expressions {
  std::array<float, 2> layers{};
  HEADROOM_TREE(Expressions, layers[0], layers[1])
};

// What the members were declared with is known of members, and of nothing that is reached through them.
using InsideFields = Fields<Inside, types<float, const std::vector<float>&>, std::tuple<float&, const std::vector<float>&>>;
static_assert(std::is_same_v<decltype(std::declval<Inside&>().headroom_tree(std::declval<Inside&>())), InsideFields>);
static_assert(
    std::is_same_v<decltype(headroom_tree(std::declval<Outside&>())), Fields<Outside, types<float>, std::tuple<float&>>>);
static_assert(std::is_same_v<decltype(std::declval<Expressions&>().headroom_tree(std::declval<Expressions&>())),
                             Fields<Expressions, void, std::tuple<float&, float&>>>);

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

}  // namespace

TEST_CASE("HEADROOM_TREE takes 64 members, in their order") {
  SixtyFour tree{};
  float count = 0.0F;
  headroom::for_each_leaf(tree, [&](float& leaf) { leaf = count++; });
  CHECK(count == 64.0F);
  CHECK(tree.q.a == 0.0F);
  CHECK(tree.q.p == 15.0F);
  CHECK(tree.r.i == 24.0F);
  CHECK(tree.t.o == 62.0F);
  CHECK(tree.t.p == 63.0F);
  const std::vector<std::string> paths = support::paths_of(tree);
  CHECK(paths.front() == "q.a");
  CHECK(paths.back() == "t.p");
}

TEST_CASE("HEADROOM_TREE inside and after the struct") {
  const std::vector<float> two;
  CHECK(support::paths_of(Inside{1.0F, two}) == std::vector<std::string>{"one", "two"});
  CHECK(support::paths_of(Outside{}) == std::vector<std::string>{"one"});
  CHECK(support::paths_of(Expressions{}) == std::vector<std::string>{"layers[0]", "layers[1]"});
}

TEST_CASE("names of members are told from expressions") {
  using headroom::detail::are_plain_names;
  static_assert(are_plain_names("a, z, A, Z, _, $, a0, a9, \xc3\xa9"));
  static_assert(!are_plain_names("a[0]") && !are_plain_names("a.b") && !are_plain_names("a->b") && !are_plain_names("(a)"));
  static_assert(!are_plain_names("@") && !are_plain_names("`") && !are_plain_names("{") && !are_plain_names("a::b"));
  SUCCEED("checked by the compiler");
}
