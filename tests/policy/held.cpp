// A policy of a user's own in an AnyLossScale, with what it has and without what it has not.
#include <headroom/ops/policy_verbs.hpp>
#include <headroom/policy/any.hpp>
#include <headroom/policy/held.hpp>

#include <cstring>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/own_policies.hpp"
#include "support/policies.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AnyLossScale;
using headroom::GradientReport;
using support::FollowsMax;
using support::logic_error_of;
using support::message_of;
using support::PatientLossScale;
using support::Stairs;

static_assert(std::is_trivially_copyable_v<AnyLossScale> && sizeof(AnyLossScale) == 256);
static_assert(std::is_convertible_v<FollowsMax, AnyLossScale> && std::is_convertible_v<PatientLossScale, AnyLossScale>);
static_assert(!std::is_constructible_v<AnyLossScale, headroom::detail::HeldLossScale>);
static_assert(!std::is_convertible_v<std::string, AnyLossScale> &&
              !std::is_convertible_v<headroom::LossScaleConfig, AnyLossScale>);

TEST_CASE("each of the two adjusts is the policy's own") {
  AnyLossScale any = FollowsMax{};
  CHECK(any.loss_scale() == 1024.0F);
  CHECK(any.inv_scale() == 1.0F / 1024.0F);
  CHECK(any.adjust(GradientReport{true, 8.0}).loss_scale() == 128.0F);
  CHECK(any.adjust(true).loss_scale() == 1024.0F);
  CHECK(any.adjust(false).loss_scale() == 512.0F);
  CHECK(any.loss_scale() == 1024.0F);
  any = any.adjust(GradientReport{true, 2.0}).adjust(false);
  CHECK(any.get<FollowsMax>().scale == 256.0F);
}

TEST_CASE("it has the verbs") {
  const AnyLossScale any = FollowsMax{4.0F};
  CHECK(any.scale(2.0F) == 8.0F);
  std::vector<float> grads = {4.0F, -8.0F};
  CHECK(any.unscale_in_place(grads).max_abs == 2.0);
}

TEST_CASE("what it has not says so") {
  const AnyLossScale any = FollowsMax{};
  CHECK_FALSE(any.has_config());
  const std::string none = ": the policy '(not registered)' has none";
  CHECK_THAT(logic_error_of([&] { (void)any.config(); }), ContainsSubstring("config" + none));
  CHECK_THAT(logic_error_of([&] { (void)any.counter(); }), ContainsSubstring("counter" + none));
  CHECK_THAT(logic_error_of([&] { (void)any.with_loss_scale(2.0F); }), ContainsSubstring("with_loss_scale" + none));
  CHECK_THAT(logic_error_of([&] { (void)any.with_config({}); }), ContainsSubstring("with_config" + none));
  CHECK_THAT(logic_error_of([&] { (void)any.with_config(headroom::HysteresisConfig()); }),
             ContainsSubstring("with_config" + none));
  CHECK_THAT(logic_error_of([&] { (void)any.with_settings({{"scale", 2}}); }), ContainsSubstring("with_settings" + none));
  CHECK_THAT(logic_error_of([&] { (void)any.state_dict(); }), ContainsSubstring("state_dict" + none));
  CHECK_THAT(message_of([&] { (void)any.get<Stairs>(); }), ContainsSubstring("the policy is '(not registered)', not"));
  CHECK_THAT(message_of([&] { (void)any.get<headroom::DynamicLossScale>(); }), ContainsSubstring("not 'dynamic'"));
  CHECK_THAT(message_of([&] { (void)AnyLossScale().get<Stairs>(); }), ContainsSubstring("the policy is 'dynamic', not"));
}

TEST_CASE("what it has is used") {
  support::PatientConfig config;
  config.scale.growth_interval = 2;
  config.patience = 1;
  const PatientLossScale policy(config);
  const AnyLossScale any = policy;
  CHECK(any.has_config());
  CHECK(any.config() == config.scale);
  CHECK(support::after(any, "++").counter() == 1);
  CHECK(any.with_loss_scale(2.0F).get<PatientLossScale>() == policy.with_loss_scale(2.0F));
  CHECK(any.policy_name() == "patient_dynamic");
  CHECK(any.state_dict() == policy.state_dict());
  CHECK(any.with_settings({{"patience", 5}}).get<PatientLossScale>().config().patience == 5);
  config.scale.growth_interval = 7;
  CHECK(any.with_config(config.scale).get<PatientLossScale>() == policy.with_config(config));
  CHECK(AnyLossScale(Stairs{}).with_settings({{"height", 3}}).get<Stairs>() == Stairs{3.0, 10});
  CHECK_THAT(message_of([] {
               (void)AnyLossScale(Stairs{}).with_settings({{"hight", 3}});
             }),
             ContainsSubstring("the key 'hight' is unknown; its value is 3"));
}

