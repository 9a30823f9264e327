#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/kernel/action.hpp>
#include <headroom/kernel/streaming.hpp>
#include <headroom/kernel/table.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_null_span(const char* name, std::size_t size) {
  throw_invalid_argument({name, " is null, with a size of ", std::to_string(size)});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_sizes_of_spans(std::size_t source, std::size_t destination) {
  throw_invalid_argument({"source has ", std::to_string(source), " elements, destination has ", std::to_string(destination)});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_spans_overlap() {
  throw_invalid_argument({"source and destination overlap without being the same memory"});
}

template <class T>
void check_not_null(const char* name, span<T> values) {
  static_assert(is_dtype_v<T>, "headroom: not a floating-point element type: specialise headroom::dtype_traits for it");
  if (values.data() == nullptr && values.size() != 0) throw_null_span(name, values.size());
}
template <class In, class Out>
void check_spans(span<In> source, span<Out> destination) {
  detail::check_not_null("source", source);
  detail::check_not_null("destination", destination);
  static_assert(!std::is_const_v<Out>, "headroom: the destination is const");
  if (source.size() != destination.size()) throw_sizes_of_spans(source.size(), destination.size());
  const auto from = reinterpret_cast<std::uintptr_t>(source.data()), to = reinterpret_cast<std::uintptr_t>(destination.data());
  if (from == to && sizeof(In) == sizeof(Out)) return;
  const bool apart = from + source.size() * sizeof(In) <= to || to + destination.size() * sizeof(Out) <= from;
  if (!apart) throw_spans_overlap();
}
template <Op op, class In, class Out>
Found run_kernel(const In* source, Out* destination, std::size_t n, double factor = 1.0) {
  Found found{0, 0.0};
  const Piece piece{source, const_cast<std::remove_const_t<Out>*>(destination), n};
  kernels<op, format_of<In>, format_of<Out>>[isa_index()](&piece, &piece + 1, factor, found);
  return found;
}

/// In place, streaming gains nothing.
template <Op op, class In, class Out>
GradientReport run_into(span<In> source, span<Out> destination, double factor) {
  const bool in_place = static_cast<const void*>(source.data()) == static_cast<const void*>(destination.data());
  const bool streams = !in_place && is_worth_streaming(source.size() * (sizeof(In) + sizeof(Out)));
  return report_of(streams ? detail::run_kernel<streaming_form(op)>(source.data(), destination.data(), source.size(), factor)
                           : detail::run_kernel<op>(source.data(), destination.data(), source.size(), factor));
}

}  // namespace detail

/// The verbs on one contiguous span of elements of any dtype: a headroom::span, or anything that converts to one (std::vector,
/// std::array, a C array). Source and destination may be the same memory if their elements have the same size, and must not
/// overlap otherwise. They need no alignment; nothing outside them is read or written. Different sizes, other overlap, and a
/// null span that is not empty are a std::invalid_argument before anything is written.
namespace kernel {

/// destination = source * factor. The factor is rounded to float unless source or destination is double. Throws
/// std::invalid_argument if it is beyond float, and for overlap.
template <class Source, class Destination>
void scale_into(const Source& source, Destination&& destination, const double& factor) {
  const span from(source);
  const span to(destination);
  detail::check_spans(from, to);
  detail::check_factor(factor);
  (void)detail::run_into<detail::Op::scale>(from, to, factor);
}
/// values *= factor
template <class Values>
void scale_in_place(Values&& values, const double& factor) {
  kernel::scale_into(values, values, factor);
}

/// destination = source / loss_scale: see headroom::unscale. The report describes what was stored. Throws std::invalid_argument
/// if loss_scale is not in [2^-126, 2^126], and for overlap.
template <class Source, class Destination>
GradientReport unscale_into(const Source& source, Destination&& destination, const float& loss_scale) {
  using detail::Op;
  const span from(source);
  const span to(destination);
  detail::check_spans(from, to);
  const detail::Action by = detail::unscaling_by(loss_scale);
  return by.op == Op::scale ? detail::run_into<Op::scale>(from, to, by.factor)
                            : detail::run_into<Op::unscale>(from, to, by.factor);
}
/// The same in place. In fp16, gradients below 2^-25 round to zero again: unscale into float if that matters.
template <class Values>
GradientReport unscale_in_place(Values&& values, const float& loss_scale) {
  return kernel::unscale_into(values, values, loss_scale);
}

/// Whether no element is Inf or NaN. Stops at the first 8,192 elements that hold one.
template <class Values>
[[nodiscard]] bool all_finite(const Values& values) {
  const span elements(values);
  detail::check_not_null("values", elements);
  constexpr std::size_t block = 8192;
  for (std::size_t begin = 0; begin < elements.size(); begin += block) {
    const std::size_t n = elements.size() - begin < block ? elements.size() - begin : block;
    const auto* const first = elements.data() + begin;
    if (!detail::is_finite(detail::run_kernel<detail::Op::max_abs>(first, first, n))) return false;
  }
  return true;
}

/// Finite, largest magnitude and L2 norm in one read-only pass: the same bits as `headroom::measure` of the span.
template <class Values>
[[nodiscard]] GradientNorm measure(const Values& values) {
  const span elements(values);
  detail::check_not_null("values", elements);
  return detail::norm_of(detail::run_kernel<detail::Op::measure>(elements.data(), elements.data(), elements.size()));
}

/// destination = source, each value the nearest of the destination's dtype. Overlap as in unscale_into.
template <class Source, class Destination>
void cast_into(const Source& source, Destination&& destination) {
  const span from(source);
  const span to(destination);
  detail::check_spans(from, to);
  (void)detail::run_into<detail::Op::cast>(from, to, 1.0);
}

}  // namespace kernel
}  // namespace HEADROOM_BUILD
}  // namespace headroom
