#include <headroom/policy/any.hpp>
#include <headroom/state/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>

#include "support/any_policies.hpp"
#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/policies.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace headroom;

namespace {

const double nan_value = support::with_bits(headroom::binary64::quiet_nan_bits);
const double infinite = support::with_bits(headroom::binary64::infinity_bits);

std::string error_of(const StateDict& dict) {
  return support::message_of([&] { (void)AnyLossScale::from_state_dict(dict); });
}
/// Checks that the error has the key and the value.
void check_refused(StateDict dict, const std::string& key, const StateValue& value) {
  dict.set(key, value);
  INFO(to_text(dict));
  std::string text = headroom::detail::to_text(value);
  if (value.is_real() && text.size() > 2 && text.substr(text.size() - 2) == ".0")
    text.resize(text.size() - 2);
  CHECK_THAT(error_of(dict), ContainsSubstring(key + " is " + text));
}

/// Random settings. Their max_scale is at least `scale`.
template <class Config>
Config random_settings(std::mt19937& random, float scale) {
  Config config;
  LossScaleConfig& common = headroom::detail::loss_scale_config(config);
  common = support::random_config(random);
  common.max_scale = std::max(common.max_scale, scale);
  support::SetOwnFields{1 + static_cast<std::int32_t>(random() % 5),
                        random() % 2 == 0 ? 0.12 : 0.01, random() % 2 == 0}(config);
  return config;
}
template <class Policy>
Policy random_step(const Policy& policy, std::mt19937& random) {
  if constexpr (headroom::detail::is_detected_v<support::config_t, Policy>) {
    const auto choice = random() % 16;
    if (choice == 0)
      return policy.with_config(
          random_settings<typename Policy::Config>(random, policy.loss_scale()));
    if (choice == 1)
      return policy.with_loss_scale(std::ldexp(1.0F, -static_cast<int>(random() % 30)));
  }
  const bool finite = random() % 10 != 0;
  if (random() % 2 == 0) return policy.adjust(finite);
  return policy.adjust(
      {finite, finite ? std::ldexp(1.0, static_cast<int>(random() % 40) - 30) : infinite});
}

/// A policy that is saved and loaded before every step equals one that is not.
template <class Policy>
void check_resumes(Policy policy, std::mt19937& random) {
  Policy resumed = policy;
  std::set<std::string> seen;
  for (int step = 0; step < 40; ++step) {
    const StateDict state = resumed.state_dict();
    const std::string text = to_text(state);
    resumed = Policy::from_state_dict(state);
    const bool same =
        resumed == policy && resumed.state_dict() == state &&
        AnyLossScale::from_state_dict(headroom::from_text(text)) == AnyLossScale(policy);
    if (!same) FAIL("step " << step << " from the state\n" << text);
    std::mt19937 same_random = random;
    policy = random_step(policy, random);
    resumed = random_step(resumed, same_random);
    seen.insert(text);
  }
  // Counters and scales took other values
  CHECK((seen.size() > 2 || policy.state_dict().size() <= 3));
}

}  // namespace

TEST_CASE("every policy read from its state continues as the saved one") {
  std::mt19937 random(support::seed);
  for (const AnyLossScale& any : support::every_policy()) {
    support::visit(any, [&](const auto& policy) { check_resumes(policy, random); });
  }
  for (int run = 0; run < support::cases(15); ++run) {
    support::for_each_adaptive(support::random_config(random), {1 + run % 3, 0.12, run % 2 == 0},
                               [&](const auto& policy) { check_resumes(policy, random); });
  }
}

TEST_CASE("a state has the name of its policy and every setting") {
  const StateDict state =
      presets::deepspeed(1024.0, 2.0, 100, 4.0, 3, true).adjust(false).state_dict();
  CHECK(to_text(state) ==
        "version = 2\npolicy = \"stable_interval_delayed_shift\"\ninitial_scale = "
        "1024.0\ngrowth_interval = 100\n"
        "growth_factor = 2.0\nbackoff_factor = 0.5\nmin_scale = 4.0\nmax_scale = "
        "8.507059173023462e+37\n"
        "delayed_shift = 3\nconsecutive_hysteresis = true\nloss_scale = 1024.0\ncounter = 0\n"
        "hysteresis_left = 2\n");
  CHECK(to_text(NoOpLossScale().state_dict()) == "version = 2\npolicy = \"noop\"\n");
  CHECK(to_text(ConstantLossScale(3.0F).state_dict()) ==
        "version = 2\npolicy = \"constant\"\nloss_scale = 3.0\n");
}

