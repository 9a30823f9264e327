#pragma once

#include <cstddef>
#include <random>

#include "support/samples.hpp"

// The random numbers of tests that libFuzzer can run, too. Then tests/fuzz/support/generator.hpp
// takes the place of this header.

namespace support {

inline std::mt19937_64 generator(seed);
inline std::size_t below(std::size_t n) { return generator() % n; }
inline bool one_in(std::size_t n) { return below(n) == 0; }

}  // namespace support
