#pragma once

#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>

#include <cmath>
#include <cstdint>
#include <random>

#include "support/bits.hpp"
#include "support/golden.hpp"
#include "support/samples.hpp"

namespace support {

/// The policy after some steps: '+' is a step of finite gradients, '-' an overflow.
template <class Policy>
constexpr Policy after(Policy policy, const char* steps) {
  for (; *steps != '\0'; ++steps) policy = policy.adjust(*steps == '+');
  return policy;
}

/// `config` with the settings that a trace names. `factor` is jmp's: growth multiplies by it and backoff divides by it.
inline headroom::LossScaleConfig config_of(const Trace& trace, headroom::LossScaleConfig config) {
  config.initial_scale = static_cast<float>(trace.config_or("initial_scale", static_cast<double>(config.initial_scale)));
  config.growth_interval =
      static_cast<std::int64_t>(trace.config_or("growth_interval", static_cast<double>(config.growth_interval)));
  config.growth_factor = trace.config_or("factor", trace.config_or("growth_factor", config.growth_factor));
  config.backoff_factor = trace.config.count("factor") != 0 ? 1.0 / trace.config.at("factor")
                                                            : trace.config_or("backoff_factor", config.backoff_factor);
  const auto min_scale = static_cast<float>(trace.config_or("min_scale", static_cast<double>(config.min_scale)));
  config.min_scale = min_scale < headroom::smallest_loss_scale ? headroom::smallest_loss_scale : min_scale;
  return config;
}
inline headroom::HysteresisConfig config_of(const Trace& trace, headroom::HysteresisConfig config) {
  config.scale = config_of(trace, config.scale);
  config.hysteresis = static_cast<std::int32_t>(trace.config_or("hysteresis", config.hysteresis));
  return config;
}

/// Whether `scale` is in [low, high], compared as bits. `low` and `high` are positive normal floats.
inline bool is_within(const float& scale, const float& low, const float& high) {
  const auto bits = bits_of(scale);
  return bits >= bits_of(low) && bits <= bits_of(high);
}

/// Random settings within their ranges, often at the bounds.
inline headroom::LossScaleConfig random_config(std::mt19937& random) {
  const auto power = [&random](int low, int high) {
    return std::ldexp(1.0F, low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)));
  };
  const double growth_factors[] = {0x1.0000000000001p0, 1.001, 1.5, 2.0, 3.0, 1e10, 1e300, 0x1.fffffffffffffp1023};
  const double backoff_factors[] = {0x1.fffffffffffffp-1, 0.999, 0.5, 0.3, 1e-10, 1e-45, 1e-300, 0x1p-1022};
  headroom::LossScaleConfig config;
  config.min_scale = power(-126, 0);
  config.max_scale = power(1, 126);
  const bool at_bound = random() % 4 == 0;
  config.initial_scale = at_bound ? (random() % 2 == 0 ? config.min_scale : config.max_scale) : 1.0F;
  config.growth_interval = 1 + random() % 4;
  config.growth_factor = growth_factors[random() % 8];
  config.backoff_factor = backoff_factors[random() % 8];
  config.refuse_infinite_growth = random() % 2 == 0;
  return config;
}

}  // namespace support
