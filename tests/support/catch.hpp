#pragma once

// Catch2 version 3 or 2, with the names of version 3.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>

#include <string>

namespace Catch {
using Detail::Approx;
namespace Matchers {
inline auto ContainsSubstring(const std::string& text) { return Contains(text); }
}  // namespace Matchers
}  // namespace Catch
#endif
