#pragma once

#include <headroom/config.hpp>

#include <type_traits>

// Whether an expression or a member type exists: the detection idiom, as in std::experimental::is_detected.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

template <class, template <class...> class Op, class... Args>
struct detector : std::false_type {};
template <template <class...> class Op, class... Args>
struct detector<std::void_t<Op<Args...>>, Op, Args...> : std::true_type {};

/// True if the alias template `Op<Args...>` names a type.
template <template <class...> class Op, class... Args>
inline constexpr bool is_detected_v = detector<void, Op, Args...>::value;

/// The address of this variable identifies a type. It is not const, because linkers may merge equal constants.
template <class>
inline char address_of_type = 0;

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
