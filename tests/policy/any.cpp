#include <headroom/headroom.hpp>
#include <headroom/policy/any.hpp>

#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/any_policies.hpp"
#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace headroom;
using support::message_of;

static_assert(headroom::is_loss_scale_v<AnyLossScale>);
static_assert(!noexcept(std::declval<const AnyLossScale&>().adjust(true)));  // it allocates
static_assert(std::is_nothrow_copy_constructible_v<AnyLossScale>);
static_assert(!std::is_convertible_v<int, AnyLossScale> &&
              !std::is_convertible_v<float, AnyLossScale>);
static_assert(std::is_convertible_v<HysteresisScale, AnyLossScale>);

TEST_CASE("an AnyLossScale follows the policy that it holds, step by step") {
  for (const AnyLossScale& any : support::every_policy()) {
    support::visit(any, [&](auto policy) {
      AnyLossScale same = any;
      for (int step = 0; step < 200; ++step) {
        REQUIRE(same == AnyLossScale(policy));
        REQUIRE(support::bits_of(same.loss_scale()) == support::bits_of(policy.loss_scale()));
        REQUIRE(support::bits_of(same.inv_scale()) == support::bits_of(policy.inv_scale()));
        REQUIRE(same.policy_name() == policy.policy_name());
        REQUIRE(same.state_dict() == policy.state_dict());
        const GradientReport report{step % 3 != 0 && step % 7 != 0, 1.0};
        same = step % 2 == 0 ? same.adjust(report) : same.adjust(report.finite);
        policy = step % 2 == 0 ? policy.adjust(report) : policy.adjust(report.finite);
      }
    });
  }
}

TEST_CASE("settings of an AnyLossScale are those of the policy that it holds") {
  LossScaleConfig config;
  config.growth_interval = 7;
  config.max_scale = 0x1p100F;
  for (const AnyLossScale& any : support::every_policy()) {
    support::visit(any, [&](const auto& policy) {
      if constexpr (headroom::detail::is_detected_v<support::config_t,
                                                    std::decay_t<decltype(policy)>>) {
        CHECK(any.has_config());
        CHECK(any.config() == headroom::detail::loss_scale_config(policy.config()));
        CHECK(any.adjust(true).counter() == policy.adjust(true).counter());
        CHECK(any.with_loss_scale(2.0F) == AnyLossScale(policy.with_loss_scale(2.0F)));
        auto changed = policy.config();  // settings that not all policies have stay as they are
        headroom::detail::loss_scale_config(changed) = config;
        CHECK(any.with_config(config) == AnyLossScale(policy.with_config(changed)));
        CHECK_INVALID("loss_scale is 0", any.with_loss_scale(0.0F));
      }
    });
  }
  config.growth_interval = 0;
  CHECK_INVALID("growth_interval is 0", AnyLossScale(presets::apex()).with_config(config));
}

TEST_CASE("get returns the policy held, and assignment may change its type") {
  AnyLossScale any = presets::apex();
  REQUIRE(any.holds<HysteresisScale>());
  CHECK_FALSE(any.holds<DynamicLossScale>());
  CHECK(any.get<HysteresisScale>() == presets::apex());
  CHECK_INVALID("the policy is 'hysteresis', not of the type asked for",
                any.get<DynamicLossScale>());
  any = NoOpLossScale();
  CHECK(any != AnyLossScale(presets::apex()));
  CHECK(any.holds<NoOpLossScale>());
}

namespace {

/// A user's policy: the least a policy needs. A report sets the scale that makes its largest
/// gradient 1024.
struct FollowsMax {
  float scale = 1024.0F;

  [[nodiscard]] float loss_scale() const { return scale; }
  [[nodiscard]] FollowsMax adjust(bool grads_finite) const {
    if (scale <= 1.0F) throw std::bad_alloc();  // as a policy that needs memory
    return {grads_finite ? scale : scale / 2.0F};
  }
  [[nodiscard]] FollowsMax adjust(const GradientReport& report) const {
    return report.finite && report.max_abs > 0.0
               ? FollowsMax{static_cast<float>(1024.0 / report.max_abs)}
               : adjust(report.finite);
  }
};
/// One with a state.
struct Saved : FollowsMax {
  [[nodiscard]] Saved adjust(bool grads_finite) const { return {FollowsMax::adjust(grads_finite)}; }
  [[nodiscard]] Saved adjust(const GradientReport& report) const {
    return {FollowsMax::adjust(report)};
  }
  friend bool operator==(const Saved& a, const Saved& b) { return a.scale == b.scale; }
  [[nodiscard]] StateDict state_dict() const { return {{"scale", scale}}; }
  [[nodiscard]] static Saved from_state_dict(const StateDict& dict) {
    return {{static_cast<float>(dict.at("scale").real())}};
  }
};

/// Checks that the policy has no settings, and that the errors say so.
void check_has_no_config(const AnyLossScale& any, const std::string& name) {
  CHECK(any.policy_name() == name);
  CHECK_FALSE(any.has_config());
  const std::string has_none = ": the policy '" + name + "' has none";
  CHECK_LOGIC_ERROR("config" + has_none, any.config());
  CHECK_LOGIC_ERROR("counter" + has_none, any.counter());
  CHECK_LOGIC_ERROR("with_config" + has_none, any.with_config({}));
  if (name == "constant") return;
  CHECK_LOGIC_ERROR("with_loss_scale" + has_none, any.with_loss_scale(4.0F));
  if (name == "noop") return;
  CHECK_LOGIC_ERROR("with_settings" + has_none, any.with_settings({{"scale", 2}}));
}

}  // namespace

