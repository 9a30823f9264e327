#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/keras.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::StateDict;
using support::message_of;
namespace presets = headroom::presets;

TEST_CASE("keras: its recorded sequences are followed") {
  CHECK(support::follow("keras.trace", [](support::Arguments get) {
          return presets::keras(get("initial_scale", 32768.0), get.whole("growth_interval", 2000));
        }) == 11);
}

TEST_CASE("keras is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(support::pick(random, {1.0, 1.25, 1.1}), static_cast<int>(random() % 60) - 10);
    const std::int64_t interval = support::pick_interval(random);
    CHECK(support::first_difference(presets::keras(start, interval), systems::Keras{static_cast<float>(start), interval},
                                    random) == "");
  }
}

TEST_CASE("keras: the scale stays within ours where Keras' goes to 0 and Inf") {
  static_assert(support::after(presets::keras(0x1p125, 1), "+++").loss_scale() == 0x1p126F);
  static_assert(support::after(presets::keras(0x1p-125), "---").loss_scale() == 0x1p-126F);
  CHECK_THAT(message_of([] { (void)presets::keras(0.0); }), ContainsSubstring("initial_scale is 0"));
  CHECK_THAT(message_of([] { (void)presets::keras(1.0, 0); }), ContainsSubstring("dynamic_growth_steps is 0"));
}

TEST_CASE("keras: its variables are a state, with or without its configuration") {
  support::check_goes_on("keras", systems::Keras{65536.0F, 5}, presets::keras(65536.0, 5), [](const systems::Keras& system) {
    return StateDict{{"dynamic_scale", system.scale}, {"step_counter", system.step_counter}};
  });
  const StateDict with_config = {
      {"dynamic_scale", 8.0}, {"step_counter", 3}, {"initial_scale", 32768.0}, {"dynamic_growth_steps", 5}};
  CHECK(headroom::import_state("keras", with_config) ==
        headroom::AnyLossScale(support::after(presets::keras(32768.0, 5).with_loss_scale(8.0F), "+++")));
  CHECK_THAT(message_of([] {
               (void)headroom::import_state("keras", {{"dynamic_scale", 8.0}});
             }),
             ContainsSubstring("the key 'step_counter' is missing"));
}
