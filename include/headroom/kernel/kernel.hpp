#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/kernel/unchecked.hpp>
#include <headroom/report.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

/// The verbs on one contiguous span of elements of any dtype: a headroom::span, or anything it can be made from (std::vector,
/// std::array, a C array). Source and destination may be the same memory, where their elements are of the same size, and must
/// not overlap otherwise; they need no alignment; nothing outside them is read or written. Sizes that differ, other overlap,
/// and a null span that is not empty are std::invalid_argument before anything is written.
namespace headroom {
inline namespace HEADROOM_BUILD {
namespace kernel {

namespace checks {

template <class T>
inline void not_null(const char* name, span<T> values) {
  static_assert(is_dtype_v<T>, "headroom: not a floating-point element type: specialise headroom::dtype_traits for it");
  if (values.data() == nullptr && values.size() != 0) {
    headroom::detail::throw_invalid_argument(std::string(name) + " is null, with a size of " + std::to_string(values.size()));
  }
}
template <class In, class Out>
inline void fit_each_other(span<In> source, span<Out> destination) {
  not_null("source", source);
  not_null("destination", destination);
  static_assert(!std::is_const_v<Out>, "headroom: the destination is const");
  if (source.size() != destination.size()) {
    headroom::detail::throw_invalid_argument("source has " + std::to_string(source.size()) + " elements, destination has " +
                                             std::to_string(destination.size()));
  }
  const auto from = reinterpret_cast<std::uintptr_t>(source.data()), to = reinterpret_cast<std::uintptr_t>(destination.data());
  const bool apart = from + source.size() * sizeof(In) <= to || to + destination.size() * sizeof(Out) <= from;
  if (!apart && (from != to || sizeof(In) != sizeof(Out))) {
    headroom::detail::throw_invalid_argument("source and destination overlap without being the same memory");
  }
}
inline void finite_factor(const double& factor) {
  const auto bits = headroom::detail::bit_cast<std::uint64_t>(factor);
  if ((bits & binary64::abs_mask) >= binary64::infinity_bits) headroom::detail::throw_bad_value("factor", factor, "finite");
}

template <class In, class Out>
inline Stores stores(span<In> source, span<Out> destination) {
  return stores_for(source.size() * sizeof(In) + destination.size() * sizeof(Out));
}

}  // namespace checks

// Computed in float, or in double where source or destination is double: one rounding there, and one more where the
// destination has fewer digits.

/// destination = source * factor. `factor` is any finite number. The two may be the same memory where their elements have one
/// size; other overlap is std::invalid_argument.
template <class Source, class Destination>
void scale(const Source& source, Destination&& destination, const float& factor) {
  const span from(source);
  const span to(destination);
  checks::fit_each_other(from, to);
  checks::finite_factor(static_cast<double>(factor));
  (void)unchecked::multiply(from.data(), to.data(), to.size(), static_cast<double>(factor), checks::stores(from, to));
}
/// The same in place.
template <class Values>
void scale(Values&& values, const float& factor) {
  kernel::scale(values, values, factor);
}

/// destination = source / loss_scale: by the exact reciprocal where the scale is a power of two, else by division; never by a
/// rounded reciprocal. The report is of what was stored. Throws std::invalid_argument where loss_scale is not in [2^-126,
/// 2^126], and for overlap as in scale.
template <class Source, class Destination>
GradientReport unscale(const Source& source, Destination&& destination, const float& loss_scale) {
  const span from(source);
  const span to(destination);
  checks::fit_each_other(from, to);
  headroom::detail::check_loss_scale("loss_scale", loss_scale);
  return unchecked::unscale(from.data(), to.data(), to.size(), unchecked::unscaling_by(loss_scale), checks::stores(from, to));
}
/// The same in place. In fp16 what falls below 2^-25 underflows again: unscale into float where that matters.
template <class Values>
GradientReport unscale(Values&& values, const float& loss_scale) {
  return kernel::unscale(values, values, loss_scale);
}

/// Whether no element is Inf or NaN. Stops at the first block that holds one.
template <class Values>
[[nodiscard]] bool all_finite(const Values& values) {
  const span elements(values);
  checks::not_null("values", elements);
  constexpr std::size_t block = 8192;
  for (std::size_t begin = 0; begin < elements.size(); begin += block) {
    const std::size_t n = std::min(block, elements.size() - begin);
    if (!unchecked::max_abs(elements.data() + begin, n).finite) return false;
  }
  return true;
}

/// Finite, largest magnitude and L2 norm in one read-only pass: the same bits as `headroom::measure` of the span.
template <class Values>
[[nodiscard]] GradientNorm measure(const Values& values) {
  const span elements(values);
  checks::not_null("values", elements);
  unchecked::Measured measured = unchecked::measure(elements.data(), elements.size());
  const int exponent = unchecked::exponent_of_squared(measured.report);
  if (exponent != 0) measured.sum_of_squares = unchecked::sum_of_squares(elements.data(), elements.size(), exponent);
  return unchecked::rounded(unchecked::norm_of(measured.report, measured.sum_of_squares, exponent));
}

/// destination = source, each value the nearest of the destination's dtype. Overlap as in scale.
template <class Source, class Destination>
void cast(const Source& source, Destination&& destination) {
  const span from(source);
  const span to(destination);
  checks::fit_each_other(from, to);
  unchecked::convert(from.data(), to.data(), to.size(), checks::stores(from, to));
}

}  // namespace kernel
}  // namespace HEADROOM_BUILD
}  // namespace headroom