TEST_CASE("a missing, unknown or bad field is an error") {
  for (const AnyLossScale& policy : support::every_policy()) {
    const StateDict state = policy.adjust(false).state_dict();
    for (const auto& [key, value] : state) {
      StateDict missing = state;
      CHECK(missing.erase(key));
      CHECK_THAT(error_of(missing), ContainsSubstring("the key '" + key + "' is missing"));
      check_refused(state, key, value.is_text() ? StateValue(17) : StateValue("text"));
      const bool is_signed = key == "peak" || key == "mean";
      if (value.is_integer()) {
        check_refused(state, key, 1.5);
        if (!is_signed) check_refused(state, key, -1);
        check_refused(state, key, nan_value);
      } else if (value.is_real()) {
        for (const double bad : {nan_value, -nan_value, infinite, -infinite, -1.0, 1e300}) {
          const bool is_factor = key == "growth_factor" || key == "overflow_tolerance";
          if (!(is_factor && bad == 1e300) && !(is_signed && bad == -1.0))
            check_refused(state, key, bad);
        }
        if (key != "overflow_tolerance" && !is_signed) check_refused(state, key, 0.0);
      }
    }
    StateDict unknown = state;
    unknown.add("colour", 3);
    CHECK_THAT(error_of(unknown), ContainsSubstring("the key 'colour' is unknown; its value is 3"));
  }
}

TEST_CASE("a state of another version, or of another policy, is refused") {
  struct Refused {
    const char* key;
    StateValue value;
    const char* message;
  };
  const Refused all[] = {
      {"version", 3, "version is 3, the state of a newer headroom: this one reads up to 2"},
      {"version", 1, "version is 1; the state was written by headroom 0.1"},
      {"version", 0, "version is 0; it must be at least 1"},
      {"policy", "hysteresis", "policy is \"hysteresis\"; it must be \"dynamic\""}};
  for (const auto& [key, value, message] : all) {
    StateDict state = DynamicLossScale().state_dict();
    state.set(key, value);
    state.add("new_field", 1);
    CHECK_INVALID(message, DynamicLossScale::from_state_dict(state));
    state.set("policy", "nobody's");
    const std::string of_any = key == std::string("policy")
                                   ? "policy is \"nobody's\", which is none of headroom's"
                                   : message;
    CHECK_THAT(error_of(state), ContainsSubstring(of_any));
  }
  StateDict number = DynamicLossScale().state_dict();
  number.set("policy", 3);
  CHECK_THAT(error_of(number), ContainsSubstring("policy is 3, which is none of headroom's"));
}

TEST_CASE("policies differ if any entry of their states differs") {
  for (const AnyLossScale& like : support::every_policy()) {
    const GradientReport finite{true, 1.0}, overflow{false, infinite};
    const AnyLossScale policy = like.adjust(finite).adjust(overflow).adjust(finite);
    const StateDict state = policy.state_dict();
    for (const auto& [key, value] : state) {
      if (key == "version" || key == "policy") continue;
      int others = 0;
      for (const int change : {-1, 1}) {
        StateDict changed = state;
        if (value.is_real()) {
          const double base = value.real() == 0.0 ? 0.5 : value.real();
          changed.set(key, static_cast<double>(static_cast<float>(base * (1.0 + change * 0.1))));
        } else if (value.is_boolean()) {
          changed.set(key, !value.boolean());
        } else {
          changed.set(key, value.integer() + change);
        }
        if (!error_of(changed).empty()) continue;
        ++others;
        INFO(key << " in " << to_text(changed));
        CHECK(AnyLossScale::from_state_dict(changed) != policy);
      }
      CHECK(others > 0);
    }
  }
}

TEST_CASE("values that contradict each other are refused") {
  StateDict state = presets::deepspeed(0x1p32, 2.0, 1000, 1.0, 3).state_dict();
  check_refused(state, "hysteresis_left", 0);  // it is at least 1
  check_refused(state, "hysteresis_left", 4);
  state = HysteresisScale().state_dict();
  check_refused(state, "hysteresis_left", 3);  // hysteresis is 2
  state.set("max_scale", 1024.0);
  CHECK_THAT(error_of(state),
             ContainsSubstring("initial_scale is 32768, above max_scale, which is 1024"));
  state.set("initial_scale", 512.0);
  CHECK_THAT(error_of(state),
             ContainsSubstring("loss_scale is 32768, above max_scale, which is 1024"));
  state.set("loss_scale", 512.0);
  CHECK(error_of(state) == "");
}
