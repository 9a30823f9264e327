#pragma once

#include <headroom/config.hpp>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#if !HEADROOM_EXCEPTIONS
#include <cstdio>
#include <cstdlib>
#endif

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// Concatenates the parts. A call compiles to less code than a chain of operator+.
[[nodiscard, gnu::cold, gnu::noinline]] inline std::string concat(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view& part : parts) text.append(part.data(), part.size());
  return text;
}

/// Cold and never inlined, so that a check costs its caller one comparison and one branch. The message is passed in parts.
template <class Error>
[[noreturn, gnu::cold, gnu::noinline]] void throw_error(std::initializer_list<std::string_view> message) {
#if HEADROOM_EXCEPTIONS
  throw Error(concat({"headroom: ", concat(message)}));
#else
  HEADROOM_ERROR_HANDLER(concat({"headroom: ", concat(message), "\n"}).c_str());
  std::abort();
#endif
}
[[noreturn]] inline void throw_invalid_argument(std::initializer_list<std::string_view> message) {
  throw_error<std::invalid_argument>(message);
}
/// For calls in the wrong order.
[[noreturn]] inline void throw_logic_error(std::initializer_list<std::string_view> message) {
  throw_error<std::logic_error>(message);
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
