#include <headroom/dtype/half.hpp>
#include <headroom/headroom.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/policy/concept.hpp>
#include <headroom/policy/tolerance.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/any_policies.hpp"
#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AnyLossScale;
using headroom::half;
using support::logic_error_of;
namespace presets = headroom::presets;

namespace {

template <class Policy, class = void>
struct has_config : std::false_type {};
template <class Policy>
struct has_config<Policy, std::void_t<decltype(std::declval<const Policy&>().config())>> : std::true_type {};

}  // namespace

static_assert(headroom::is_loss_scale_v<AnyLossScale>);
static_assert(noexcept(std::declval<const AnyLossScale&>().adjust(true)) && std::is_trivially_copyable_v<AnyLossScale>);
static_assert(!std::is_convertible_v<int, AnyLossScale> && !std::is_convertible_v<float, AnyLossScale>);
static_assert(std::is_convertible_v<headroom::HysteresisScale, AnyLossScale>);

TEST_CASE("AnyLossScale is a DynamicLossScale until it is something else") {
  CHECK(AnyLossScale() == AnyLossScale(headroom::DynamicLossScale()));
  CHECK(AnyLossScale().loss_scale() == 32768.0F);
  CHECK(AnyLossScale(presets::torch()).adjust(false).loss_scale() == 32768.0F);
  CHECK(AnyLossScale(presets::torch()) == AnyLossScale(presets::torch()));
  CHECK(AnyLossScale(presets::torch()) != AnyLossScale(presets::torch()).adjust(false));
  CHECK(AnyLossScale(presets::apex()).with_loss_scale(4.0F).adjust(true).counter() == 1);
  CHECK(AnyLossScale(presets::apex()).config().growth_interval == 2000);
}

TEST_CASE("AnyLossScale is what it holds, step by step") {
  for (const AnyLossScale& any : support::every_policy()) {
    support::visit(any, [&](auto policy) {
      AnyLossScale same = any;
      for (int step = 0; step < 200; ++step) {
        REQUIRE(same == AnyLossScale(policy));
        REQUIRE(support::bits_of(same.loss_scale()) == support::bits_of(policy.loss_scale()));
        REQUIRE(support::bits_of(same.inv_scale()) == support::bits_of(policy.inv_scale()));
        REQUIRE(same.policy_name() == policy.policy_name());
        REQUIRE(same.state_dict() == policy.state_dict());
        const headroom::GradientReport report{step % 3 != 0 && step % 7 != 0, 1.0};
        same = step % 2 == 0 ? same.adjust(report) : same.adjust(report.finite);
        policy = step % 2 == 0 ? policy.adjust(report) : policy.adjust(report.finite);
      }
    });
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

TEST_CASE("AnyLossScale is reconfigured as what it holds") {
  headroom::LossScaleConfig config;
  config.growth_interval = 7;
  config.max_scale = 0x1p100F;
  for (const AnyLossScale& any : support::every_policy()) {
    support::visit(any, [&](const auto& policy) {
      using Policy = std::decay_t<decltype(policy)>;
      if constexpr (has_config<Policy>::value) {
        CHECK(any.has_config());
        CHECK(any.config() == headroom::detail::loss_scale_config(policy.config()));
        CHECK(any.adjust(true).counter() == policy.adjust(true).counter());
        CHECK(any.with_loss_scale(2.0F) == AnyLossScale(policy.with_loss_scale(2.0F)));
        auto changed = policy.config();  // all that it does not share with the others stays
        headroom::detail::loss_scale_config(changed) = config;
        CHECK(any.with_config(config) == AnyLossScale(policy.with_config(changed)));
        CHECK(any.with_config(changed) == AnyLossScale(policy.with_config(changed)));
        CHECK_THAT(support::message_of([&] { (void)any.with_loss_scale(0.0F); }), ContainsSubstring("loss_scale is 0"));
      }
    });
  }
  const headroom::HysteresisConfig hysteresis{config, 5};
  CHECK(AnyLossScale(presets::apex()).with_config(hysteresis) == AnyLossScale(presets::apex().with_config(hysteresis)));
  CHECK_THAT(support::message_of([&] { (void)AnyLossScale(presets::torch()).with_config(hysteresis); }),
             ContainsSubstring("with_config: the policy 'dynamic' has another kind of configuration"));
  config.growth_interval = 0;
  CHECK_THAT(support::message_of([&] { (void)AnyLossScale(presets::fairseq()).with_config(config); }),
             ContainsSubstring("growth_interval is 0"));
}

TEST_CASE("what has no settings says so by its name") {
  for (const AnyLossScale& any : {AnyLossScale(headroom::NoOpLossScale()), AnyLossScale(headroom::ConstantLossScale(8.0F))}) {
    const std::string name = any.policy_name();
    CHECK_FALSE(any.has_config());
    CHECK_THAT(logic_error_of([&] { (void)any.config(); }), ContainsSubstring("config: the policy '" + name + "' has none"));
    CHECK_THAT(logic_error_of([&] { (void)any.counter(); }), ContainsSubstring("counter: the policy '" + name + "' has none"));
    CHECK_THAT(logic_error_of([&] { (void)any.with_config(headroom::LossScaleConfig()); }),
               ContainsSubstring("with_config: the policy '" + name + "' has none"));
    CHECK_THAT(logic_error_of([&] { (void)any.with_config(headroom::ToleranceConfig()); }),
               ContainsSubstring("with_config: the policy '" + name + "' has none"));
  }
  const AnyLossScale constant = headroom::ConstantLossScale(8.0F), none = headroom::NoOpLossScale();
  CHECK(constant.with_loss_scale(4.0F) == AnyLossScale(headroom::ConstantLossScale(4.0F)));
  CHECK_THAT(logic_error_of([&] { (void)none.with_loss_scale(4.0F); }),
             ContainsSubstring("with_loss_scale: the policy 'noop' has none"));
}

TEST_CASE("settings may be returned by value, alone or in a struct") {
  struct ByValue {
    [[nodiscard]] static float loss_scale() { return 1.0F; }
    [[nodiscard]] ByValue adjust(bool) const { return *this; }
    [[nodiscard]] ByValue adjust(const headroom::GradientReport&) const { return *this; }
    [[nodiscard]] static headroom::ToleranceConfig config() { return {headroom::LossScaleConfig{64.0F, 7}, 0.5}; }
  };
  const AnyLossScale any = ByValue();
  CHECK(any.has_config());
  CHECK(any.config().growth_interval == 7);
}

TEST_CASE("a scaler's state is its policy's, whatever else is in it") {
  headroom::GradScaler<> scaler(headroom::presets::torch(1024.0));
  scaler.set_spike_guard(headroom::SpikeGuard());
  CHECK(AnyLossScale::from_state_dict(scaler.state_dict()) == AnyLossScale(scaler.policy()));
}

TEST_CASE("what it holds can be got back, and be replaced by another kind") {
  AnyLossScale any = presets::apex();
  REQUIRE(any.holds<headroom::HysteresisScale>());
  CHECK_FALSE(any.holds<headroom::DynamicLossScale>());
  CHECK(any.get<headroom::HysteresisScale>() == presets::apex());
  CHECK_THAT(support::message_of([&] { (void)any.get<headroom::DynamicLossScale>(); }),
             ContainsSubstring("the policy is 'hysteresis', not 'dynamic'"));
  any = headroom::NoOpLossScale();
  CHECK(any != AnyLossScale(presets::apex()));
  CHECK(any.holds<headroom::NoOpLossScale>());
}
