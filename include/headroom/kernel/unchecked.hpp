#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/kernel/report.hpp>
#include <headroom/kernel/scale_factor.hpp>
#include <headroom/kernel/table.hpp>

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
  const bool finite = largest < Format::infinity_bits;
  std::uint64_t bits = binary64::infinity_bits;
  if (finite && largest >> Format::mantissa_bits != 0) {
    // Nearly always: a normal number, which only needs another bias and more digits.
    constexpr auto bias = static_cast<std::uint64_t>(binary64::bias - Format::bias);
    bits = (static_cast<std::uint64_t>(largest) << (binary64::mantissa_bits - Format::mantissa_bits)) +
           (bias << binary64::mantissa_bits);
  } else if (finite) {
    bits = headroom::detail::convert_bits<Format, binary64>(largest);
  }
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
  const auto measured = read_kernels<format_of<In>>().measure_bits(elements, n);
  return {report_of<format_of<In>>(measured.largest), measured.sum_of_squares};
}

// ---- norms of doubles whose squares are no doubles ----

/// Only elements of double are ever so large or so small: the squares of all floats are normal doubles.
[[nodiscard]] inline bool squares_need_prescale(const GradientReport& report) noexcept {
  return report.finite && report.max_abs > 0.0 && (report.max_abs > 0x1p480 || report.max_abs < 0x1p-480);
}
/// A power of two that brings the largest magnitude near 1.
[[nodiscard]] inline double prescale_for(double max_abs) noexcept {
  const int exponent = -std::ilogb(max_abs);
  return std::ldexp(1.0, std::clamp(exponent, -1000, 1000));  // a normal number, which flush-to-zero leaves alone
}
template <class In>
[[gnu::cold, gnu::noinline]] inline double sum_of_squares(const In* elements, std::size_t n, double prescale) noexcept {
  const auto* source = reinterpret_cast<const unsigned char*>(elements);
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = scalar::load<1>(format_of<In>{}, source + i * sizeof(In));
    const double value = scalar::widen<double>(format_of<In>{}, bits) * prescale;
    sum += value * value;
  }
  return sum;
}
[[nodiscard]] inline GradientNorm norm_of(const GradientReport& report, double sum_of_squares, double prescale) noexcept {
  double norm = report.finite ? std::sqrt(sum_of_squares) : 0.0;
  if (prescale != 1.0) norm /= prescale;
  const auto bits = headroom::detail::bit_cast<std::uint64_t>(norm);
  return {report, headroom::detail::bit_cast<double>(report.finite ? bits : binary64::infinity_bits)};
}

}  // namespace kernel::unchecked
}  // namespace HEADROOM_BUILD
}  // namespace headroom
