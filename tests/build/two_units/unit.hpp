#pragma once

#include <cstdint>
#include <vector>

// What one translation unit got for some gradients, as bits, so that no flag of the reader changes what they mean.
struct Outcome {
  bool finite;
  std::vector<std::uint32_t> bits;
};

Outcome plain_unscale(const std::vector<std::uint16_t>& half_bits);
Outcome fast_unscale(const std::vector<std::uint16_t>& half_bits);