TEST_CASE("what a policy has not is an error; a user's policy needs only loss_scale and adjust") {
  check_has_no_config(NoOpLossScale(), "noop");
  check_has_no_config(ConstantLossScale(8.0F), "constant");
  CHECK(make_loss_scale("constant", {{"scale", 2.0}}).with_loss_scale(4.0F) ==
        AnyLossScale(ConstantLossScale(4.0F)));
  check_has_no_config(Saved(), "(of your own)");
  CHECK(AnyLossScale(Saved()) == AnyLossScale(Saved()));
  CHECK(AnyLossScale(Saved()) != AnyLossScale(Saved().adjust(false)));
  CHECK(AnyLossScale(Saved()) != AnyLossScale());
  CHECK(AnyLossScale(Saved()).state_dict() == Saved().state_dict());
  CHECK(AnyLossScale(Saved()).state_digest() != AnyLossScale(Saved().adjust(false)).state_digest());
  const AnyLossScale any = FollowsMax{};
  check_has_no_config(any, "(of your own)");
  CHECK_LOGIC_ERROR("'(of your own)' has none", any.state_dict());
  CHECK(any != any);  // policies without == are never equal
  CHECK(any.state_digest() != any.adjust(false).state_digest());
  CHECK(any.inv_scale() == 1.0F / 1024.0F);
  CHECK(any.adjust(GradientReport{true, 8.0}).loss_scale() == 128.0F);
  CHECK(any.adjust(false).get<FollowsMax>().scale == 512.0F);
}

TEST_CASE("adjust without memory throws, and an update that throws can be repeated") {
  GradScaler<AnyLossScale> scaler{AnyLossScale(FollowsMax{1.0F})};
  std::vector<float> grads = {0.0F};
  (void)scaler.scale(1.0F);
  (void)scaler.step_gradients(grads, [](auto&) {});
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(scaler.update(), std::bad_alloc);
  CHECK(scaler.get_scale() == 1.0F);
}

TEST_CASE("make_loss_scale makes a policy by name, with the settings of that policy") {
  CHECK(make_loss_scale("noop") == AnyLossScale(NoOpLossScale()));
  CHECK_INVALID("the key 'scale' is missing", make_loss_scale("constant"));
  CHECK(make_loss_scale("dynamic") == AnyLossScale(DynamicLossScale()));
  CHECK(make_loss_scale("megatron") == AnyLossScale(presets::megatron()));
  CHECK(make_loss_scale("fairseq", {{"growth_interval", 7}}) ==
        AnyLossScale(presets::fairseq(32768.0, 2.0, 7)));
  const AnyLossScale any =
      make_loss_scale("deepspeed", {{"growth_interval", 500}, {"delayed_shift", 4}});
  CHECK(any == AnyLossScale(presets::deepspeed(0x1p32, 2.0, 500, 1.0, 4)));
  CHECK(make_loss_scale("deepspeed", {{"growth_interval", 5e2}, {"delayed_shift", 4.0}}) == any);
  for (const std::string& name : headroom::loss_scale_names()) {
    if (name == "noop") continue;
    CHECK(make_loss_scale(name, {{name == "constant" ? "scale" : "initial_scale", 512.0}})
              .loss_scale() == 512.0F);
  }
}

TEST_CASE("the errors for an unknown name and an unknown setting list the known ones") {
  for (const char* name : {"", "Dynamic", "dynamic ", "pytorch"}) {
    const std::string message = message_of([&] { (void)make_loss_scale(name); });
    CHECK_THAT(message, ContainsSubstring("there is no policy '" + std::string(name) +
                                          "'; known are noop, constant, "));
    for (const std::string& known : headroom::loss_scale_names())
      CHECK_THAT(message, ContainsSubstring(known));
  }
  const StateDict settings = {{"hysteresis", 3}, {"growth", 2.0}};
  CHECK(message_of([&] { (void)make_loss_scale("apex", settings); }) ==
        "headroom: the key 'growth' is unknown; its value is 2.0; known are initial_scale, "
        "growth_interval, growth_factor, backoff_factor, min_scale, max_scale, hysteresis");
  CHECK(message_of([] {
          (void)make_loss_scale("constant", {{"initial_scale", 2.0}});
        }) == "headroom: the key 'initial_scale' is unknown; its value is 2.0; known are scale");
}

TEST_CASE("the error for a bad setting names key and value, for every policy") {
  const double nan = support::with_bits(headroom::binary64::quiet_nan_bits);
  const StateValue bad_values[] = {-1.0, nan,   0.0, 1e300,  1e-300, 0.5,
                                   1e12, -1000, 0,   "text", 500.5};
  for (const std::string& name : headroom::loss_scale_names()) {
    const StateDict needed = name == "constant" ? StateDict{{"scale", 8.0}} : StateDict();
    const StateDict state = make_loss_scale(name, needed).state_dict();
    for (const auto& [key, usual] : state) {
      int refused = 0;
      for (const StateValue& bad : bad_values) {
        const std::string message = message_of([&, key = key] {
          (void)make_loss_scale(name, {{key, bad}});
        });
        INFO(name << ", {\"" << key << "\", " << headroom::detail::to_text(bad)
                  << "}: " << message);
        if (message.empty()) continue;
        ++refused;
        const bool is_unknown =
            message.find("the key '" + key + "' is unknown; its value is ") != std::string::npos;
        const bool is_named = message.find("headroom: " + key + " is ") == 0;
        CHECK((is_unknown || is_named ||
               message.find(", above " + key + ", which is ") != std::string::npos));
      }
      CHECK(refused >= 2);
    }
  }
}
