// Every policy, of every growth rule and every backoff rule, can be read from its own state.
#include <headroom/policy/any.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>
#include <headroom/state/text.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <utility>

#include "support/any_policies.hpp"
#include "support/catch.hpp"
#include "support/policies.hpp"
#include "support/samples.hpp"

using headroom::AnyLossScale;
using headroom::BasicDynamicLossScale;

namespace {

template <class... Rules>
struct List {};
using Growths = List<headroom::GrowAfterFiniteSteps, headroom::GrowEveryIntervalSinceOverflow, headroom::GrowAfterAllSteps>;
using Backoffs =
    List<headroom::BackOffAtOnce, headroom::BackOffWhenShareExceedsTolerance, headroom::BackOffWhenShareReachesTolerance,
         headroom::BackOffAfterHysteresis<headroom::RefillOnCleanStep>,
         headroom::BackOffAfterHysteresis<headroom::RefillOnGrowth>,
         headroom::BackOffAfterHysteresis<headroom::RefillOnBackoff>,
         headroom::BackOffAfterHysteresis<headroom::RefillOnCleanStepAndBackoff>, headroom::BackOffAfterDelayedShift>;

/// Random settings. Their max_scale is at least `scale`.
template <class Config>
Config random_settings(std::mt19937& random, float scale) {
  Config config;
  headroom::LossScaleConfig& common = headroom::detail::loss_scale_config(config);
  common = support::random_config(random);
  common.max_scale = common.max_scale < scale ? scale : common.max_scale;
  if constexpr (!std::is_same_v<Config, headroom::LossScaleConfig>) {
    const auto count = 1 + static_cast<std::int32_t>(random() % 5);
    support::SetOwnFields{count, static_cast<double>(random() % 8) / 8.0, random() % 2 == 0}(config);
  }
  return config;
}

template <class Policy>
Policy random_step(const Policy& policy, std::mt19937& random) {
  switch (random() % 16) {
    case 0:
      return policy.with_config(random_settings<typename Policy::Config>(random, policy.loss_scale()));
    case 1:
      return policy.with_loss_scale(std::ldexp(1.0F, -static_cast<int>(random() % 30)));
    default:
      return policy.adjust(random() % 3 != 0);
  }
}

/// Whether the policy read from `policy`'s state is equal to it, now and in later steps.
template <class Policy>
bool comes_back(Policy policy, std::mt19937 random) {
  const headroom::StateDict state = policy.state_dict();
  Policy loaded = Policy::from_state_dict(state);
  bool same = loaded == policy && loaded.state_dict() == state;
  for (int step = 0; same && step < 12; ++step) {
    const bool finite = random() % 3 != 0;
    loaded = loaded.adjust(finite);
    policy = policy.adjust(finite);
    same = loaded == policy;
  }
  return same;
}

template <class Policy>
void check_random_runs(std::mt19937& random) {
  constexpr bool has_name = support::is_among<Policy>(support::PolicyTypes());
  for (int run = 0; run < support::cases(25); ++run) {
    Policy policy(random_settings<typename Policy::Config>(random, 1.0F));
    for (int step = 0; step < 40; ++step) {
      policy = random_step(policy, random);
      if (comes_back(policy, random) && (!has_name || comes_back(AnyLossScale(policy), random))) continue;
      FAIL(to_text(policy.state_dict()));
    }
  }
}

template <class Growth, class... Backoff>
void check_with_every_backoff(List<Backoff...>, std::mt19937& random) {
  (check_random_runs<BasicDynamicLossScale<Growth, Backoff>>(random), ...);
}
template <class... Growth>
void check_every_pair(List<Growth...>, std::mt19937& random) {
  (check_with_every_backoff<Growth>(Backoffs(), random), ...);
}

}  // namespace

TEST_CASE("every policy can be read from its own state, after any settings and any steps") {
  std::mt19937 random(support::seed);
  check_every_pair(Growths(), random);
}
