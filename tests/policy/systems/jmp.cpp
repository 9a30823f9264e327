#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/jmp.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AnyLossScale;
using headroom::import_state;
using headroom::StateDict;
using support::Arguments;
using support::check_goes_on;
using support::first_difference;
using support::follow;
using support::message_of;
using support::pick;
namespace presets = headroom::presets;

TEST_CASE("jmp: its recorded sequences are followed") {
  CHECK(follow("jmp_dynamic.trace", [](Arguments get) {
          return presets::jmp(get("initial_scale", 32768.0), get.whole("growth_interval", 2000), get("factor", 2.0),
                              get("min_scale", 1.0));
        }) == 31);
}

TEST_CASE("jmp is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 60) - 10), any = start * pick(random, {1.0, 1.25, 1.1});
    const double factor = pick(random, {2.0, 3.0, 1.1, 1.7, 10.0}), floor = pick(random, {1.0, 0.37, 0.0, 100.0});
    const std::int64_t interval = support::pick_interval(random);
    CHECK(
        first_difference(presets::jmp(any, interval, factor, floor),
                         systems::Jmp{static_cast<float>(any), interval, static_cast<float>(factor), static_cast<float>(floor)},
                         random) == "");
  }
}

TEST_CASE("jmp: a growth to Inf is refused, however far below the largest scale it begins") {
  static_assert(presets::jmp(0x1p125, 1, 10.0).adjust(true).loss_scale() == 0x1p125F);
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(pick(random, {1.0, 1.25, 1.7}), static_cast<int>(random() % 60) + 66);
    const double growth = pick(random, {2.0, 10.0, 1e3, 1e10, 1e38});
    const auto interval = static_cast<std::int64_t>(1 + random() % 4);
    CHECK(first_difference(presets::jmp(start, interval, growth),
                           systems::Jmp{static_cast<float>(start), interval, static_cast<float>(growth), 1.0F}, random) == "");
  }
}

TEST_CASE("jmp: a tiny floor is none, and the scale may start below it") {
  for (const double none : {0.0, -0.0, 0x1p-1074, 1e-300, 0x1p-127, 0x1.fffffffffffffp-127}) {
    CHECK(presets::jmp(1.0, 2000, 2.0, none).config().min_scale == headroom::smallest_loss_scale);
  }
  for (const double none : {0x1p-1074, 1e-300, 0x1p-127, 0x1.fffffffffffffp-127}) {
    CHECK_THAT(message_of([&] { (void)presets::jmp(1.0, 2000, 2.0, -none); }), ContainsSubstring("min_loss_scale is -"));
  }
  CHECK(presets::jmp(1.0, 2000, 2.0, 0x1.8p-126).config().min_scale == 0x1.8p-126F);
  CHECK(presets::jmp(4.0, 2000, 2.0, 100.0).loss_scale() == 4.0F);
  CHECK(presets::jmp(4.0, 2000, 2.0, 100.0).adjust(false).loss_scale() == 100.0F);
}

TEST_CASE("jmp: a bad argument is named, with its value") {
  double nan = 0.0;
  support::set_bits(nan, headroom::binary64::quiet_nan_bits);
  CHECK_THAT(message_of([&] { (void)presets::jmp(1.0, 2000, nan); }), ContainsSubstring("factor is nan"));
  CHECK_THAT(message_of([] { (void)presets::jmp(1.0, 2000, 1e300); }), ContainsSubstring("factor is 1e+300"));
  CHECK_THAT(message_of([] { (void)presets::jmp(1.0, 2000, 1.00000001); }),
             ContainsSubstring("factor is 1.00000001; it must be above 1 and finite as a float"));
  CHECK_THAT(message_of([] { (void)presets::jmp(1.0, 2000, 2.0, -1.0); }), ContainsSubstring("min_loss_scale is -1"));
  CHECK_THAT(message_of([&] { (void)presets::jmp(1.0, 2000, 2.0, nan); }), ContainsSubstring("min_loss_scale is nan"));
}

TEST_CASE("jmp's may be without its floor, which its own flattening forgets") {
  StateDict state = {{"loss_scale", 1024.0}, {"counter", 3}, {"period", 5}, {"factor", 3}, {"min_loss_scale", 0.0}};
  const auto policy = import_state("jmp", state).get<headroom::DynamicLossScale>();
  CHECK(policy.config().min_scale == headroom::smallest_loss_scale);
  CHECK(import_state("eformer", state) == AnyLossScale(policy));
  CHECK(state.erase("min_loss_scale"));
  CHECK(import_state("jmp", state).get<headroom::DynamicLossScale>().config().min_scale == 1.0F);
  check_goes_on("jmp", systems::Jmp{1000.0F, 5, 3.0F, 2.5F}, presets::jmp(), [](const systems::Jmp& system) {
    return StateDict{{"loss_scale", system.scale},
                     {"counter", system.counter},
                     {"period", system.period},
                     {"factor", system.factor},
                     {"min_loss_scale", system.min_loss_scale}};
  });
}

TEST_CASE("jmp: its factor is a float, in a state as well") {
  const auto jmp = import_state("jmp", {{"loss_scale", 1024.0}, {"counter", 3}, {"period", 5}, {"factor", 1.1}});
  CHECK(jmp.get<headroom::DynamicLossScale>().config().growth_factor == static_cast<double>(1.1F));
  CHECK(jmp.get<headroom::DynamicLossScale>().config() == presets::jmp(32768.0, 5, 1.1).config());
  const auto refused = [](double factor) {
    return message_of([&] {
      (void)import_state("jmp", {{"loss_scale", 1024.0}, {"counter", 3}, {"period", 5}, {"factor", factor}});
    });
  };
  CHECK_THAT(refused(1.00000000001), ContainsSubstring("factor is 1.00000000001; it must be above 1 and finite as a float"));
  CHECK_THAT(refused(1), ContainsSubstring("factor is 1; it must be above 1"));
}

TEST_CASE("jmp: its period is named as jmp does") {
  CHECK_THAT(message_of([] {
               (void)import_state("jmp", {{"loss_scale", 1024.0}, {"counter", 3}, {"period", 0}, {"factor", 2.0}});
             }),
             ContainsSubstring("period is 0"));
}

TEST_CASE("jmp: a floor above where the preset begins is none too high for the state") {
  const StateDict jmp = {{"loss_scale", 0x1p21}, {"counter", 3}, {"period", 5}, {"factor", 2}, {"min_loss_scale", 0x1p20}};
  CHECK(import_state("jmp", jmp).loss_scale() == 0x1p21F);
}
