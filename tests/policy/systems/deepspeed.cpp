#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/deepspeed.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AnyLossScale;
using headroom::import_state;
using headroom::StateDict;
using support::after;
using support::Arguments;
using support::check_goes_on;
using support::first_difference;
using support::follow;
using support::message_of;
namespace presets = headroom::presets;

TEST_CASE("DeepSpeed: its recorded sequences are followed") {
  CHECK(follow("deepspeed.trace", [](Arguments get) {
          return presets::deepspeed(get("initial_scale", 0x1p32), get("factor", 2.0), get.whole("growth_interval", 1000),
                                    get("min_scale", 1.0), static_cast<std::int32_t>(get.whole("hysteresis", 1)),
                                    get("consecutive_hysteresis", 0.0) != 0.0);
        }) == 18);
}

TEST_CASE("DeepSpeed is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 60) + 10);
    const std::int64_t interval = support::pick_interval(random);
    const auto hysteresis = static_cast<std::int32_t>(1 + random() % 5);
    const bool consecutive = random() % 2 == 0;
    CHECK(first_difference(presets::deepspeed_0_16(start, 2.0, interval, 2.0, hysteresis, consecutive),
                           systems::DeepSpeed{start, 2.0, interval, 2.0, hysteresis, consecutive, false}, random) == "");
    CHECK(first_difference(presets::deepspeed_config(16, interval, hysteresis, consecutive, 2.0),
                           systems::DeepSpeed{65536.0, 2.0, interval, 2.0, hysteresis, consecutive}, random) == "");
    CHECK(first_difference(presets::deepspeed(start, 2.0, interval, 2.0, hysteresis, consecutive),
                           systems::DeepSpeed{start, 2.0, interval, 2.0, hysteresis, consecutive}, random) == "");
  }
}

TEST_CASE("DeepSpeed grows on clean step window + 1 and then every window steps, and an overflow starts anew") {
  auto policy = presets::deepspeed(1024.0, 2.0, 3);
  CHECK(after(policy, "+++").loss_scale() == 1024.0F);
  CHECK(after(policy, "++++").loss_scale() == 2048.0F);
  CHECK(after(policy, "+++++++").loss_scale() == 4096.0F);
  CHECK(after(policy, "++++-+++").loss_scale() == 1024.0F);
  CHECK(after(policy, "++++-++++").loss_scale() == 2048.0F);
  CHECK(after(policy, "++++-++++").counter() == 4);
}

TEST_CASE("older DeepSpeed grows on clean step window") {
  constexpr auto policy = presets::deepspeed_0_16(1024.0, 2.0, 3, 1.0, 2);
  static_assert(after(policy, "++").loss_scale() == 1024.0F && after(policy, "+++").loss_scale() == 2048.0F);
  static_assert(after(policy, "++-+++").loss_scale() == 2048.0F);
  static_assert(after(policy, "--").loss_scale() == 512.0F && after(policy, "-+-").loss_scale() == 512.0F);
  CHECK(after(policy, "++++++").loss_scale() == 4096.0F);
}

TEST_CASE("DeepSpeed: what a configuration makes is the scaler's with other arguments") {
  static_assert(presets::deepspeed_0_16().config() == presets::deepspeed().config());
  static_assert(presets::deepspeed_config() == presets::deepspeed(65536.0, 2.0, 1000, 1.0, 2, false));
  for (const int power : {-127, 127, 1000, std::numeric_limits<int>::min()}) {
    CHECK_THAT(message_of([&] { (void)presets::deepspeed_config(power); }),
               ContainsSubstring("initial_scale_power is " + std::to_string(power) + "; it must be in [-126, 126]"));
  }
  CHECK(presets::deepspeed_config(-126).loss_scale() == headroom::smallest_loss_scale);
  CHECK(presets::deepspeed_config(126).loss_scale() == headroom::largest_loss_scale);
  CHECK_THAT(message_of([] { (void)presets::deepspeed(1.0, 1.0); }),
             ContainsSubstring("scale_factor is 1; it must be above 1"));
  CHECK_THAT(message_of([] { (void)presets::deepspeed(1.0, 2.0, 1000, 1.0, 0); }), ContainsSubstring("delayed_shift is 0"));
}

TEST_CASE("DeepSpeed's is a pickled scaler's, or the less that an FP16 optimizer writes") {
  check_goes_on("deepspeed", systems::DeepSpeed{65536.0, 2.0, 7, 4.0, 3, true}, presets::deepspeed(),
                [](const systems::DeepSpeed& system) {
                  return StateDict{{"cur_scale", system.scale},
                                   {"cur_iter", system.cur_iter},
                                   {"last_overflow_iter", system.last_overflow_iter},
                                   {"scale_factor", system.scale_factor},
                                   {"scale_window", system.scale_window},
                                   {"min_scale", system.min_scale},
                                   {"delayed_shift", system.delayed_shift},
                                   {"cur_hysteresis", system.cur_hysteresis},
                                   {"consecutive_hysteresis", system.consecutive_hysteresis},
                                   {"raise_error_at_min_scale", false},
                                   {"dtype", "torch.float16"},
                                   {"dynamic", true}};
                });
  check_goes_on("deepspeed", systems::DeepSpeed{65536.0, 2.0, 7, 1.0, 1, false}, presets::deepspeed(),
                [](const systems::DeepSpeed& system) {
                  return StateDict{{"dynamic_loss_scale", true},          {"cur_scale", system.scale},
                                   {"cur_iter", system.cur_iter},         {"last_overflow_iter", system.last_overflow_iter},
                                   {"scale_factor", system.scale_factor}, {"scale_window", system.scale_window}};
                });
  CHECK_THAT(message_of([] {
               (void)import_state("deepspeed", {{"cur_scale", 2.0}, {"cur_iter", 5}, {"last_overflow_iter", 5}});
             }),
             ContainsSubstring("last_overflow_iter is 5; it must be below cur_iter"));
}

