#pragma once

#include <stdexcept>
#include <string>

#include "support/catch.hpp"

/// The message of the std::invalid_argument that the expression throws.
#define MESSAGE_OF(...) support::message_of([&] { (void)(__VA_ARGS__); })
/// Checks that the expression after `text` throws a std::invalid_argument (a std::logic_error)
/// whose message has `text`.
#define CHECK_INVALID(text, ...) \
  CHECK_THAT(MESSAGE_OF(__VA_ARGS__), Catch::Matchers::ContainsSubstring(text))
#define CHECK_LOGIC_ERROR(text, ...)                                \
  CHECK_THAT(support::logic_error_of([&] { (void)(__VA_ARGS__); }), \
             Catch::Matchers::ContainsSubstring(text))

namespace support {

/// The message of the std::invalid_argument that `f` throws; empty if it throws nothing.
template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

/// The message of the std::logic_error that `f` throws; empty if it throws nothing;
/// "std::invalid_argument" if it throws one.
template <class F>
std::string logic_error_of(F f) {
  try {
    f();
  } catch (const std::invalid_argument&) {
    return "std::invalid_argument";
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return {};
}

}  // namespace support
