// What the type of a tree tells: whether it owns its elements.
#include <headroom/tree/facts.hpp>

#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/half.hpp>

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
#include "support/strided.hpp"

using namespace headroom;
using namespace headroom::detail;

namespace {

using Floats = std::vector<float>;
using Shared = std::shared_ptr<Floats>;

struct Values {
  Floats weight;
  float bias[3];
  std::map<int, Floats> heads;
  HEADROOM_TREE(Values, weight, bias, heads)
};
struct ReferencesInTree {
  Floats weight;
  Floats& bias;
  HEADROOM_TREE(ReferencesInTree, weight, bias)
};
struct Elsewhere {
  Values& values;
  HEADROOM_TREE(Elsewhere, values.weight)
};
struct Function {
  Floats weight;
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

}  // namespace

template <>
struct headroom::tree_traits<Function> {
  static auto children(Function& self) { return std::tie(self.weight); }
};

namespace {

template <Fact Expected, class... Ts>
constexpr bool are_known() {
  return ((owns_elements_v<Ts> == (Expected == Fact::owns) &&
           shares_elements_v<Ts> == (Expected == Fact::does_not)) &&
          ...);
}
/// The type itself, as a part of every kind of branch, and one level below.
template <class T, Fact Expected>
constexpr bool is_known() {
  return are_known<Expected, T, T&&, std::tuple<T, Floats>, std::pair<Floats, T>, Member<T>,
                   std::vector<T>, std::list<T>, std::array<T, 2>, std::map<int, T>,
                   std::unique_ptr<T>, std::optional<T>, std::variant<T, float>,
                   std::variant<float, T>, std::tuple<Floats, std::vector<std::pair<int, T>>>>();
}

static_assert(is_known<Floats, Fact::owns>() && is_known<Values, Fact::owns>());
static_assert(is_known<Below, Fact::owns>() && is_known<std::tuple<float, int>, Fact::owns>());
static_assert(is_known<span<float>, Fact::does_not>() && is_known<Shared, Fact::does_not>());
static_assert(is_known<std::reference_wrapper<Floats>, Fact::does_not>());
static_assert(is_known<std::tuple<Floats&, Floats>, Fact::does_not>() &&
              is_known<std::tuple<Floats, Floats&>, Fact::does_not>());
static_assert(is_known<std::pair<Floats&, Floats>, Fact::does_not>() &&
              is_known<std::pair<Floats, Floats&>, Fact::does_not>());
static_assert(is_known<Function, Fact::unknown>() &&
              is_known<support::Bare<float>, Fact::unknown>() &&
              is_known<Elsewhere, Fact::unknown>() && is_known<ReferencesInTree, Fact::unknown>());

struct OnlyIntegers {
  std::vector<int> steps;
  std::map<int, long> counts;
  HEADROOM_TREE(OnlyIntegers, steps, counts)
};

static_assert(has_only_integers_v<OnlyIntegers> && has_only_integers_v<std::list<OnlyIntegers>>);
static_assert(has_only_integers_v<std::optional<int>> &&
              has_only_integers_v<std::tuple<int, std::vector<int>>>);
static_assert(has_only_integers_v<std::variant<int, long>> &&
              has_only_integers_v<std::unique_ptr<int>>);
static_assert(!has_only_integers_v<Values> && !has_only_integers_v<std::tuple<int, float>> &&
              !has_only_integers_v<float>);

static_assert(has_narrow_leaf_v<half> && has_narrow_leaf_v<std::tuple<Floats, std::vector<half>>>);
static_assert(has_narrow_leaf_v<float8_e5m2> && has_narrow_leaf_v<span<const cbfloat16>>);
static_assert(!has_narrow_leaf_v<Values> && !has_narrow_leaf_v<std::vector<bfloat16>> &&
              !has_narrow_leaf_v<int>);

static_assert(every_leaf_is_v<Values, float> &&
              every_leaf_is_v<std::tuple<float, Floats, OnlyIntegers>, float>);
static_assert(!every_leaf_is_v<Values, double> &&
              !every_leaf_is_v<std::tuple<float, double>, float>);
static_assert(every_leaf_is_v<std::tuple<float, std::vector<double>>, at_least_float>);
static_assert(!every_leaf_is_v<std::tuple<float, bfloat16>, at_least_float>);
static_assert(every_leaf_is_v<half, same_dtype>);

}  // namespace

TEST_CASE("what the type of a tree tells is checked when this compiles") { SUCCEED(); }
