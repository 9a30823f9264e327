#include <headroom/dtype/half.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/policy/concept.hpp>

#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/any_policies.hpp"
#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using headroom::AnyLossScale;
using headroom::half;
namespace presets = headroom::presets;

static_assert(headroom::is_loss_scale_v<AnyLossScale>);
static_assert(noexcept(std::declval<const AnyLossScale&>().adjust(true)) && std::is_trivially_copyable_v<AnyLossScale>);
static_assert(AnyLossScale().loss_scale() == 32768.0F);
static_assert(AnyLossScale(presets::torch()).adjust(false).loss_scale() == 32768.0F);
static_assert(AnyLossScale(presets::torch()) == AnyLossScale(presets::torch()));
static_assert(!std::is_convertible_v<int, AnyLossScale> && !std::is_convertible_v<float, AnyLossScale>);
static_assert(std::is_convertible_v<headroom::HysteresisScale, AnyLossScale>);

TEST_CASE("AnyLossScale is what it holds, step by step") {
  for (const AnyLossScale& any : support::every_policy()) {
    std::visit(
        [&](auto policy) {
          AnyLossScale same = any;
          for (int step = 0; step < 200; ++step) {
            REQUIRE(same == AnyLossScale(policy));
            REQUIRE(support::bits_of(same.loss_scale()) == support::bits_of(policy.loss_scale()));
            REQUIRE(support::bits_of(same.inv_scale()) == support::bits_of(policy.inv_scale()));
            REQUIRE(same.policy_name() == policy.policy_name());
            REQUIRE(same.state_dict() == policy.state_dict());
            const headroom::GradientReport report{step % 3 != 0 && step % 7 != 0, 1.0};
            same = step % 2 == 0 ? same.adjust(report) : same.adjust(report.finite);
            policy = policy.adjust(report);
          }
        },
        any.policy());
  }
}

TEST_CASE("AnyLossScale has the verbs") {
  const AnyLossScale any = headroom::ConstantLossScale(4.0F);
  CHECK(any.scale(2.0F) == 8.0F);
  const auto [grads, report] = any.unscale<float>(std::vector<half>{half(8.0F), half(-4.0F)});
  CHECK(grads == std::vector<float>{2.0F, -1.0F});
  CHECK(report.max_abs == 2.0);
  std::vector<float> values{6.0F, 8.0F};
  CHECK(any.unscale_and_clip_in_place(values, 1.25).norm == 2.5);
  CHECK(values == std::vector<float>{0.75F, 1.0F});
}

TEST_CASE("what it holds can be got back, and be replaced by another kind") {
  AnyLossScale any = presets::apex();
  REQUIRE(std::get_if<headroom::HysteresisScale>(&any.policy()) != nullptr);
  CHECK(any.get<headroom::HysteresisScale>() == presets::apex());
  CHECK_THAT(support::message_of([&] { (void)any.get<headroom::DynamicLossScale>(); }),
             Catch::Matchers::ContainsSubstring("the policy is 'hysteresis', not 'dynamic'"));
  any = headroom::NoOpLossScale();
  CHECK(any != AnyLossScale(presets::apex()));
  CHECK(std::holds_alternative<headroom::NoOpLossScale>(any.policy()));
}
