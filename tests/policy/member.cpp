// Policies as members of aggregates, which are initialised by {}: clang takes no explicit default constructor there.
#include <headroom/policy/any.hpp>

#include <type_traits>

#include "support/any_policies.hpp"
#include "support/catch.hpp"

namespace {

template <class Policy>
struct Trainer {
  Policy scaler;
  int steps;
};

template <class Policy>
void check_default() {
  const Trainer<Policy> all{};
  const Trainer<Policy> some = {{}, 3};
  const Trainer<Policy> array[2] = {};
  CHECK(all.scaler == Policy());
  CHECK(some.scaler == Policy());
  CHECK(array[1].scaler == Policy());
  static_assert(std::is_default_constructible_v<Policy>);
  static_assert(!std::is_convertible_v<headroom::LossScaleConfig, Policy>);
}
/// All of them but ConstantLossScale, which has no default.
template <class... Policies>
void check_defaults(support::TypeList<Policies...>) {
  const auto check = [](auto type) {
    using Policy = typename decltype(type)::type;
    if constexpr (!std::is_same_v<Policy, headroom::ConstantLossScale>) check_default<Policy>();
  };
  (check(std::enable_if<true, Policies>()), ...);
}

}  // namespace

TEST_CASE("a policy is a member of an aggregate") {
  check_default<headroom::AnyLossScale>();
  check_defaults(support::PolicyTypes());
}
