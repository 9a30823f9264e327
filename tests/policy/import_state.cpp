#include <headroom/policy/import_state.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <variant>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/policies.hpp"
#include "support/samples.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AnyLossScale;
using headroom::import_state;
using headroom::StateDict;
using support::after;
using support::message_of;
namespace presets = headroom::presets;

namespace {

const StateDict torch_state = {
    {"scale", 1024.0}, {"growth_factor", 3.0}, {"backoff_factor", 0.25}, {"growth_interval", 5}, {"_growth_tracker", 3}};

/// Takes both on by the same steps, and the state of one into the other at each of them.
template <class System, class Policy, class StateOf>
void check_goes_on(const char* name, System system, Policy settings, StateOf state_of) {
  std::mt19937 random(support::seed);
  for (int step = 0; step < 200; ++step) {
    system.update(random() % 4 == 0);
    auto imported = import_state(name, state_of(system), settings);
    System copy = system;
    for (int more = 0; more < 40; ++more) {
      REQUIRE(static_cast<double>(imported.loss_scale()) == static_cast<double>(copy.scale));
      const bool found_inf = random() % 4 == 0;
      copy.update(found_inf);
      imported = imported.adjust(!found_inf);
    }
  }
}

}  // namespace

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

TEST_CASE("Megatron's has no settings: they are the preset's, or the policy's that is given") {
  const StateDict state = {{"scale", 1024.0}, {"growth_tracker", 7}, {"hysteresis_tracker", -3}};
  const auto policy = import_state("megatron", state).get<headroom::BasicHysteresisScale<headroom::RefillOnGrowth>>();
  CHECK(policy.config() == presets::megatron().config());
  CHECK(policy.counter() == 7);
  CHECK(policy.hysteresis_left() == 0);
  CHECK(import_state("megatron", state, presets::megatron(0x1p20, 1.0, 2.0, 0.5, 10, 5)).config().hysteresis == 5);
  check_goes_on("megatron", systems::Megatron{65536.0F, 1.0F, 2.0F, 0.5F, 5, 3},
                presets::megatron(65536.0, 1.0, 2.0, 0.5, 5, 3), [](const systems::Megatron& system) {
                  return StateDict{{"scale", system.scale},
                                   {"growth_tracker", system.growth_tracker},
                                   {"hysteresis_tracker", system.hysteresis_tracker}};
                });
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

TEST_CASE("Emily's is complete") {
  check_goes_on("emily", systems::Emily{1024.0, 2.0, 0.5, 5, 4.0}, AnyLossScale(presets::emily()),
                [](const systems::Emily& system) {
                  return StateDict{{"scale", system.scale},
                                   {"counter", system.counter},
                                   {"growth_factor", system.growth_factor},
                                   {"backoff_factor", system.backoff_factor},
                                   {"growth_interval", system.growth_interval},
                                   {"min_scale", system.min_scale}};
                });
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

TEST_CASE("errors name the system's own key and the value") {
  const auto refused = [](const std::string& key, const headroom::StateValue& value) {
    StateDict state = torch_state;
    state.set(key, value);
    return message_of([&] { (void)import_state("torch", state); });
  };
  double infinity = 0.0;
  support::set_bits(infinity, headroom::binary64::infinity_bits);
  CHECK_THAT(refused("scale", 0.0), ContainsSubstring("scale is 0; it must be in [2^-126, 2^126]"));
  CHECK_THAT(refused("scale", infinity), ContainsSubstring("scale is inf"));
  CHECK_THAT(refused("scale", "big"), ContainsSubstring("scale is 'big'; it must be a number"));
  CHECK_THAT(refused("growth_factor", 1.0), ContainsSubstring("growth_factor is 1"));
  CHECK_THAT(refused("growth_interval", 0), ContainsSubstring("growth_interval is 0"));
  CHECK_THAT(refused("_growth_tracker", -1), ContainsSubstring("_growth_tracker is -1"));
  CHECK_THAT(refused("_growth_tracker", 1.0),
             ContainsSubstring("_growth_tracker is 1 as a real number; it must be a whole number"));
  CHECK_THAT(refused("colour", 1), ContainsSubstring("the key 'colour' is unknown; its value is 1"));
  StateDict missing = torch_state;
  CHECK(missing.erase("_growth_tracker"));
  CHECK_THAT(message_of([&] { (void)import_state("torch", missing); }),
             ContainsSubstring("the key '_growth_tracker' is missing"));
  CHECK_THAT(message_of([] { (void)import_state("torch", {}); }), ContainsSubstring("the key 'scale' is missing"));
  CHECK_THAT(message_of([] { (void)import_state("pytorch", torch_state); }),
             ContainsSubstring(
                 "no state of 'pytorch' can be imported; known are torch, megatron, cerebras, emily, jmp, eformer, deepspeed"));
  const StateDict jmp = {{"loss_scale", 1024.0}, {"counter", 3}, {"period", 5}, {"factor", 1}};
  CHECK_THAT(message_of([&] { (void)import_state("jmp", jmp); }), ContainsSubstring("factor is 1; it must be above 1"));
  CHECK_THAT(message_of([&] {
               (void)import_state("megatron", {{"scale", 1024.0}, {"growth_tracker", 7}, {"hysteresis_tracker", 9}});
             }),
             ContainsSubstring("hysteresis_tracker is 9; it must be in [-4611686018427387904, 2]"));
  const StateDict deepspeed = {{"cur_scale", 2.0}, {"cur_iter", 5}, {"last_overflow_iter", 2}};
  const auto refused_by_deepspeed = [&](const std::string& key, const headroom::StateValue& value) {
    StateDict state = deepspeed;
    state.set(key, value);
    return message_of([&] { (void)import_state("deepspeed", state); });
  };
  CHECK(refused_by_deepspeed("dtype", "torch.float16").empty());
  CHECK_THAT(refused_by_deepspeed("scale_factor", 1.0), ContainsSubstring("scale_factor is 1; it must be above 1"));
  CHECK_THAT(refused_by_deepspeed("cur_hysteresis", 2), ContainsSubstring("cur_hysteresis is 2; it must be in [1, 1]"));
  CHECK_THAT(refused_by_deepspeed("delayed_shift", 0), ContainsSubstring("delayed_shift is 0; it must be in [1, 2147483647]"));
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

TEST_CASE("a floor above where the preset begins is none too high for the state") {
  CHECK(import_state("emily", {{"scale", 0x1p21},
                               {"counter", 3},
                               {"growth_factor", 2.0},
                               {"backoff_factor", 0.5},
                               {"growth_interval", 2000},
                               {"min_scale", 0x1p20}})
            .adjust(false)
            .adjust(false)
            .loss_scale() == 0x1p20F);
  const StateDict jmp = {{"loss_scale", 0x1p21}, {"counter", 3}, {"period", 5}, {"factor", 2}, {"min_loss_scale", 0x1p20}};
  CHECK(import_state("jmp", jmp).loss_scale() == 0x1p21F);
  CHECK(import_state("deepspeed", {{"cur_scale", 0x1p34}, {"cur_iter", 3}, {"last_overflow_iter", -1}, {"min_scale", 0x1p33}})
            .loss_scale() == 0x1p34F);
}

TEST_CASE("jmp's factor is a float, DeepSpeed's a double") {
  const auto jmp = import_state("jmp", {{"loss_scale", 1024.0}, {"counter", 3}, {"period", 5}, {"factor", 1.1}});
  CHECK(jmp.get<headroom::DynamicLossScale>().config().growth_factor == static_cast<double>(1.1F));
  CHECK(jmp.get<headroom::DynamicLossScale>().config() == presets::jmp(32768.0, 5, 1.1).config());
  const auto deepspeed =
      import_state("deepspeed", {{"cur_scale", 2.0}, {"cur_iter", 5}, {"last_overflow_iter", 2}, {"scale_factor", 1.1}});
  CHECK(deepspeed.get<headroom::DeepSpeedLossScale>().config().scale.growth_factor == 1.1);
  CHECK_THAT(message_of([&] {
               (void)import_state("jmp", {{"loss_scale", 1024.0}, {"counter", 3}, {"period", 5}, {"factor", 1.00000000001}});
             }),
             ContainsSubstring("factor is 1.00000000001; it must be above 1 as a float"));
}

TEST_CASE("settings of another kind of policy are refused") {
  CHECK_THAT(
      message_of([] {
        (void)import_state("megatron", {{"scale", 1024.0}, {"growth_tracker", 7}, {"hysteresis_tracker", 1}}, presets::torch());
      }),
      ContainsSubstring("the key 'hysteresis_left' is unknown"));
}
