#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/torch.hpp>

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
using support::after;
using support::Arguments;
using support::check_goes_on;
using support::first_difference;
using support::follow;
using support::message_of;
using support::pick;
namespace presets = headroom::presets;

namespace {

const StateDict torch_state = {
    {"scale", 1024.0}, {"growth_factor", 3.0}, {"backoff_factor", 0.25}, {"growth_interval", 5}, {"_growth_tracker", 3}};

}  // namespace

TEST_CASE("torch: its recorded sequences are followed") {
  CHECK(follow("torch.trace", [](Arguments get) {
          return presets::torch(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                                get.whole("growth_interval", 2000));
        }) == 29);
}

TEST_CASE("RoundPipe's synchronous sequences are torch's") {
  std::size_t synchronous = 0;
  for (const support::Trace& trace : support::golden("roundpipe.trace")) {
    if (trace.config_or("is_async", 1.0) != 0.0) continue;
    ++synchronous;
    support::Trace main = trace;
    main.scales["scale"] = trace.scales.at("scale_main");
    const Arguments get{trace};
    CHECK(first_difference(presets::torch(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                                          get.whole("growth_interval", 2000)),
                           main) == "");
  }
  CHECK(synchronous == 13);
}

TEST_CASE("torch is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 60) - 10), any = start * pick(random, {1.0, 1.25, 1.1});
    const double growth = pick(random, {2.0, 1.1, 3.0, 1.5}), backoff = pick(random, {0.5, 0.3, 0.9, 0.25});
    const std::int64_t interval = support::pick_interval(random);
    CHECK(first_difference(presets::torch(any, growth, backoff, interval),
                           systems::Torch{static_cast<float>(any), growth, backoff, interval}, random) == "");
  }
}

TEST_CASE("torch: a growth to Inf is refused, however far below the largest scale it begins") {
  static_assert(presets::torch(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  static_assert(presets::torch(0x1p125, 10.0, 0.5, 1).adjust(false).adjust(true).loss_scale() == 0x1p126F);  // 1.25 * 2^127
  static_assert(presets::torch(0x1p125, 1e300, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  // Rounded to float, (2 - 2^-24) * 2^127 is Inf, and the double below it is not.
  static_assert(presets::torch(1.0, 0x1.ffffffp127, 0.5, 1).adjust(true).loss_scale() == 1.0F);
  static_assert(presets::torch(1.0, 0x1.fffffefffffffp127, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(pick(random, {1.0, 1.25, 1.7}), static_cast<int>(random() % 60) + 66);
    const double growth = pick(random, {2.0, 10.0, 1e3, 1e10, 1e38});
    const auto interval = static_cast<std::int64_t>(1 + random() % 4);
    const double backoff = pick(random, {0.5, 0.3, 1e-3, 1e-20});
    CHECK(first_difference(presets::torch(start, growth, backoff, interval),
                           systems::Torch{static_cast<float>(start), growth, backoff, interval}, random) == "");
  }
}

TEST_CASE("torch: a bad argument is named, with its value") {
  double nan = 0.0, infinity = 0.0;
  support::set_bits(nan, headroom::binary64::quiet_nan_bits);
  support::set_bits(infinity, headroom::binary64::infinity_bits);
  CHECK_THAT(message_of([&] { (void)presets::torch(nan); }), ContainsSubstring("init_scale is nan"));
  CHECK_THAT(message_of([&] { (void)presets::torch(infinity); }), ContainsSubstring("init_scale is inf"));
  CHECK_THAT(message_of([] { (void)presets::torch(1e300); }), ContainsSubstring("init_scale is 1e+300"));
  CHECK_THAT(message_of([] { (void)presets::torch(0.0); }), ContainsSubstring("init_scale is 0"));
  CHECK_THAT(message_of([] { (void)presets::torch(-1.0); }), ContainsSubstring("init_scale is -1"));
  CHECK_THAT(message_of([] { (void)presets::torch(1.0, 0.5); }), ContainsSubstring("growth_factor is 0.5"));
  CHECK_THAT(message_of([] { (void)presets::torch(1.0, 2.0, 2.0); }), ContainsSubstring("backoff_factor is 2"));
  CHECK_THAT(message_of([] { (void)presets::torch(1.0, 2.0, 0.5, 0); }), ContainsSubstring("growth_interval is 0"));
}

TEST_CASE("torch's state goes on as a DynamicLossScale") {
  const AnyLossScale any = import_state("torch", torch_state);
  const auto policy = any.get<headroom::DynamicLossScale>();
  CHECK(policy == presets::torch(65536.0, 3.0, 0.25, 5).with_loss_scale(1024.0F).adjust(true).adjust(true).adjust(true));
  CHECK(after(policy, "++").loss_scale() == 3072.0F);
  CHECK(policy.adjust(false).loss_scale() == 256.0F);
  check_goes_on("torch", systems::Torch{65536.0F, 2.0, 0.5, 5}, presets::torch(), [](const systems::Torch& system) {
    return StateDict{{"scale", system.scale},
                     {"growth_factor", system.growth_factor},
                     {"backoff_factor", system.backoff_factor},
                     {"growth_interval", system.growth_interval},
                     {"_growth_tracker", system.growth_tracker}};
  });
}
