#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/paddle.hpp>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::import_state;
using headroom::StateDict;
using support::after;
using support::message_of;
using support::pick;
namespace presets = headroom::presets;

namespace {

StateDict state_of(const systems::Paddle& system) {
  return {{"scale", system.scale},
          {"incr_ratio", system.incr_ratio},
          {"decr_ratio", system.decr_ratio},
          {"incr_every_n_steps", system.incr_every_n_steps},
          {"decr_every_n_nan_or_inf", system.decr_every_n_nan_or_inf},
          {"incr_count", system.incr_count},
          {"decr_count", system.decr_count},
          {"use_dynamic_loss_scaling", true}};
}

}  // namespace

TEST_CASE("paddle: its recorded sequences are followed") {
  CHECK(support::follow("paddle.trace", [](support::Arguments get) {
          return presets::paddle(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                                 get.whole("growth_interval", 2000), static_cast<std::int32_t>(get.whole("hysteresis", 1)));
        }) == 21);
}

TEST_CASE("paddle is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(pick(random, {1.0, 1.25, 1.1}), static_cast<int>(random() % 60) - 10);
    const double growth = pick(random, {2.0, 1.1, 3.0, 1.5}), backoff = pick(random, {0.5, 0.3, 0.9, 0.8});
    const std::int64_t interval = support::pick_interval(random);
    const auto overflows = static_cast<std::int32_t>(1 + random() % 5);
    CHECK(support::first_difference(presets::paddle(start, growth, backoff, interval, overflows),
                                    systems::Paddle{static_cast<float>(start), static_cast<float>(growth),
                                                    static_cast<float>(backoff), interval, overflows},
                                    random) == "");
  }
}

TEST_CASE("paddle: only overflows in a row back off, and as many again") {
  constexpr auto policy = presets::paddle_2_4(1024.0);
  static_assert(after(policy, "-+-+-").loss_scale() == 1024.0F);
  static_assert(after(policy, "--").loss_scale() == 512.0F);
  static_assert(after(policy, "---").loss_scale() == 512.0F);
  static_assert(after(policy, "----").loss_scale() == 256.0F);
  static_assert(after(presets::paddle(1024.0), "--").loss_scale() == 256.0F);
  CHECK(presets::paddle_2_4() == presets::paddle(0x1p15, 2.0, 0.5, 1000, 2));
}

TEST_CASE("paddle: a bad argument is named, with its value") {
  CHECK_THAT(message_of([] { (void)presets::paddle(0.0); }), ContainsSubstring("init_loss_scaling is 0"));
  CHECK_THAT(message_of([] { (void)presets::paddle(1.0, 1.0); }), ContainsSubstring("incr_ratio is 1"));
  CHECK_THAT(message_of([] { (void)presets::paddle(1.0, 2.0, 1.0); }), ContainsSubstring("decr_ratio is 1"));
  CHECK_THAT(message_of([] { (void)presets::paddle(1.0, 2.0, 0.5, 0); }), ContainsSubstring("incr_every_n_steps is 0"));
  CHECK_THAT(message_of([] { (void)presets::paddle(1.0, 2.0, 0.5, 1, 0); }), ContainsSubstring("decr_every_n_nan_or_inf is 0"));
}

TEST_CASE("paddle: its state has everything, and is a static one if it says so") {
  for (const char* name : {"paddle", "paddle_2_4"}) {
    support::check_goes_on(name, systems::Paddle{65536.0F, 1.1F, 0.8F, 5, 3}, presets::paddle(), state_of);
  }
  StateDict state = state_of(systems::Paddle{1024.0F, 2.0F, 0.5F, 5, 3});
  CHECK(import_state("paddle", state).get<headroom::PaddleLossScale>().hysteresis_left() == 3);
  state.set("decr_count", 3);
  CHECK_THAT(message_of([&] { (void)import_state("paddle", state); }),
             ContainsSubstring("decr_count is 3; it must be in [0, 2]"));
  for (const char* key : {"incr_ratio", "decr_ratio"}) {
    StateDict bad = state;
    bad.set(key, 1.0);
    CHECK_THAT(message_of([&] { (void)import_state("paddle", bad); }), ContainsSubstring(std::string(key) + " is 1; it must"));
  }
  state.set("use_dynamic_loss_scaling", false);
  CHECK(import_state("paddle", state) == headroom::AnyLossScale(headroom::ConstantLossScale(1024.0F)));
  state.set("colour", 1);
  CHECK_THAT(message_of([&] { (void)import_state("paddle", state); }), ContainsSubstring("the key 'colour' is unknown"));
}
