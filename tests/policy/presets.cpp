// The list of systems: each of them is there for everything that goes by the list, and follows its own rule from its own
// defaults.
#include <headroom/policy/make_loss_scale.hpp>
#include <headroom/policy/presets.hpp>

#include <random>
#include <set>
#include <string>

#include "support/catch.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

namespace presets = headroom::presets;
namespace ours = headroom::detail::systems;

namespace {

// What the systems begin with.
static_assert(presets::jmp().loss_scale() == 32768.0F && presets::eformer().loss_scale() == 32768.0F);
static_assert(presets::emily().loss_scale() == 65536.0F && presets::torch().loss_scale() == 65536.0F);
static_assert(presets::megatron().loss_scale() == 0x1p32F && presets::megatron().hysteresis_left() == 2);
static_assert(presets::deepspeed().loss_scale() == 0x1p32F && presets::deepspeed().hysteresis_left() == 1);
static_assert(presets::deepspeed_config().loss_scale() == 65536.0F && presets::deepspeed_config().hysteresis_left() == 2);
static_assert(presets::cerebras_fp16().loss_scale() == 32768.0F);
static_assert(presets::cerebras_cbfloat16().loss_scale() == 0x1p31F);
static_assert(presets::fairseq().loss_scale() == 32768.0F && presets::metaseq().loss_scale() == 4.0F);
static_assert(presets::metaseq().growth().window() == 256.0);

// The rule of each system of the list, in its own arithmetic, with its own defaults. One that is missing here does not compile.
systems::Torch rule(ours::Torch) { return {65536.0F, 2.0, 0.5, 2000}; }
systems::Megatron rule(ours::Megatron) { return {0x1p32F, 1.0F, 2.0F, 0.5F, 1000, 2}; }
systems::Cerebras rule(ours::Cerebras) { return {32768.0F, 2000, 0x1p-14F, 0x1p15F, 0.0F}; }
systems::Cerebras rule(ours::CerebrasFp16) { return rule(ours::Cerebras()); }
systems::Cerebras rule(ours::CerebrasCbfloat16) { return {0x1p31F, 2000, 0x1p-14F, 0x1p31F, 0.0F}; }
systems::Emily rule(ours::Emily) { return {65536.0, 2.0, 0.5, 2000, 1.0}; }
systems::Jmp rule(ours::Jmp) { return {32768.0F, 2000, 2.0F, 1.0F}; }
systems::Jmp rule(ours::Eformer) { return rule(ours::Jmp()); }
systems::DeepSpeed rule(ours::DeepSpeed) { return {0x1p32, 2.0, 1000, 1.0, 1, false}; }
systems::DeepSpeed rule(ours::DeepSpeed016) { return {0x1p32, 2.0, 1000, 1.0, 1, false, false}; }
systems::DeepSpeed rule(ours::DeepSpeedConfig) { return {65536.0, 2.0, 1000, 1.0, 2, false}; }
systems::Apex rule(ours::Apex) { return {65536.0F, 2.0, 0.5, 2000, 2}; }
systems::Fairseq rule(ours::Fairseq) { return {32768.0, 2.0, 2000.0, 0.0, false}; }
systems::Fairseq rule(ours::Metaseq) { return {4.0, 2.0, 256.0, 0.0, true}; }
systems::Flax rule(ours::Flax) { return {65536.0F, 2.0F, 0.5F, 2000, 0x1p-126F}; }

/// The policy beside the rule. What fairseq and metaseq do at their floor is beyond what is compared.
template <class System>
auto policy(System) {
  return System::preset();
}
auto policy(ours::Fairseq) { return presets::fairseq().with_settings({{"min_scale", 0x1p-126}}); }
auto policy(ours::Metaseq) { return presets::metaseq().with_settings({{"min_scale", 0x1p-126}}); }

template <class System>
void check_system(std::mt19937& random) {
  INFO(System::name);
  CHECK(headroom::make_loss_scale(System::name) == headroom::AnyLossScale(System::preset()));
  for (int run = 0; run < 20; ++run) {
    CHECK(support::first_difference(policy(System()), rule(System()), random, false, 200) == "");
    CHECK(support::first_difference(policy(System()), rule(System()), random, false, 20000) == "");
  }
}
template <class... Systems>
void check_each(ours::List<Systems...>) {
  std::mt19937 random(support::seed);
  (check_system<Systems>(random), ...);
  const std::set<std::string> names = {Systems::name...};
  CHECK(names.size() == sizeof...(Systems));
}

}  // namespace

TEST_CASE("every system of the list is followed from its own defaults, and goes by its name") { check_each(ours::All()); }
