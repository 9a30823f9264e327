// The list of systems: each of them is there for everything that goes by the list, and follows its own rule from its own
// defaults.
#include <headroom/policy/make_loss_scale.hpp>
#include <headroom/policy/presets.hpp>

#include <random>
#include <set>
#include <string>

#include "support/catch.hpp"
#include "support/follow.hpp"
#include "support/samples.hpp"
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

/// The policy beside the rule. What fairseq and metaseq do at their floor is beyond what is compared.
template <class System>
auto policy(System) {
  return System::preset();
}
auto policy(ours::Fairseq) { return presets::fairseq().with_settings({{"min_scale", 0x1p-126}}); }
auto policy(ours::Metaseq) { return presets::metaseq().with_settings({{"min_scale", 0x1p-126}}); }

using systems::rule;  // of each system of the list: where one is missing, this does not compile

template <class System>
void check_system(std::mt19937& random) {
  INFO(System::name);
  CHECK(headroom::make_loss_scale(System::name) == headroom::AnyLossScale(System::preset()));
  for (int run = 0; run < support::cases(20); ++run) {
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
