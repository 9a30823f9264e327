#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/cerebras.hpp>

#include <cmath>
#include <cstdint>
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
using support::pick;
namespace presets = headroom::presets;

TEST_CASE("Cerebras' presets follow its recorded sequences, each of the half dtype's") {
  std::size_t cbfloat16 = 0;
  CHECK(follow("cerebras_dynamic.trace", [&](Arguments get) {
          const bool is_cbfloat16 = get.trace.name.find("cb16") != std::string::npos;
          cbfloat16 += is_cbfloat16 ? 1U : 0U;
          return (is_cbfloat16 ? presets::cerebras_cbfloat16 : presets::cerebras_fp16)(
              get("initial_scale", 0.0), get.whole("growth_interval", 0), get("min_scale", 0.0), get("max_scale", 0.0),
              get("overflow_tolerance", 0.0));
        }) == 56);
  CHECK(cbfloat16 == 2);
}

TEST_CASE("Cerebras is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 16)),
                 tolerance = pick(random, {0.0, 0.05, 0.1, 0.25, 0.5, 1.0});
    const double least = pick(random, {0x1p-14, 0.75, 0.1}), most = pick(random, {0x1p15, 0x1p24, 1e5});
    const std::int64_t interval = support::pick_interval(random);
    CHECK(first_difference(presets::cerebras_fp16(start, interval, least, most, tolerance),
                           systems::Cerebras{static_cast<float>(start), interval, static_cast<float>(least),
                                             static_cast<float>(most), static_cast<float>(tolerance)},
                           random) == "");
  }
}

TEST_CASE("Cerebras' scale can double on a step that overflowed") {
  const auto policy = presets::cerebras_fp16(1024.0, 4, 0.0, 0.0, 0.5);
  const auto before = after(policy, "++++");
  CHECK(before.loss_scale() == 1024.0F);
  CHECK(before.adjust(false).loss_scale() == 2048.0F);
  CHECK(before.adjust(false).counter() == 0);
  CHECK(before.adjust(false).backoff().overflows() == 0);
}

TEST_CASE("Cerebras' 0 means the default, and its limits hold") {
  CHECK(presets::cerebras_fp16(0.0, 0, 0.0, 0.0, 0.0) == presets::cerebras_fp16());
  CHECK(presets::cerebras_fp16() == presets::cerebras_fp16(32768.0, 2000, 0x1p-14, 32768.0));
  CHECK(presets::cerebras_cbfloat16() == presets::cerebras_cbfloat16(0x1p31, 2000, 0x1p-14, 0x1p31));
  CHECK(presets::cerebras_fp16(-0.0, 0, -0.0, -0.0, -0.0) == presets::cerebras_fp16());
  CHECK(presets::cerebras_fp16(0x1p20).loss_scale() == 32768.0F);  // min(max_loss_scale, init_scale)
  CHECK(presets::cerebras_fp16(0x1p-20).loss_scale() == 0x1p-14F);
  CHECK_THAT(message_of([] { (void)presets::cerebras_fp16(0.0, 0, 0x1p-15); }),
             ContainsSubstring("min_loss_scale is 3.05175781e-05; it must be 0 or in [2^-14, 2^126]"));
  CHECK_THAT(message_of([] { (void)presets::cerebras_fp16(0.0, 0, 0.0, 0.0, -0.5); }),
             ContainsSubstring("overflow_tolerance is -0.5"));
}

TEST_CASE("Cerebras' is a dynamic one, or a static one that has nothing but a scale") {
  const StateDict state = {
      {"loss_scale", 1024.0}, {"steps_since_rescale", 7}, {"overflows_since_rescale", 1}, {"num_skipped_steps", 12}};
  const auto policy = import_state("cerebras", state).get<headroom::CerebrasLossScale>();
  CHECK(policy.counter() == 7);
  CHECK(policy.backoff().overflows() == 1);
  CHECK(import_state("cerebras", {{"loss_scale", 1024.0}}) == AnyLossScale(headroom::ConstantLossScale(1024.0F)));
  CHECK_THAT(
      message_of([] {
        (void)import_state("cerebras", {{"loss_scale", 65536.0}, {"steps_since_rescale", 7}, {"overflows_since_rescale", 1}});
      }),
      ContainsSubstring("loss_scale is 65536, above max_scale, which is 32768"));
  check_goes_on("cerebras", systems::Cerebras{1024.0F, 20, 0x1p-14F, 0x1p15F, 0.25F},
                presets::cerebras_fp16(1024.0, 20, 0.0, 0.0, 0.25), [](const systems::Cerebras& system) {
                  return StateDict{{"loss_scale", system.scale},
                                   {"steps_since_rescale", system.steps},
                                   {"overflows_since_rescale", system.overflows}};
                });
}

TEST_CASE("Cerebras' state of before the first update may be below the floor, where that update brings it") {
  const StateDict state = {
      {"loss_scale", 0.25}, {"steps_since_rescale", 0}, {"overflows_since_rescale", 0}, {"num_skipped_steps", 0}};
  const auto settings = presets::cerebras_fp16(0.25, 3, 2.0);
  CHECK(import_state("cerebras", state, settings) == settings);
  for (const char* steps : {"+", "-", "++++", "+++++-"}) {
    systems::Cerebras system{0.25F, 3, 2.0F, 32768.0F, 0.0F};
    for (const char* step = steps; *step != '\0'; ++step) system.update(*step == '-');
    CHECK(after(import_state("cerebras", state, settings), steps).loss_scale() == system.scale);
  }
  StateDict later = state;
  later.set("steps_since_rescale", 1);
  CHECK_THAT(message_of([&] { (void)import_state("cerebras", later, settings); }),
             ContainsSubstring("loss_scale is 0.25; it must be at least the min_scale, 2"));
}

TEST_CASE("Cerebras: what a state cannot have is named") {
  const auto refused_by_cerebras = [&](double scale, int overflows) {
    return message_of([&] {
      (void)import_state("cerebras",
                         {{"loss_scale", scale}, {"steps_since_rescale", 7}, {"overflows_since_rescale", overflows}});
    });
  };
  CHECK(refused_by_cerebras(0x1p-14, 7).empty());
  CHECK_THAT(refused_by_cerebras(0x1p-15, 1),
             ContainsSubstring("loss_scale is 3.05175781e-05; it must be at least the min_scale"));
  CHECK_THAT(refused_by_cerebras(1.0, 8), ContainsSubstring("overflows_since_rescale is 8; it must be in [0, 7]"));
}
