// state_dict and from_state_dict of every policy.
#include <headroom/policy/any.hpp>
#include <headroom/state/text.hpp>

#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/any_policies.hpp"
#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AnyLossScale;
using headroom::StateDict;
using headroom::StateValue;

namespace {

double with_bits(std::uint64_t bits) {
  double value = 0.0;
  support::set_bits(value, bits);
  return value;
}
const double nan_value = with_bits(headroom::binary64::quiet_nan_bits);
const double infinity = with_bits(headroom::binary64::infinity_bits);

std::string error_of(const StateDict& dict) {
  return support::message_of([&] { (void)AnyLossScale::from_state_dict(dict); });
}
/// Checks that the error has the key and the value.
void check_refused(StateDict dict, const std::string& key, const StateValue& value) {
  dict.set(key, value);
  INFO(to_text(dict));
  std::string text = headroom::detail::to_text(value);
  if (value.is_real() && text.size() > 2 && text.substr(text.size() - 2) == ".0") text.resize(text.size() - 2);
  CHECK_THAT(error_of(dict), ContainsSubstring(key + " is " + text));
}

template <class Policy>
void check_resumes(Policy policy, std::mt19937& random) {
  Policy resumed = policy;
  std::set<std::string> seen;
  for (int step = 0; step < 300 && (support::is_exhaustive || step < 30 || seen.size() <= 5); ++step) {
    const StateDict state = policy.state_dict();
    const std::string text = to_text(state);
    const Policy again = Policy::from_state_dict(state);
    bool same = again == policy && again.state_dict() == state;
    same = same && Policy::from_state_dict(headroom::from_text(text)) == policy;
    const bool finite = random() % 4 != 0;
    policy = policy.adjust(finite);
    resumed = Policy::from_state_dict(resumed.state_dict()).adjust(finite);
    same = same && resumed == policy && support::bits_of(resumed.loss_scale()) == support::bits_of(policy.loss_scale());
    if (!same) FAIL("step " << step << " from the state\n" << text);
    seen.insert(text);
  }
  CHECK((seen.size() > 5 || policy.state_dict().size() <= 3));  // counters and scales took many values
}

}  // namespace

TEST_CASE("a policy saved and loaded at every step equals one that was not, for every policy") {
  std::mt19937 random(support::seed);
  for (const AnyLossScale& any : support::every_policy()) {
    check_resumes(any, random);
    support::visit(any, [&](const auto& policy) { check_resumes(policy, random); });
  }
}

TEST_CASE("a state has the name of its policy and every setting") {
  const StateDict state = headroom::presets::deepspeed(1024.0, 2.0, 100, 4.0, 3, true).adjust(false).state_dict();
  CHECK(to_text(state) ==
        "version = 2\npolicy = \"stable_interval_delayed_shift\"\ninitial_scale = 1024.0\ngrowth_interval = 100\n"
        "growth_factor = 2.0\nbackoff_factor = 0.5\nmin_scale = 4.0\nmax_scale = 8.507059173023462e+37\n"
        "delayed_shift = 3\nconsecutive_hysteresis = true\nloss_scale = 1024.0\ncounter = 0\n"
        "hysteresis_left = 2\n");
  CHECK(to_text(headroom::NoOpLossScale().state_dict()) == "version = 2\npolicy = \"noop\"\n");
  CHECK(to_text(headroom::ConstantLossScale(3.0F).state_dict()) == "version = 2\npolicy = \"constant\"\nloss_scale = 3.0\n");
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
        for (const double bad : {nan_value, -nan_value, infinity, -infinity, -1.0, 1e300}) {
          const bool is_factor = key == "growth_factor" || key == "overflow_tolerance";
          if (!(is_factor && bad == 1e300) && !(is_signed && bad == -1.0)) check_refused(state, key, bad);
        }
        if (key != "overflow_tolerance" && !is_signed) check_refused(state, key, 0.0);
      }
    }
    StateDict unknown = state;
    unknown.add("colour", 3);
    CHECK_THAT(error_of(unknown), ContainsSubstring("the key 'colour' is unknown; its value is 3"));
  }
}

TEST_CASE("a state of a newer version, or of another policy, is refused") {
  StateDict state = headroom::DynamicLossScale().state_dict();
  state.set("version", 3);
  state.add("new_field", 1);
  CHECK_THAT(support::message_of([&] { (void)headroom::DynamicLossScale::from_state_dict(state); }),
             ContainsSubstring("version is 3, the state of a newer headroom: this one reads up to 2"));
  CHECK_THAT(
      support::message_of([&] { (void)headroom::DynamicLossScale::from_state_dict(headroom::HysteresisScale().state_dict()); }),
      ContainsSubstring("policy is \"hysteresis\"; it must be \"dynamic\""));
  for (const int version : {0, -1}) {
    state.set("version", version);
    CHECK_THAT(error_of(state), ContainsSubstring("version is " + std::to_string(version) + "; it must be at least 1"));
  }
  state = headroom::DynamicLossScale().state_dict();
  state.set("policy", "nobody's");
  CHECK_THAT(error_of(state), ContainsSubstring("policy is \"nobody's\", which is none of headroom"));
  state.set("version", 1);
  CHECK_THAT(error_of(state), ContainsSubstring("version is 1; the state was written by headroom 0.1"));
  state = headroom::DynamicLossScale().state_dict();
  state.erase("version");
  CHECK_THAT(error_of(state), ContainsSubstring("the key 'version' is missing"));
}

TEST_CASE("policies differ if any entry of their states differs") {
  for (const AnyLossScale& like : support::every_policy()) {
    const headroom::GradientReport finite{true, 1.0}, overflow{false, infinity};
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
  StateDict state = headroom::presets::deepspeed(0x1p32, 2.0, 1000, 1.0, 3).state_dict();
  check_refused(state, "hysteresis_left", 0);  // it is at least 1
  check_refused(state, "hysteresis_left", 4);
  state = headroom::HysteresisScale().state_dict();
  check_refused(state, "hysteresis_left", 3);  // hysteresis is 2
  state.set("max_scale", 1024.0);
  CHECK_THAT(error_of(state), ContainsSubstring("initial_scale is 32768, above max_scale, which is 1024"));
  state.set("initial_scale", 512.0);
  CHECK_THAT(error_of(state), ContainsSubstring("loss_scale is 32768, above max_scale, which is 1024"));
  state.set("loss_scale", 512.0);
  CHECK(error_of(state) == "");
}
