#pragma once

#include <headroom/config.hpp>

#include <string>

#if HEADROOM_EXCEPTIONS
#include <stdexcept>
#else
#include <cstdio>
#include <cstdlib>
#endif

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Appended, for std::operator+ has one code for units of unlike flags: see shared.hpp.
[[nodiscard, gnu::cold, gnu::noinline]] inline std::string prefixed(const std::string& message) {
  std::string text = "headroom: ";
  text += message;
  return text;
}

// Cold and never inlined, so that a check costs its caller one compare and a jump never taken.

#if HEADROOM_EXCEPTIONS
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_invalid_argument(const std::string& message) {
  throw std::invalid_argument(prefixed(message));
}
/// For calls in the wrong order.
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_logic_error(const std::string& message) {
  throw std::logic_error(prefixed(message));
}
#else
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_invalid_argument(const std::string& message) {
  std::string line = prefixed(message);
  line += '\n';
  HEADROOM_ERROR_HANDLER(line.c_str());
  std::abort();
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_logic_error(const std::string& message) {
  throw_invalid_argument(message);
}
#endif

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
