// What is known of a tree from its type: whether it owns its elements.
#include <headroom/tree/facts.hpp>

#include <array>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"

using headroom::span;
using headroom::detail::may_own_elements_v;
using headroom::detail::owns_elements_v;

namespace {

using Floats = std::vector<float>;
using Shared = std::shared_ptr<Floats>;

struct Values {
  Floats weight;
  float bias[3];
  std::map<int, Floats> heads;
  HEADROOM_TREE(Values, weight, bias, heads)
};
struct References {
  Floats weight;
  Floats& bias;
  HEADROOM_TREE(References, weight, bias)
};
struct Elsewhere {
  Values* values;
  HEADROOM_TREE(Elsewhere, values->weight)
};
struct Function {
  Floats weight;
  auto children() { return std::tie(weight); }
};
struct Below {
  std::vector<Below> below;
  std::optional<Values> values;
  HEADROOM_TREE(Below, below, values)
};
template <class T>
struct Member {
  T weight;
  HEADROOM_TREE(Member, weight)
};

enum class Fact { owns, does_not, unknown };

/// By itself and as a part of every kind of branch, first and last.
template <class T, Fact Expected>
constexpr bool is_known() {
  constexpr bool owns[] = {owns_elements_v<T>,
                           owns_elements_v<T&&>,
                           owns_elements_v<std::tuple<T, Floats>>,
                           owns_elements_v<std::tuple<Floats, T>>,
                           owns_elements_v<std::pair<T, Floats>>,
                           owns_elements_v<std::pair<Floats, T>>,
                           owns_elements_v<Member<T>>};
  constexpr bool may_own[] = {may_own_elements_v<T>,
                              may_own_elements_v<T&&>,
                              may_own_elements_v<std::tuple<T, Floats>>,
                              may_own_elements_v<std::tuple<Floats, T>>,
                              may_own_elements_v<std::pair<T, Floats>>,
                              may_own_elements_v<std::pair<Floats, T>>,
                              may_own_elements_v<Member<T>>};
  bool right = true;
  for (const bool known : owns) right = right && known == (Expected == Fact::owns);
  for (const bool possible : may_own) right = right && possible == (Expected != Fact::does_not);
  return right;
}
/// The same of containers, and of what is one level above them.
template <Fact Expected, class... Containers>
constexpr bool are_known() {
  constexpr bool owns = Expected == Fact::owns, may_own = Expected != Fact::does_not;
  return ((owns_elements_v<Containers> == owns && owns_elements_v<std::tuple<Floats, Containers>> == owns) && ...) &&
         ((may_own_elements_v<Containers> == may_own && may_own_elements_v<std::tuple<Floats, Containers>> == may_own) && ...);
}
template <class T, Fact Expected>
constexpr bool is_known_in_containers() {
  return is_known<T, Expected>() &&
         are_known<Expected, std::vector<T>, std::list<T>, std::array<T, 2>, std::map<int, T>, std::unique_ptr<T>,
                   std::optional<T>, std::variant<T, float>, std::variant<float, T>>();
}

static_assert(is_known_in_containers<Floats, Fact::owns>() && is_known_in_containers<Values, Fact::owns>());
static_assert(is_known_in_containers<Below, Fact::owns>() && is_known_in_containers<std::tuple<float, int>, Fact::owns>());
static_assert(is_known_in_containers<span<float>, Fact::does_not>() && is_known_in_containers<Shared, Fact::does_not>());
static_assert(is_known_in_containers<std::reference_wrapper<Floats>, Fact::does_not>());
static_assert(is_known_in_containers<References, Fact::does_not>());
static_assert(is_known_in_containers<std::tuple<Floats&, Floats>, Fact::does_not>() &&
              is_known_in_containers<std::tuple<Floats, Floats&>, Fact::does_not>());
static_assert(is_known_in_containers<std::pair<Floats&, Floats>, Fact::does_not>() &&
              is_known_in_containers<std::pair<Floats, Floats&>, Fact::does_not>());
static_assert(is_known_in_containers<Function, Fact::unknown>() && is_known_in_containers<Elsewhere, Fact::unknown>());

struct OnlyIntegers {
  std::vector<int> steps;
  std::map<int, long> counts;
  HEADROOM_TREE(OnlyIntegers, steps, counts)
};

}  // namespace

TEST_CASE("what is known of a tree from its type is checked when this compiles") { SUCCEED(); }

TEST_CASE("a tree of integers alone is one, in every kind of branch") {
  using headroom::detail::has_only_integers_v;
  static_assert(has_only_integers_v<OnlyIntegers> && has_only_integers_v<std::list<OnlyIntegers>>);
  static_assert(has_only_integers_v<std::optional<int>> && has_only_integers_v<std::tuple<int, std::vector<int>>>);
  static_assert(has_only_integers_v<std::variant<int, long>> && has_only_integers_v<std::unique_ptr<int>>);
  static_assert(!has_only_integers_v<Values> && !has_only_integers_v<std::tuple<int, float>> && !has_only_integers_v<float>);
  SUCCEED("checked by the compiler");
}

TEST_CASE("whether every leaf is of one dtype") {
  using headroom::detail::every_leaf_is_v;
  static_assert(every_leaf_is_v<float, float> && every_leaf_is_v<Values, float>);
  static_assert(every_leaf_is_v<std::tuple<float, Floats, OnlyIntegers>, float>);
  static_assert(!every_leaf_is_v<float, double> && !every_leaf_is_v<Values, double>);
  static_assert(!every_leaf_is_v<std::tuple<float, double>, float> && !every_leaf_is_v<std::pair<double, Floats>, float>);
  SUCCEED("checked by the compiler");
}
