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

}  // namespace support
