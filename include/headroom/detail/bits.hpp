#pragma once

#include <headroom/config.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// std::bit_cast, which C++17 does not have.
template <class To, class From>
[[nodiscard]] constexpr To bit_cast(const From& source) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, source);
}

/// The value itself, about which the compiler no longer knows anything: a rounding before this call and a comparison after it
/// stay where they are, even under -ffast-math.
template <class Value>
inline Value launder(Value value) noexcept {
#if defined(__x86_64__)
  __asm__ volatile("" : "+x"(value));
#elif defined(__aarch64__)
  __asm__ volatile("" : "+w"(value));
#elif defined(__VSX__)
  __asm__ volatile("" : "+wa"(value));
#elif defined(__riscv_flen) && __riscv_flen >= 64 && !defined(__riscv_vector)
  __asm__ volatile("" : "+f"(value));
#else
  __asm__ volatile("" : "+m"(value));
#endif
  return value;
}

/// A double rounded to float. Under -ffast-math the compiler may drop a cast to float and back.
[[nodiscard]] constexpr float rounded_to_float(double value) noexcept {
  return __builtin_is_constant_evaluated() ? static_cast<float>(value) : launder(static_cast<float>(value));
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
