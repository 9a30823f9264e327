// Both units give the right bits and the right flag, with an Inf or a NaN at each place of spans up to several registers long.
#include <cstdio>

#include "unit.hpp"

namespace {

constexpr std::uint16_t half_one = 0x3C00, half_infinity = 0x7C00, half_nan = 0x7E00;
constexpr std::uint32_t one_over_1024 = 0x3A800000, float_infinity = 0x7F800000;

bool is_nan(std::uint32_t bits) { return (bits & 0x7FFFFFFFu) > float_infinity; }

// `planted` stands at `place`, or nowhere where place == size; everything else is 1.
bool right(Outcome (*unscale)(const std::vector<std::uint16_t>&), std::size_t size, std::size_t place, std::uint16_t planted) {
  std::vector<std::uint16_t> gradients(size, half_one);
  if (place < size) gradients[place] = planted;
  const Outcome outcome = unscale(gradients);
  if (outcome.finite != (place == size) || outcome.bits.size() != size) return false;
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t bits = outcome.bits[i];
    const bool as_expected = i != place ? bits == one_over_1024 : planted == half_nan ? is_nan(bits) : bits == float_infinity;
    if (!as_expected) return false;
  }
  return true;
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx2")) return 77;  // fast.cpp cannot run here: skipped
  int failed = 0, passed = 0;
  for (std::size_t size = 0; size <= 40; ++size) {
    for (std::size_t place = 0; place <= size; ++place) {
      for (const std::uint16_t planted : {half_infinity, half_nan}) {
        for (const auto unscale : {plain_unscale, fast_unscale}) {
          const bool ok = right(unscale, size, place, planted);
          ++(ok ? passed : failed);
          if (!ok)
            std::printf("%s: size %zu, place %zu, %#x\n", unscale == plain_unscale ? "plain" : "fast", size, place, planted);
        }
      }
    }
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
