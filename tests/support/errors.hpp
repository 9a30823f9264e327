#pragma once

#include <stdexcept>
#include <string>

#include "support/catch.hpp"

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

/// The message of the std::invalid_argument that the expression throws.
#define MESSAGE_OF(...) support::message_of([&] { (void)(__VA_ARGS__); })
#define CHECK_REFUSED(words, ...) \
  CHECK_THAT(MESSAGE_OF(__VA_ARGS__), Catch::Matchers::ContainsSubstring(words))
