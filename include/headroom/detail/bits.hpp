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

/// The value itself, of which the compiler knows nothing any more: a rounding before it stays where it is, also under
/// -ffast-math, and so does a comparison behind it.
template <class Value>
inline Value launder(Value value) noexcept {
#if defined(__x86_64__)
  __asm__ volatile("" : "+x"(value));
#elif defined(__aarch64__)
  __asm__ volatile("" : "+w"(value));
#else
  __asm__ volatile("" : "+m"(value));
#endif
  return value;
}

/// A double rounded to float. Under -ffast-math a cast to float and back is the double itself.
[[nodiscard]] constexpr float rounded_to_float(double value) noexcept {
  return __builtin_is_constant_evaluated() ? static_cast<float>(value) : launder(static_cast<float>(value));
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
