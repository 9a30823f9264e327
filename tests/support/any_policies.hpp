#pragma once

#include <headroom/policy/any.hpp>

#include <cstdint>
#include <random>
#include <vector>

#include "support/policies.hpp"

namespace support {

/// One of each kind of policy, every setting away from its default and every counter soon away from 0.
inline std::vector<headroom::AnyLossScale> every_policy() {
  using namespace headroom;
  LossScaleConfig scale;
  scale.initial_scale = 1000.0F;
  scale.growth_interval = 5;
  scale.growth_factor = 1.7;
  scale.backoff_factor = 0.3;
  scale.min_scale = 0.0123F;
  scale.max_scale = 12345.678F;
  const HysteresisConfig hysteresis{scale, 3};
  const DelayedShiftConfig shift{scale, 3, true};
  const ToleranceConfig tolerance{scale, 0.1};
  return {NoOpLossScale(),
          ConstantLossScale(0.1F),
          DynamicLossScale(scale),
          HysteresisScale(hysteresis),
          BasicHysteresisScale<RefillOnGrowth>(hysteresis),
          BasicHysteresisScale<RefillOnBackoff>(hysteresis),
          DeepSpeedLossScale(shift),
          DelayedShiftLossScale(shift),
          CerebrasLossScale(tolerance),
          FairseqLossScale(tolerance),
          MetaseqLossScale(tolerance)};
}

}  // namespace support
