#include <headroom/policy/hysteresis.hpp>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/policies.hpp"

using headroom::DeepSpeedLossScale;
using support::after;

namespace {

constexpr DeepSpeedLossScale policy(std::int32_t delayed_shift, bool consecutive_hysteresis) {
  return DeepSpeedLossScale({headroom::LossScaleConfig{1024.0F, 3}, delayed_shift, consecutive_hysteresis});
}

}  // namespace

TEST_CASE("DeepSpeed's hysteresis stays at 1, and is refilled by growth or by clean steps") {
  static_assert(after(policy(1, false), "--").loss_scale() == 256.0F);
  static_assert(after(policy(3, false), "--").loss_scale() == 1024.0F);
  static_assert(after(policy(3, false), "----").loss_scale() == 256.0F);
  static_assert(after(policy(3, false), "----").hysteresis_left() == 1);
  static_assert(after(policy(3, false), "--+-").loss_scale() == 512.0F);    // a clean step does not refill it
  static_assert(after(policy(3, true), "--+-").loss_scale() == 1024.0F);    // unless consecutive_hysteresis is set
  static_assert(after(policy(3, false), "--++++").hysteresis_left() == 3);  // growth refills it
  SUCCEED("checked by the compiler");
}

TEST_CASE("DeepSpeed: a smaller delayed_shift lowers the hysteresis left; it is at least 1") {
  CHECK(policy(5, false).with_config({headroom::LossScaleConfig{}, 2, false}).hysteresis_left() == 2);
  CHECK(support::message_of([] { (void)policy(0, false); }) == "headroom: delayed_shift is 0; it must be at least 1");
}
