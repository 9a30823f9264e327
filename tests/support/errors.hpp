#pragma once

#include <stdexcept>
#include <string>

namespace support {

/// What the std::invalid_argument that `f` throws says; empty where it throws none.
template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

/// The same of a std::logic_error that is none.
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
