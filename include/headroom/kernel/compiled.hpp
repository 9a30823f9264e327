#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/cbfloat16.hpp>
#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/kernel/boundary.hpp>
#include <headroom/kernel/isa/isa_list.hpp>

#include <type_traits>

// The kernels that headroom::compiled has. Other formats, those of a user's own, are left to the scalar kernels of the headers.

namespace headroom::boundary_v1 {

inline constexpr int op_count = 10, format_count = 7;

/// By op, format of the source, format of the destination (from format_count on: as it saturates, of casts only) and
/// instruction set. Null: there is none.
struct CompiledKernels {
  Kernel kernels[op_count][format_count][2 * format_count][4];
};
extern const CompiledKernels compiled;

}  // namespace headroom::boundary_v1

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// A format's place in CompiledKernels: fixed for ever.
template <class Format>
inline constexpr int compiled_place = std::is_same_v<Format, binary16>   ? 0
                                      : std::is_same_v<Format, brain16>  ? 1
                                      : std::is_same_v<Format, binary32> ? 2
                                      : std::is_same_v<Format, binary64> ? 3
                                      : std::is_same_v<Format, e4m3>     ? 4
                                      : std::is_same_v<Format, e5m2>     ? 5
                                      : std::is_same_v<Format, cb16>     ? 6
                                                                         : -1;
template <class Format>
inline constexpr int compiled_place<saturating<Format>> =
    compiled_place<Format> < 0 ? -1 : boundary_v1::format_count + compiled_place<Format>;

template <boundary_v1::Op op, class In, class Out>
inline constexpr bool is_compiled = compiled_place<In> >= 0 &&
                                    compiled_place<In> < boundary_v1::format_count&& compiled_place<Out> >= 0 &&
                                    (compiled_place<Out> < boundary_v1::format_count || op == boundary_v1::Op::cast ||
                                     op == boundary_v1::Op::cast_streaming);

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
