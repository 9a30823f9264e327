#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/kernel/table.hpp>
#include <headroom/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

/// The kernels on pointers, for callers that have checked their arguments already: kernel.hpp and ops/.
namespace headroom {
inline namespace HEADROOM_BUILD {
namespace kernel::unchecked {

template <class Format>
inline GradientReport report_of(typename Format::bits_type largest) noexcept {
  // Chosen as integers: an Inf chosen as a floating-point value may be assumed away under -ffast-math.
  const bool finite = largest <= Format::largest_finite_bits;
  std::uint64_t bits = binary64::infinity_bits;
  if (finite) bits = headroom::detail::convert_bits<Format, binary64>(largest);
  return {finite, headroom::detail::bit_cast<double>(bits)};
}

/// In place there is nothing to be gained from streaming.
template <class In, class Out>
inline Stores unless_in_place(const In* source, const Out* destination, Stores stores) noexcept {
  return static_cast<const void*>(source) == static_cast<const void*>(destination) ? Stores::ordinary : stores;
}

/// destination = source * factor
template <class In, class Out>
inline GradientReport multiply(const In* source, Out* destination, std::size_t n, double factor,
                               Stores stores = Stores::ordinary) {
  stores = unless_in_place(source, destination, stores);
  const auto& kernels = transform_kernels<format_of<In>, format_of<Out>>(stores);
  return report_of<format_of<Out>>(kernels.multiply(source, destination, n, factor));
}
/// destination = source / divisor, correctly rounded
template <class In, class Out>
inline GradientReport divide(const In* source, Out* destination, std::size_t n, double divisor,
                             Stores stores = Stores::ordinary) {
  stores = unless_in_place(source, destination, stores);
  const auto& kernels = transform_kernels<format_of<In>, format_of<Out>>(stores);
  return report_of<format_of<Out>>(kernels.divide(source, destination, n, divisor));
}
/// What unscaling by a scale is: multiplication by the exact reciprocal of a power of two, else division.
struct Unscaling {
  double factor;
  bool divides;
};
[[nodiscard]] inline Unscaling unscaling_by(float loss_scale) noexcept {
  const auto scale = static_cast<double>(loss_scale);
  const bool divides = !headroom::detail::is_power_of_two(loss_scale);
  return {divides ? scale : 1.0 / scale, divides};
}
template <class In, class Out>
inline GradientReport unscale(const In* source, Out* destination, std::size_t n, const Unscaling& by,
                              Stores stores = Stores::ordinary) {
  return by.divides ? divide(source, destination, n, by.factor, stores) : multiply(source, destination, n, by.factor, stores);
}
/// destination = source
template <class In, class Out>
inline void convert(const In* source, Out* destination, std::size_t n, Stores stores = Stores::ordinary) {
  stores = unless_in_place(source, destination, stores);
  (void)transform_kernels<format_of<In>, format_of<Out>>(stores).convert(source, destination, n, 1.0);
}
template <class In>
inline GradientReport max_abs(const In* elements, std::size_t n) {
  return report_of<format_of<In>>(read_kernels<format_of<In>>().max_abs_bits(elements, n));
}

struct Measured {
  GradientReport report;
  double sum_of_squares;  ///< of no meaning where the report is not finite
};
template <class In>
inline Measured measure(const In* elements, std::size_t n) {
  using Format = format_of<In>;
  typename Format::bits_type largest = 0;
  double sum = 0.0;
  for (std::size_t begin = 0; begin < n; begin += headroom::detail::piece_size) {
    const std::size_t count = std::min(headroom::detail::piece_size, n - begin);
    const auto piece = read_kernels<Format>().measure_bits(elements + begin, count);
    largest = std::max(largest, piece.largest);
    sum = headroom::detail::launder(sum + piece.sum_of_squares);
  }
  return {report_of<Format>(largest), sum};
}

// ---- norms of doubles whose squares are no doubles ----

/// 2^exponent, a normal number.
[[nodiscard]] inline double power_of_two(int exponent) noexcept {
  return headroom::detail::bit_cast<double>(static_cast<std::uint64_t>(exponent + binary64::bias) << binary64::mantissa_bits);
}
/// Elements are divided by 2 to the power of this before they are squared: by 1, but for doubles so large or so small that
/// their squares would be none. The squares of all floats are normal doubles.
[[nodiscard]] inline int exponent_of_squared(const GradientReport& report) noexcept {
  const auto bits = headroom::detail::bit_cast<std::uint64_t>(report.max_abs);
  const int exponent = static_cast<int>(bits >> binary64::mantissa_bits) - binary64::bias;
  if (!report.finite || bits == 0 || (exponent >= -480 && exponent < 480)) return 0;
  return std::clamp(exponent, -1000, 1000);  // a power that flush-to-zero leaves alone, and so its reciprocal
}
/// As `measure`, of elements divided by 2^exponent. Rounded where each number is, so that no flag changes the sum.
template <class In>
[[gnu::cold, gnu::noinline]] inline double sum_of_squares(const In* elements, std::size_t n, int exponent) noexcept {
  const auto* source = reinterpret_cast<const unsigned char*>(elements);
  const double factor = power_of_two(-exponent);
  double total = 0.0;
  for (std::size_t begin = 0; begin < n; begin += headroom::detail::piece_size) {
    scalar::f64x1 sum{0.0};
    for (std::size_t i = begin; i < std::min(begin + headroom::detail::piece_size, n); ++i) {
      const auto bits = scalar::load<1>(format_of<In>{}, source + i * sizeof(In));
      const double value = scalar::widen<double>(format_of<In>{}, bits);
      scalar::add_squares(sum, {headroom::detail::launder(value * factor)});
    }
    total = headroom::detail::launder(total + sum.lane0);
  }
  return total;
}

/// A norm as root * 2^exponent: that of doubles may be beyond all doubles.
struct WideNorm {
  GradientReport report;
  double root;  ///< of no meaning where the report is not finite
  int exponent;
};
[[nodiscard]] inline WideNorm norm_of(const GradientReport& report, double sum_of_squares, int exponent) noexcept {
  return {report, report.finite ? std::sqrt(sum_of_squares) : 0.0, exponent};
}
[[nodiscard]] inline GradientNorm rounded(const WideNorm& norm) noexcept {
  const double value = norm.exponent == 0 ? norm.root : std::ldexp(norm.root, norm.exponent);
  const auto bits = headroom::detail::bit_cast<std::uint64_t>(value);
  return {norm.report, headroom::detail::bit_cast<double>(norm.report.finite ? bits : binary64::infinity_bits)};
}

}  // namespace kernel::unchecked
}  // namespace HEADROOM_BUILD
}  // namespace headroom
