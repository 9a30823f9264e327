#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

// In place of tests/support/catch.hpp, so that libFuzzer can run a test of Catch2: a failed check
// ends the program.
#define REQUIRE(...) ((__VA_ARGS__) ? void() : std::abort())
#define CHECK(...) REQUIRE(__VA_ARGS__)
#define CHECK_THAT(value, matcher) REQUIRE((matcher)(value))
#define TEST_CASE(name) [[maybe_unused]] static void unused_test_case()

namespace Catch::Matchers {
inline auto ContainsSubstring(const std::string& text) {
  return [text](std::string_view all) { return all.find(text) != std::string_view::npos; };
}
}  // namespace Catch::Matchers
