#pragma once

#include <headroom/policy/dynamic.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include "support/bits.hpp"
#include "support/samples.hpp"

namespace support {

/// The policy after some steps: '+' is a step of finite gradients, '-' an overflow.
template <class Policy>
constexpr Policy after(Policy policy, const char* steps) {
  for (; *steps != '\0'; ++steps) policy = policy.adjust(*steps == '+');
  return policy;
}

/// Whether `scale` is in [low, high], compared as bits. `low` and `high` are positive normal
/// floats.
inline bool is_within(const float& scale, const float& low, const float& high) {
  const auto bits = bits_of(scale);
  return bits >= bits_of(low) && bits <= bits_of(high);
}

/// Random settings within their ranges, often at the bounds.
inline headroom::LossScaleConfig random_config(std::mt19937& random) {
  const auto power = [&random](int low, int high) {
    return std::ldexp(1.0F,
                      low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  };
  const double growth_factors[] = {1.0, 1.001, 1.5, 2.0, 3.0, 1e10, 1e300, 0x1.fffffffffffffp1023};
  const double backoff_factors[] = {
      0x1.fffffffffffffp-1, 0.999, 0.5, 0.3, 1e-10, 1e-45, 1e-300, 0x1p-1022};
  headroom::LossScaleConfig config;
  config.min_scale = power(-126, 0);
  config.max_scale = power(1, 126);
  const float initial_scales[] = {1.0F, config.min_scale, config.max_scale,
                                  headroom::smallest_loss_scale};
  config.initial_scale = initial_scales[random() % 4];
  config.growth_interval = 1 + random() % (random() % 2 == 0 ? 4 : 40);
  config.growth_factor = growth_factors[random() % 8];
  config.backoff_factor = backoff_factors[random() % 8];
  return config;
}

}  // namespace support
