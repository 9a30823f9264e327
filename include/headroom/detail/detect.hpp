#pragma once

#include <headroom/config.hpp>

#include <type_traits>

// Whether an expression or a member type exists: the detection idiom, as in std::experimental::is_detected.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class, template <class...> class Op, class... Args>
struct detector : std::false_type {};
template <template <class...> class Op, class... Args>
struct detector<std::void_t<Op<Args...>>, Op, Args...> : std::true_type {};

/// True where the alias template `Op<Args...>` names a type.
template <template <class...> class Op, class... Args>
using is_detected = detector<void, Op, Args...>;
template <template <class...> class Op, class... Args>
inline constexpr bool is_detected_v = is_detected<Op, Args...>::value;

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