TEST_CASE("policies of one's own are equal where they say so, or else where their bytes are") {
  CHECK(AnyLossScale(Stairs{}) == AnyLossScale(Stairs{}));
  CHECK(AnyLossScale(Stairs{0.0, 3}) == AnyLossScale(Stairs{-0.0, 3}));
  CHECK(AnyLossScale(Stairs{}) != AnyLossScale(Stairs{}.adjust(false)));
  CHECK(AnyLossScale(FollowsMax{}) == AnyLossScale(FollowsMax{}));
  CHECK(AnyLossScale(FollowsMax{}) != AnyLossScale(FollowsMax{2.0F}));
  CHECK(AnyLossScale(FollowsMax{}) != AnyLossScale(Stairs{}));
  CHECK(AnyLossScale(FollowsMax{}) != AnyLossScale());
  CHECK(AnyLossScale() != AnyLossScale(FollowsMax{}));
  CHECK(AnyLossScale(headroom::NoOpLossScale()) != AnyLossScale(FollowsMax{1.0F}));
}

#if HEADROOM_DETAIL_CLEARS_PADDING
TEST_CASE("what lies between the members of a policy does not count") {
  struct Gap {
    float scale = 2.0F;
    const Gap* next = nullptr;
    double more[4] = {};  // so that it is returned in memory, gap and all
    [[nodiscard]] float loss_scale() const { return scale; }
    [[nodiscard]] Gap adjust(bool) const { return *next; }
    [[nodiscard]] Gap adjust(const GradientReport&) const { return *next; }
  };
  alignas(Gap) unsigned char zeros[sizeof(Gap)], ones[sizeof(Gap)];
  std::memset(zeros, 0, sizeof zeros);
  std::memset(ones, 0xff, sizeof ones);
  const auto* const a = ::new (zeros) Gap;
  const auto* const b = ::new (ones) Gap;
  CHECK(AnyLossScale(*a) == AnyLossScale(*b));
  const Gap to_a{1.0F, a, {}}, to_b{1.0F, b, {}};
  CHECK(AnyLossScale(to_a).adjust(true) == AnyLossScale(to_b).adjust(true));
  CHECK(AnyLossScale(to_a).adjust(GradientReport()) == AnyLossScale(to_b).adjust(GradientReport()));
}
#endif

TEST_CASE("a policy may fill all the room there is") {
  struct Full {
    double losses[31] = {};
    [[nodiscard]] float loss_scale() const { return static_cast<float>(1.0 + losses[30]); }
    [[nodiscard]] Full adjust(bool finite) const { return adjust(GradientReport{finite, 1.0}); }
    [[nodiscard]] Full adjust(const GradientReport& report) const {
      Full next;
      for (int i = 0; i < 31; ++i) next.losses[i] = i == 0 ? report.max_abs : losses[i - 1];
      return next;
    }
  };
  static_assert(sizeof(Full) == 248);
  AnyLossScale any = Full{};
  Full full;
  for (int step = 0; step < 100; ++step) {
    const AnyLossScale before = any;
    const GradientReport report{true, static_cast<double>(step)};
    any = step % 3 == 0 ? any.adjust(true) : any.adjust(report);
    full = step % 3 == 0 ? full.adjust(true) : full.adjust(report);
    REQUIRE(any.loss_scale() == full.loss_scale());
    REQUIRE(any == AnyLossScale(full));
    REQUIRE(any != before);
  }
  any = FollowsMax{};
  CHECK(any == AnyLossScale(FollowsMax{}));
}

TEST_CASE("one kind is replaced by another") {
  AnyLossScale any = FollowsMax{};
  any = headroom::presets::apex();
  CHECK(any == AnyLossScale(headroom::presets::apex()));
  CHECK(any.get<headroom::HysteresisScale>() == headroom::presets::apex());
  any = Stairs{};
  CHECK(any.loss_scale() == 1024.0F);
  CHECK(any.get<Stairs>() == Stairs{});
}
