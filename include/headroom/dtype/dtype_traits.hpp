#pragma once

#include <headroom/dtype/format.hpp>
#include <headroom/dtype/storage_float.hpp>

#include <type_traits>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The bit format of a C++ type. Specialise it to make a type of your own an element type of headroom:
///
///     template <> struct headroom::dtype_traits<my_half> { using format = headroom::binary16; };
///
/// The type must be trivially copyable and as large as the format's bits. The format must be binary64 or fit into float.
template <class T, class = void>
struct dtype_traits {};

/// Stands for the dtype of a verb, as in `unscale<To>`: each leaf keeps its own. It is the default.
struct same_dtype {};

namespace detail {

template <class Format>
struct has_format {
  using format = Format;
};
template <class T, class = void>
struct is_dtype : std::false_type {};
template <class T>
struct is_dtype<T, std::void_t<typename dtype_traits<T>::format>> : std::true_type {
  using format = typename dtype_traits<T>::format;
  static_assert(
      std::is_trivially_copyable_v<T> && sizeof(T) == sizeof(typename format::bits_type),
      "headroom: dtype_traits<T>::format does not fit T: T must be trivially copyable and as large as the format's bits");
  static_assert(fits_float<format>() || std::is_same_v<format, binary64>,
                "headroom: dtype_traits<T>::format has too many digits, or too large or too small numbers, for float, and is "
                "not binary64");
};

}  // namespace detail

template <>
struct dtype_traits<float> : detail::has_format<binary32> {};
template <>
struct dtype_traits<double> : detail::has_format<binary64> {};
template <class Format>
struct dtype_traits<storage_float<Format>> : detail::has_format<Format> {};
#if HEADROOM_DETAIL_HAS_FLOAT16
template <>
struct dtype_traits<_Float16> : detail::has_format<binary16> {};
#endif
#if HEADROOM_DETAIL_HAS_BF16
template <>
struct dtype_traits<__bf16> : detail::has_format<brain16> {};
#endif

/// True for a floating-point element type that headroom knows; false for long double and integers.
template <class T>
inline constexpr bool is_dtype_v = detail::is_dtype<std::remove_cv_t<T>>::value;

namespace detail {

template <class T>
using format_of = typename dtype_traits<std::remove_cv_t<T>>::format;

/// Converts an element of up to 32 bits to float. The result is exact.
template <class T>
[[nodiscard]] constexpr float to_float(const T& value) noexcept {
  using Format = format_of<T>;
  return detail::bit_cast<float>(convert_bits<Format, binary32>(detail::bit_cast<typename Format::bits_type>(value)));
}

}  // namespace detail

HEADROOM_DETAIL_END_NAMESPACE
