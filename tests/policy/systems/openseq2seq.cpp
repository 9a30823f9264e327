#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/openseq2seq.hpp>

#include <cstdint>
#include <random>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::StateDict;
using support::message_of;
using support::pick;
namespace presets = headroom::presets;

TEST_CASE("openseq2seq: its recorded sequences are followed") {
  CHECK(support::follow("openseq2seq_backoff.trace", [](support::Arguments get) {
          return presets::openseq2seq_backoff(get("min_scale", 1.0), get("max_scale", 0x1p14), get("factor", 2.0),
                                              get.whole("growth_interval", 2000));
        }) == 11);
}

TEST_CASE("openseq2seq is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double least = pick(random, {1.0, 0.37, 16.0}), most = pick(random, {0x1p14, 1e4, 0x1p30});
    const double factor = pick(random, {2.0, 1.1, 3.0, 1.5});
    const std::int64_t window = support::pick_interval(random);
    CHECK(support::first_difference(
              presets::openseq2seq_backoff(least, most, factor, window),
              systems::OpenSeq2Seq{static_cast<float>(least), static_cast<float>(most), static_cast<float>(factor), window},
              random) == "");
  }
}

TEST_CASE("openseq2seq: a bad argument is named, with its value") {
  CHECK_THAT(message_of([] { (void)presets::openseq2seq_backoff(4.0, 2.0); }),
             ContainsSubstring("scale_min is 4, above scale_max, which is 2"));
  CHECK_THAT(message_of([] { (void)presets::openseq2seq_backoff(1.0, 0.0); }), ContainsSubstring("scale_max is 0"));
  CHECK_THAT(message_of([] { (void)presets::openseq2seq_backoff(1.0, 2.0, 1.0); }), ContainsSubstring("step_factor is 1"));
}

TEST_CASE("openseq2seq: its variables are a state") {
  support::check_goes_on("openseq2seq_backoff", systems::OpenSeq2Seq{1.0F, 16384.0F, 2.0F, 5},
                         presets::openseq2seq_backoff(1.0, 0x1p14, 2.0, 5), [](const systems::OpenSeq2Seq& system) {
                           return StateDict{{"scale", system.scale},
                                            {"iteration", system.iteration},
                                            {"last_overflow_iteration", system.last_overflow_iteration}};
                         });
  const auto refused = [](int iteration, int last) {
    return message_of([&] {
      const StateDict state = {{"scale", 1.0}, {"iteration", iteration}, {"last_overflow_iteration", last}};
      (void)headroom::import_state("openseq2seq_backoff", state);
    });
  };
  CHECK_THAT(refused(3, 3), ContainsSubstring("last_overflow_iteration is 3; it must be below iteration"));
  CHECK_THAT(refused(3, -2), ContainsSubstring("last_overflow_iteration is -2"));
  CHECK(refused(0, -1) == "");
}
