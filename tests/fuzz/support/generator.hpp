#pragma once

#include <cstddef>
#include <cstdint>

// In place of tests/support/generator.hpp: the numbers are the bytes of an input.

namespace support {

inline const std::uint8_t *next_byte = nullptr, *end_of_bytes = nullptr;

inline void set_bytes(const std::uint8_t* data, std::size_t size) {
  next_byte = data;
  end_of_bytes = data + size;
}
/// Of as many bytes as n needs. After the last byte it is n - 1, so that one_in is false.
inline std::size_t below(std::size_t n) {
  std::size_t number = 0;
  for (std::size_t rest = n - 1; rest > 0; rest >>= 8) {
    if (next_byte == end_of_bytes) return n - 1;
    number = number << 8 | *next_byte++;
  }
  return number % n;
}
inline bool one_in(std::size_t n) { return below(n) == 0; }
/// Any bits.
template <class Bits>
Bits any_bits() {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof(Bits); ++i) bits = bits << 8 | below(256);
  return static_cast<Bits>(bits);
}

}  // namespace support
