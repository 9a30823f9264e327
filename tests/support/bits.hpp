#pragma once

#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/kernel/compiled.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

// Tests make, store and compare floating-point values as bits. Under -ffast-math the compiler
// assumes that a floating-point variable, argument or return value is neither Inf nor NaN, and
// folds tests of it.

// Under -ffast-math newer versions of clang warn about every function named infinity or quiet_NaN,
// also about those of the 16-bit types, which return integers.
#if defined(__clang__)
#if __has_warning("-Wnan-infinity-disabled")
#pragma clang diagnostic ignored "-Wnan-infinity-disabled"
#endif
#endif

namespace support {

template <class T>
using bits_type = typename headroom::detail::format_of<T>::bits_type;

/// The empty asm hides where the bits come from. Without it, newer versions of clang fold tests of
/// bits if they saw the floating-point value.
template <class T>
bits_type<T> bits_of(const T& value) {
  __asm__ volatile("" : : "r"(&value) : "memory");
  bits_type<T> bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
template <class T>
std::vector<bits_type<T>> bits_of(const std::vector<T>& values) {
  std::vector<bits_type<T>> bits(values.size());
  if (!values.empty()) std::memcpy(bits.data(), values.data(), values.size() * sizeof(T));
  return bits;
}
template <class T>
void set_bits(T& value, bits_type<T> bits) {
  // void*, because g++ warns about memcpy into a class
  std::memcpy(static_cast<void*>(&value), &bits, sizeof bits);
}
inline double with_bits(std::uint64_t bits) {
  double value = 0.0;
  set_bits(value, bits);
  return value;
}
template <class T>
std::vector<T> values_with(const std::vector<bits_type<T>>& bits) {
  std::vector<T> values(bits.size());
  if (!bits.empty())
    std::memcpy(static_cast<void*>(values.data()), bits.data(), bits.size() * sizeof(T));
  return values;
}

template <class Format>
constexpr bool is_nan(typename Format::bits_type bits) {
  return (bits & Format::abs_mask) >= Format::smallest_nan_bits;
}
template <class Format>
constexpr bool is_finite(typename Format::bits_type bits) {
  return (bits & Format::abs_mask) <= Format::largest_finite_bits;
}
/// True for equal bits and for two NaNs, whose payload and quietness may differ.
template <class Format>
constexpr bool same_bits(typename Format::bits_type a, typename Format::bits_type b) {
  return a == b || (is_nan<Format>(a) && is_nan<Format>(b));
}

/// Bits of any format, zero-extended, for functions that are compiled once for all formats.
using AnyBits = std::vector<std::uint64_t>;

template <class T>
AnyBits any_bits_of(const std::vector<T>& values) {
  const auto bits = bits_of(values);
  return AnyBits(bits.begin(), bits.end());
}

/// The part of a format that is needed to compare its bits.
struct Layout {
  std::uint64_t sign_mask, smallest_nan_bits;
  [[nodiscard]] bool is_nan(std::uint64_t bits) const {
    return (bits & ~sign_mask) >= smallest_nan_bits;
  }
  [[nodiscard]] bool same_bits(std::uint64_t a, std::uint64_t b) const {
    return a == b || (is_nan(a) && is_nan(b));
  }
};
template <class Format>
inline constexpr Layout layout_of{Format::sign_mask, Format::smallest_nan_bits};

/// Inf and a quiet NaN with both signs, a signalling NaN, and the NaN of all ones. Only NaNs if the
/// format has no Inf.
template <class Format>
std::vector<typename Format::bits_type> nonfinite_bits() {
  using Bits = typename Format::bits_type;
  const Bits signalling_nan = Format::smallest_nan_bits;
  const Bits all_ones_nan = Format::abs_mask;
  return {Format::overflow_bits,  static_cast<Bits>(Format::sign_mask | Format::overflow_bits),
          Format::quiet_nan_bits, static_cast<Bits>(Format::sign_mask | Format::quiet_nan_bits),
          signalling_nan,         all_ones_nan};
}

inline std::string hex(std::uint64_t bits) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(bits));
  return text;
}

template <class T>
struct type_tag {
  using type = T;
};

/// Calls f(type_tag<T>{}) for each of the types.
template <class... Ts, class F>
void for_each_type(F f) {
  (f(type_tag<Ts>{}), ...);
}
template <class F, class... Formats>
void for_each_storage_float(F f, headroom::detail::FormatList<Formats...>) {
  const auto if_stored = [&f](auto type) {  // neither built-in types nor two elements in a byte
    using Format = typename decltype(type)::type;
    constexpr bool is_stored = sizeof(typename Format::bits_type) < sizeof(float) &&
                               !std::is_same_v<Format, headroom::e2m1>;
    if constexpr (is_stored) f(type_tag<headroom::storage_float<Format>>{});
  };
  for_each_type<Formats...>(if_stored);
}
/// All storage types of headroom: half, bfloat16, …
template <class F>
void for_each_storage_float(F f) {
  for_each_storage_float(f, headroom::detail::CompiledFormats());
}
template <class F>
void for_each_dtype(F f) {
  for_each_type<headroom::half, headroom::bfloat16, float, double>(f);
}

/// Such as "e4m3", but fp16, bf16, fp32 and fp64 by these names.
inline std::string name_of(int exponent_bits, int mantissa_bits) {
  const std::string name =
      "e" + std::to_string(exponent_bits) + "m" + std::to_string(mantissa_bits);
  return name == "e5m10"    ? "fp16"
         : name == "e8m7"   ? "bf16"
         : name == "e8m23"  ? "fp32"
         : name == "e11m52" ? "fp64"
                            : name;
}
template <class T>
std::string name_of() {
  using Format = headroom::detail::format_of<T>;
  return name_of(Format::exponent_bits, Format::mantissa_bits);
}

/// Counts mismatches in a loop in which CHECK would be too slow, and keeps the description of the
/// first one:
///
///     INFO(wrong.first());
///     CHECK(wrong.count() == 0);
class Mismatches {
 public:
  template <class Describe>
  void expect(bool right, Describe describe) {
    if (right) return;
    if (count_ == 0) first_ = describe();
    ++count_;
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::string first() const {
    return count_ < 2 ? first_ : first_ + ", the first of " + std::to_string(count_);
  }

 private:
  std::size_t count_ = 0;
  std::string first_;
};

}  // namespace support
