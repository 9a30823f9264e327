// Included by two files that are compiled with different flags; UNIT names the function.
#include <headroom/headroom.hpp>

#include <cstring>

#include "unit.hpp"

Outcome UNIT(const std::vector<std::uint16_t>& half_bits) {
  std::vector<headroom::half> gradients;
  for (const std::uint16_t bits : half_bits) gradients.push_back(headroom::half::from_bits(bits));

  headroom::LossScaleConfig config;
  config.initial_scale = 1024.0f;
  const auto [unscaled, report] = headroom::DynamicLossScale(config).unscale<float>(gradients);

  Outcome outcome{report.finite, std::vector<std::uint32_t>(unscaled.size())};
  if (!unscaled.empty()) std::memcpy(outcome.bits.data(), unscaled.data(), unscaled.size() * sizeof(float));
  return outcome;
}
