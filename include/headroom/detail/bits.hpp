#pragma once

#include <headroom/config.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

// What C++17 lacks, by builtins of the compiler, or by what replaces them in MSVC.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// std::bit_cast, which C++17 does not have.
template <class To, class From>
[[nodiscard]] HEADROOM_DETAIL_HD constexpr To bit_cast(const From& source) noexcept {
  return __builtin_bit_cast(To, source);
}

template <class, template <class...> class Op, class... Args>
struct detector : std::false_type {};
template <template <class...> class Op, class... Args>
struct detector<std::void_t<Op<Args...>>, Op, Args...> : std::true_type {};

/// True if the alias template `Op<Args...>` names a type, as in std::experimental::is_detected.
template <template <class...> class Op, class... Args>
inline constexpr bool is_detected_v = detector<void, Op, Args...>::value;

/// Returns `value`. The compiler keeps a rounding before this call and a comparison after it, even under -ffast-math.
template <class Value>
HEADROOM_DETAIL_HD inline Value hide_from_optimizer(Value value) noexcept {
#if HEADROOM_DETAIL_IS_GNU && defined(__x86_64__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  __asm__ volatile("" : "+x"(value));
#elif HEADROOM_DETAIL_IS_GNU && defined(__aarch64__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  __asm__ volatile("" : "+w"(value));
#else
  const volatile Value in_memory = value;  // which holds values of any type
  value = in_memory;
#endif
  return value;
}

/// Rounds to float. Under -ffast-math the compiler may drop a plain cast to float and back.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr float rounded_to_float(double value) noexcept {
  return __builtin_is_constant_evaluated() ? static_cast<float>(value) : hide_from_optimizer(static_cast<float>(value));
}

// std::max and std::min for device code.
template <class T>
[[nodiscard]] HEADROOM_DETAIL_HD constexpr T larger_of(T a, T b) noexcept {
  return a > b ? a : b;
}
template <class T>
[[nodiscard]] HEADROOM_DETAIL_HD constexpr T smaller_of(T a, T b) noexcept {
  return a < b ? a : b;
}

inline constexpr std::size_t cache_line = 64;  // bytes, as most CPUs have it

#if HEADROOM_DETAIL_IS_GNU
/// Prefetches the cache line `bytes_ahead` bytes after `from`. The address may be beyond the array, so it is an integer.
inline void prefetch(const unsigned char* from, std::size_t bytes_ahead) noexcept {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(from) + bytes_ahead));  // NOLINT
}
/// The index of the highest set bit of `value`, which is not 0.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr int highest_bit(std::uint64_t value) noexcept { return 63 - __builtin_clzll(value); }
/// std::sqrt without <cmath>, which takes long to compile.
[[nodiscard]] HEADROOM_DETAIL_HD inline double square_root(double value) noexcept { return __builtin_sqrt(value); }
#else
inline void prefetch(const unsigned char*, std::size_t) noexcept {}
[[nodiscard]] HEADROOM_DETAIL_HD constexpr int highest_bit(std::uint64_t value) noexcept {
  return value < 2 ? 0 : 1 + highest_bit(value / 2);
}
[[nodiscard]] inline double square_root(double value) noexcept { return std::sqrt(value); }
#endif

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
