#include <headroom/policy/systems/marian.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using support::after;
using support::message_of;
using support::pick;
namespace presets = headroom::presets;

TEST_CASE("marian: its recorded sequences are followed") {
  CHECK(support::follow("marian.trace", [](support::Arguments get) {
          return presets::marian(get("initial_scale", 256.0), get.whole("growth_interval", 1000), get("factor", 2.0),
                                 get("min_scale", 256.0));
        }) == 16);
}

TEST_CASE("marian is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(pick(random, {1.0, 1.25, 1.1, 3.0}), static_cast<int>(random() % 40));
    const double multiplier = pick(random, {2.0, 4.0, 16.0}), least = start * pick(random, {1.0, 0.5, 0.37, 0.01});
    const std::int64_t frequency = support::pick_interval(random);
    CHECK(support::first_difference(
              presets::marian(start, frequency, multiplier, least),
              systems::Marian{static_cast<float>(start), frequency, static_cast<float>(multiplier), static_cast<float>(least)},
              random) == "");
    // Up to rounding, if rounding does not decide whether a scale is above the minimum.
    const double other = pick(random, {3.0, 1.5, 1.1}), between = start * pick(random, {0.97, 0.37, 0.01});
    CHECK(support::first_difference(
              presets::marian(start, frequency, other, between),
              systems::Marian{static_cast<float>(start), frequency, static_cast<float>(other), static_cast<float>(between)},
              random, true) == "");
  }
}

TEST_CASE("marian: the floor is where a scale comes to rest that is divided while it is above the minimum") {
  static_assert(presets::marian().config().min_scale == 256.0F);
  static_assert(presets::marian(10.0, 1, 2.0, 1.0).config().min_scale == 0.625F);
  static_assert(presets::marian(8.0, 1, 2.0, 1.0).config().min_scale == 1.0F);
  static_assert(presets::marian(3.0, 1, 4.0, 100.0).config().min_scale == 48.0F);
  static_assert(presets::marian(0x1p-120, 1, 2.0, 0.0).config().min_scale == headroom::smallest_loss_scale);
  CHECK(presets::marian(0x1p126, 1, 1.000001, 1.0).config().min_scale == 1.0F);  // it would be divided millions of times
  CHECK(presets::marian(3.0, 1, 4.0, 100.0).loss_scale() == 3.0F);
  CHECK(after(presets::marian(3.0, 1, 4.0, 100.0), "+++-").loss_scale() == 48.0F);
}

TEST_CASE("marian: a bad argument is named, with its value") {
  CHECK_THAT(message_of([] { (void)presets::marian(8.0, 10000, 1.0, 8.0); }), ContainsSubstring("multiplier is 1"));
  CHECK_THAT(message_of([] { (void)presets::marian(0.0); }), ContainsSubstring("factor is 0"));
  CHECK_THAT(message_of([] { (void)presets::marian(8.0, 0); }), ContainsSubstring("frequency is 0"));
  CHECK_THAT(message_of([] { (void)presets::marian(8.0, 1, 2.0, -8.0); }), ContainsSubstring("minimum is -8"));
}
