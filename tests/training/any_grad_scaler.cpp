// A GradScaler of a policy chosen at run time has all that one of a known policy has, and does the same.
#include <headroom/policy/any.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <random>
#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AnyLossScale;
using headroom::GradScaler;
using support::Sgd;

namespace {

/// A training that uses everything, at random; what it has seen is the result.
template <class Policy>
std::string training(const Policy& policy) {
  std::mt19937 random(support::seed);
  GradScaler<Policy> scaler(policy);
  std::string seen;
  const auto add = [&seen](double value) { seen += std::to_string(support::bits_of(value)) + " "; };
  scaler.set_on_floor([&](const Policy& at_floor) { add(static_cast<double>(at_floor.loss_scale())); });
  Sgd optimizer{{1.0F}, {0.0F}};
  for (int iteration = 0; iteration < support::cases(400); ++iteration) {
    const float loss = scaler.scale(1.0F);
    optimizer.grads = {random() % 3 == 0 ? support::infinity() : loss};
    add(static_cast<double>(loss));
    add(scaler.step(optimizer).report.max_abs);
    switch (random() % 10) {
      case 0:
        scaler.update(static_cast<float>(1 + random() % 1000));
        break;
      case 1:
        scaler.set_growth_factor(1.0 + static_cast<double>(1 + random() % 30) / 8.0);
        scaler.update();
        break;
      case 2:
        scaler.set_backoff_factor(static_cast<double>(1 + random() % 7) / 8.0);
        scaler.update();
        break;
      case 3:
        scaler.set_growth_interval(1 + random() % 4);
        scaler.update();
        break;
      default:
        scaler.update();
    }
    add(scaler.get_growth_factor());
    add(scaler.get_backoff_factor());
    add(static_cast<double>(scaler.get_growth_interval()));
    add(static_cast<double>(scaler.get_scale()));
    add(static_cast<double>(scaler.policy().counter()));
    scaler.load_state_dict(scaler.state_dict());
  }
  return seen;
}
template <class Policy>
void check_same(const Policy& policy) {
  CHECK(training(policy) == training(AnyLossScale(policy)));
}

}  // namespace

TEST_CASE("a GradScaler of AnyLossScale trains as one of the policy it holds") {
  namespace presets = headroom::presets;
  check_same(headroom::DynamicLossScale());
  check_same(presets::torch());
  check_same(presets::megatron());
  check_same(presets::deepspeed(256.0, 2.0, 3, 4.0, 2));
  check_same(presets::fairseq());
}

TEST_CASE("a GradScaler of AnyLossScale goes on where the policy has no settings, and says so where one is asked for") {
  for (const AnyLossScale& policy :
       {AnyLossScale(headroom::NoOpLossScale()), AnyLossScale(headroom::ConstantLossScale(8.0F))}) {
    GradScaler<AnyLossScale> scaler(policy);
    int at_floor = 0;
    scaler.set_on_floor([&](const AnyLossScale&) { ++at_floor; });
    Sgd optimizer{{1.0F}, {support::infinity()}};
    CHECK(scaler.step(optimizer).skipped);
    scaler.update();
    CHECK(at_floor == 0);
    CHECK(scaler.policy() == policy);
    const std::string none = ": the policy '" + policy.policy_name() + "' has none";
    CHECK_THAT(support::logic_error_of([&] { (void)scaler.get_growth_factor(); }), ContainsSubstring("config" + none));
    CHECK_THAT(support::logic_error_of([&] { scaler.set_growth_interval(3); }), ContainsSubstring("config" + none));
  }
  GradScaler<AnyLossScale> constant{AnyLossScale(headroom::ConstantLossScale(8.0F))};
  constant.update(4.0F);
  CHECK(constant.get_scale() == 4.0F);
  GradScaler<AnyLossScale> noop{AnyLossScale(headroom::NoOpLossScale())};
  CHECK_THAT(support::logic_error_of([&] { noop.update(4.0F); }), ContainsSubstring("the policy 'noop' has none"));
}
