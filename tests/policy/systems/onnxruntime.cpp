#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/onnxruntime.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using support::message_of;
using support::pick;
namespace presets = headroom::presets;

TEST_CASE("onnxruntime: its recorded sequences are followed") {
  CHECK(support::follow("onnxruntime.trace", [](support::Arguments get) {
          return presets::onnxruntime(get("initial_scale", 65536.0), get.whole("growth_interval", 2000), get("min_scale", 1.0),
                                      get("max_scale", 0x1p24));
        }) == 12);
}

TEST_CASE("onnxruntime is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(pick(random, {1.0, 1.25, 1.1}), static_cast<int>(random() % 30) - 6);
    const double least = pick(random, {1.0, 0.37, 16.0}), most = pick(random, {0x1p24, 5e7, 0x1p30});
    const std::int64_t window = support::pick_interval(random);
    CHECK(support::first_difference(
              presets::onnxruntime(start, window, least, most),
              systems::OnnxRuntime{static_cast<float>(start), window, static_cast<float>(least), static_cast<float>(most)},
              random) == "");
  }
}

TEST_CASE("onnxruntime: a bad argument is named, with its value") {
  CHECK_THAT(message_of([] { (void)presets::onnxruntime(0x1p25); }),
             ContainsSubstring("loss_scale is 33554432, above max_loss"));
  CHECK_THAT(message_of([] { (void)presets::onnxruntime(1.0, 0); }), ContainsSubstring("up_scale_window is 0"));
  CHECK_THAT(message_of([] { (void)presets::onnxruntime(1.0, 1, -1.0); }), ContainsSubstring("min_loss_scale is -1"));
  CHECK_THAT(message_of([] { (void)presets::onnxruntime(1.0, 1, 1.0, 0.0); }), ContainsSubstring("max_loss_scale is 0"));
}

TEST_CASE("onnxruntime: its state is the scale and the stable steps") {
  support::check_goes_on("onnxruntime", systems::OnnxRuntime{65536.0F, 5, 1.0F, 0x1p24F}, presets::onnxruntime(65536.0, 5),
                         [](const systems::OnnxRuntime& system) {
                           return headroom::StateDict{{"loss_scale", system.scale}, {"stable_steps", system.stable_steps}};
                         });
  CHECK_THAT(message_of([] {
               (void)headroom::import_state("onnxruntime", {{"loss_scale", 0x1p25}, {"stable_steps", 0}});
             }),
             ContainsSubstring("loss_scale is 33554432, above max_scale"));
}
