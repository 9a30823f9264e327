#include <headroom/policy/make_loss_scale.hpp>

#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AnyLossScale;
using headroom::make_loss_scale;
using headroom::StateDict;
using support::message_of;
namespace presets = headroom::presets;

TEST_CASE("policies go by name") {
  CHECK(make_loss_scale("noop") == AnyLossScale(headroom::NoOpLossScale()));
  CHECK(make_loss_scale("constant") == AnyLossScale(headroom::ConstantLossScale(32768.0F)));
  CHECK(make_loss_scale("dynamic") == AnyLossScale(headroom::DynamicLossScale()));
  CHECK(make_loss_scale("hysteresis") == AnyLossScale(headroom::HysteresisScale()));
  CHECK(make_loss_scale("hysteresis_refill_on_growth") ==
        AnyLossScale(headroom::BasicHysteresisScale<headroom::RefillOnGrowth>()));
  CHECK(make_loss_scale("jmp") == AnyLossScale(presets::jmp()));
  CHECK(make_loss_scale("torch") == AnyLossScale(presets::torch()));
  CHECK(make_loss_scale("deepspeed") == AnyLossScale(presets::deepspeed()));
  CHECK(make_loss_scale("cerebras_fp16") == AnyLossScale(presets::cerebras_fp16()));
  CHECK(make_loss_scale("cerebras_cbfloat16") == AnyLossScale(presets::cerebras_cbfloat16()));
  CHECK(make_loss_scale("apex") == AnyLossScale(presets::apex()));
  CHECK(make_loss_scale("megatron") == AnyLossScale(presets::megatron()));
  CHECK(make_loss_scale("fairseq") == AnyLossScale(presets::fairseq()));
  CHECK(make_loss_scale("eformer") == AnyLossScale(presets::eformer()));
  CHECK(make_loss_scale("emily") == AnyLossScale(presets::emily()));
  CHECK(make_loss_scale("flax") == AnyLossScale(presets::flax()));
  CHECK(make_loss_scale("keras") == AnyLossScale(presets::keras()));
  CHECK(make_loss_scale("paddle") == AnyLossScale(presets::paddle()));
}

TEST_CASE("an unknown name lists the known ones") {
  for (const char* name : {"", "Dynamic", "dynamic ", "pytorch"}) {
    const std::string message = message_of([&] { (void)make_loss_scale(name); });
    CHECK_THAT(message, ContainsSubstring("there is no policy '" + std::string(name) + "'; known are noop, constant, "));
    for (const std::string& known : headroom::loss_scale_names()) CHECK_THAT(message, ContainsSubstring(known));
  }
}

TEST_CASE("each known name makes a policy, with any configuration and any setting of its own") {
  headroom::LossScaleConfig config;
  config.initial_scale = 512.0F;
  for (const auto& [name, make] : headroom::detail::NamedLossScales<headroom::detail::AllSystems>::all) {
    const AnyLossScale policy = headroom::detail::any_of(make());
    CHECK(make_loss_scale(name) == policy);
    CHECK(make_loss_scale(name, {}) == policy);
    const float scale = make_loss_scale(name, config).loss_scale();
    CHECK(scale == (std::string(name) == "noop" ? 1.0F : 512.0F));
    if (std::string(name) != "noop") CHECK(make_loss_scale(name, {{"initial_scale", 512.0}}).loss_scale() == 512.0F);
  }
}

TEST_CASE("a configuration is the policy's own kind, or the one they share") {
  headroom::HysteresisConfig config;
  config.scale.initial_scale = 64.0F;
  config.hysteresis = 3;
  CHECK(make_loss_scale("hysteresis", config) == AnyLossScale(headroom::HysteresisScale(config)));
  CHECK(make_loss_scale("hysteresis", config.scale) ==
        AnyLossScale(headroom::HysteresisScale(headroom::HysteresisConfig{config.scale, 2})));
  CHECK_THAT(message_of([&] { (void)make_loss_scale("dynamic", config); }),
             ContainsSubstring("the policy 'dynamic' has another kind of configuration"));
  config.scale.initial_scale = -1.0F;
  for (const char* name : {"hysteresis", "constant", "noop"})
    CHECK_THAT(message_of([&] { (void)make_loss_scale(name, config.scale); }), ContainsSubstring("initial_scale is -1"));
}

TEST_CASE("settings change what they name and nothing else") {
  const AnyLossScale any = make_loss_scale("deepspeed", {{"growth_interval", 500}, {"delayed_shift", 4}});
  CHECK(any == AnyLossScale(presets::deepspeed(0x1p32, 2.0, 500, 1.0, 4)));
  CHECK(make_loss_scale("fairseq", {{"growth_interval", 7}}) == AnyLossScale(presets::fairseq(32768.0, 2.0, 7)));
  CHECK_THAT(message_of([] {
               (void)make_loss_scale("dynamic", {{"growth_intervall", 500}});
             }),
             ContainsSubstring("the key 'growth_intervall' is unknown; its value is 500"));
  CHECK_THAT(message_of([] {
               (void)make_loss_scale("dynamic", {{"hysteresis", 2}});
             }),
             ContainsSubstring("the key 'hysteresis' is unknown"));
  CHECK_THAT(message_of([] {
               (void)make_loss_scale("dynamic", {{"counter", 2}});
             }),
             ContainsSubstring("the key 'counter' is unknown"));
  CHECK_THAT(message_of([] {
               (void)make_loss_scale("dynamic", {{"growth_interval", "500"}});
             }),
             ContainsSubstring("growth_interval is '500'; it must be a whole number"));
  CHECK_THAT(message_of([] {
               (void)make_loss_scale("dynamic", {{"growth_factor", 0.5}});
             }),
             ContainsSubstring("growth_factor is 0.5"));
  CHECK_THAT(message_of([] {
               (void)make_loss_scale("noop", {{"growth_factor", 0.5}});
             }),
             ContainsSubstring("the key 'growth_factor' is unknown"));
}

TEST_CASE("a bad setting of any policy is named by its key, with its value") {
  double nan = 0.0;
  support::set_bits(nan, headroom::binary64::quiet_nan_bits);
  const headroom::StateValue bad_values[] = {-1.0, nan, 0.0, 1e300, 1e-300, 0.5, 1e12, -1000, 0, "text"};
  const auto text = [](const headroom::StateValue& value) { return headroom::detail::to_text(value); };
  for (const std::string& name : headroom::loss_scale_names()) {
    const StateDict state = make_loss_scale(name).state_dict();
    for (const auto& [key, usual] : state) {
      int refused = 0;
      for (const headroom::StateValue& bad : bad_values) {
        const std::string message = message_of([&, key = key] { (void)make_loss_scale(name, {{key, bad}}); });
        INFO(name << ", {\"" << key << "\", " << text(bad) << "}: " << message);
        if (message.empty()) continue;
        ++refused;
        const bool is_unknown = message == "headroom: the key '" + key + "' is unknown; its value is " + text(bad);
        // A scale is kept as a float, and of two settings that do not go together both are named.
        const auto rounded = text(bad.is_real() ? headroom::StateValue(headroom::detail::rounded_to_float(bad.real())) : bad);
        bool is_named = is_unknown;
        for (const std::string& value : {text(bad), rounded}) {
          is_named = is_named || message.find("headroom: " + key + " is " + value) == 0;
          is_named = is_named || message.find(", above " + key + ", which is " + value) != std::string::npos;
        }
        CHECK(is_named);
      }
      CHECK(refused >= 2);
    }
  }
}
