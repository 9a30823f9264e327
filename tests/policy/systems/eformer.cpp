#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/eformer.hpp>

#include "support/catch.hpp"

using headroom::import_state;
using headroom::StateDict;
namespace presets = headroom::presets;

TEST_CASE("eformer's scale is jmp's") {
  static_assert(presets::eformer() == presets::jmp());
  static_assert(presets::eformer(1024.0, 5, 3.0, 0.5) == presets::jmp(1024.0, 5, 3.0, 0.5));
  static_assert(presets::eformer(0x1p125, 1, 10.0).adjust(true).counter() == 0);
  SUCCEED("checked by the compiler");
}

TEST_CASE("eformer: and so is its state") {
  const StateDict state = {{"loss_scale", 1024.0}, {"counter", 3}, {"period", 5}, {"factor", 3}, {"min_loss_scale", 0.0}};
  CHECK(import_state("eformer", state) == import_state("jmp", state));
}
