#pragma once

#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/kernel/boundary.hpp>
#include <headroom/kernel/isa.hpp>

#include <type_traits>

// The kernels that headroom::compiled has. Casts that saturate and formats of a user's own are left to the scalar kernels of
// the headers.

namespace headroom::boundary_v2 {

/// By op, format of the source, format of the destination and instruction set. Null: there is none. Units and a library that
/// disagree on the numbers do not link.
template <int Ops, int Formats, int Isas>
struct CompiledKernels {
  Kernel kernels[Ops][Formats][Formats][Isas];
  static const CompiledKernels compiled;
};

}  // namespace headroom::boundary_v2

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// The formats of headroom's own. Their places are fixed for ever: another one goes to the end.
template <class... Formats>
struct FormatList {
  static constexpr int size = sizeof...(Formats);
  /// -1: there is no such format.
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

/// Defined in the library.
template <>
const headroom::detail::CompiledKernels headroom::detail::CompiledKernels::compiled;
