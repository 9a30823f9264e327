#pragma once

#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/kernel/boundary.hpp>
#include <headroom/kernel/isa.hpp>

#include <type_traits>

// The kernels in the library headroom::compiled. Saturating casts and user-defined formats use the scalar kernels of the
// headers.

namespace headroom::boundary_v2 {

/// Kernels by op, source format, destination format and instruction set; null if there is none. A translation unit and a
/// library with different counts do not link.
template <int Ops, int Formats, int Isas>
struct CompiledKernels {
  Kernel kernels[Ops][Formats][Formats][Isas];
  static const CompiledKernels compiled;
};

}  // namespace headroom::boundary_v2

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// headroom's own formats. Their positions index the table and never change: append new formats at the end.
template <class... Formats>
struct FormatList {
  static constexpr int size = sizeof...(Formats);
  /// The index of `Format`, or -1.
  template <class Format>
  static constexpr int place_of() noexcept {
    int place = 0;
    const bool found = ((std::is_same_v<Format, Formats> || (++place, false)) || ...);
    return found ? place : -1;
  }
};
using CompiledFormats = FormatList<binary16, brain16, binary32, binary64, e4m3, e5m2, cb16>;

template <class Format>
inline constexpr int compiled_place = CompiledFormats::place_of<Format>();
template <class In, class Out>
inline constexpr bool is_compiled = compiled_place<In> >= 0 && compiled_place<Out> >= 0;

using CompiledKernels = boundary_v2::CompiledKernels<boundary_v2::op_count, CompiledFormats::size, isa_count>;

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE

/// Defined in src/headroom.cpp.
template <>
const headroom::detail::CompiledKernels headroom::detail::CompiledKernels::compiled;