TEST_CASE("the state of an older DeepSpeed's scaler goes on by its own rule") {
  const auto state_of = [](const systems::DeepSpeed& system) {
    return StateDict{{"cur_scale", system.scale},
                     {"cur_iter", system.cur_iter},
                     {"last_overflow_iter", system.last_overflow_iter},
                     {"scale_factor", system.scale_factor},
                     {"scale_window", system.scale_window},
                     {"min_scale", system.min_scale},
                     {"delayed_shift", system.delayed_shift},
                     {"cur_hysteresis", system.cur_hysteresis},
                     {"consecutive_hysteresis", system.consecutive_hysteresis}};
  };
  const systems::DeepSpeed old{65536.0, 2.0, 3, 1.0, 2, false, false};
  check_goes_on("deepspeed", old, presets::deepspeed_0_16(), state_of);
  check_goes_on("deepspeed_0_16", old, AnyLossScale(presets::deepspeed_0_16()), state_of);
  systems::DeepSpeed system = old;
  for (int step = 0; step < 7; ++step) system.update(false);
  const AnyLossScale any = import_state("deepspeed_0_16", state_of(system));
  CHECK(any.counter() == 1);  // of the 7 steps since the last overflow, those since the last growth
  CHECK(after(any, "++").loss_scale() == 2 * any.loss_scale());
}

TEST_CASE("an older DeepSpeed refills its hysteresis once, unless it is told otherwise") {
  CHECK_FALSE(presets::deepspeed_0_16().config().consecutive_hysteresis);
  CHECK(presets::deepspeed_0_16().config().delayed_shift == 1);
}

TEST_CASE("DeepSpeed's static state is a constant scale") {
  const AnyLossScale constant = headroom::ConstantLossScale(128.0F);
  CHECK(import_state("deepspeed", {{"cur_scale", 128}, {"dynamic", false}}) == constant);  // LossScaler, pickled
  CHECK(import_state("deepspeed", {{"dynamic_loss_scale", false}, {"cur_scale", 128.0}, {"cur_iter", 17}}) == constant);
  CHECK(import_state("deepspeed_0_16", {{"cur_scale", 128.0}, {"dynamic", false}}) == constant);
  CHECK(import_state("deepspeed", {{"cur_scale", 128.0}, {"dynamic", false}}, headroom::ConstantLossScale(1.0F)).loss_scale() ==
        128.0F);
  CHECK_THAT(message_of([] {
               (void)import_state("deepspeed", {{"cur_scale", 0}, {"dynamic", false}});
             }),
             ContainsSubstring("cur_scale is 0"));
  CHECK_THAT(message_of([] {
               (void)import_state("deepspeed", {{"cur_scale", 2.0}, {"dynamic", false}, {"scale_window", 3}});
             }),
             ContainsSubstring("the key 'scale_window' is unknown"));
  CHECK_THAT(message_of([] {
               (void)import_state("deepspeed", {{"cur_scale", 2.0}, {"dynamic", true}});
             }),
             ContainsSubstring("the key 'cur_iter' is missing"));
}

TEST_CASE("DeepSpeed: what a state cannot have is named") {
  const StateDict deepspeed = {{"cur_scale", 2.0}, {"cur_iter", 5}, {"last_overflow_iter", 2}};
  const auto refused_by_deepspeed = [&](const std::string& key, const headroom::StateValue& value) {
    StateDict state = deepspeed;
    state.set(key, value);
    return message_of([&] { (void)import_state("deepspeed", state); });
  };
  CHECK(refused_by_deepspeed("dtype", "torch.float16").empty());
  CHECK_THAT(refused_by_deepspeed("scale_factor", 1.0), ContainsSubstring("scale_factor is 1; it must be above 1"));
  CHECK_THAT(refused_by_deepspeed("scale_window", 0), ContainsSubstring("scale_window is 0; it must be in [1, "));
  CHECK_THAT(refused_by_deepspeed("cur_hysteresis", 2), ContainsSubstring("cur_hysteresis is 2; it must be in [1, 1]"));
  CHECK_THAT(refused_by_deepspeed("delayed_shift", 0), ContainsSubstring("delayed_shift is 0; it must be in [1, 2147483647]"));
}

TEST_CASE("DeepSpeed: a floor above where the preset begins is none too high for the state, and the factor is a double") {
  CHECK(import_state("deepspeed", {{"cur_scale", 0x1p34}, {"cur_iter", 3}, {"last_overflow_iter", -1}, {"min_scale", 0x1p33}})
            .loss_scale() == 0x1p34F);
  const auto deepspeed =
      import_state("deepspeed", {{"cur_scale", 2.0}, {"cur_iter", 5}, {"last_overflow_iter", 2}, {"scale_factor", 1.1}});
  CHECK(deepspeed.get<headroom::DeepSpeedLossScale>().config().scale.growth_factor == 1.1);
}
