// Whether two leaves share memory, against sets of bytes.
#include <headroom/tree/overlap.hpp>

#include <cstddef>
#include <initializer_list>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using headroom::Layout;
using headroom::detail::Extent;
using headroom::detail::same_places;
using headroom::detail::share_elements;

namespace {

using Dimensions = std::initializer_list<std::pair<std::ptrdiff_t, std::ptrdiff_t>>;

Extent extent(std::intptr_t first, std::ptrdiff_t element, Dimensions dimensions) {
  Extent result{first, element, {}};
  for (const auto& [size, stride] : dimensions) result.layout.push(size, stride);
  return result;
}

std::set<std::intptr_t> bytes_of(const Extent& extent, int dimension, std::intptr_t at) {
  std::set<std::intptr_t> bytes;
  if (dimension == extent.layout.rank()) {
    for (std::ptrdiff_t i = 0; i < extent.element; ++i) bytes.insert(at + i);
    return bytes;
  }
  for (std::ptrdiff_t i = 0; i < extent.layout.shape(dimension); ++i) {
    bytes.merge(bytes_of(extent, dimension + 1, at + i * extent.layout.stride(dimension) * extent.element));
  }
  return bytes;
}

}  // namespace

TEST_CASE("two leaves share memory where an element of each has a byte in common") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<std::ptrdiff_t>(random() % static_cast<unsigned>(n)); };
  const auto any_extent = [&] {
    Extent result{1000 + below(60), std::ptrdiff_t{1} << below(3), {}};  // in this order, as always within braces
    for (std::ptrdiff_t rank = below(4); rank > 0; --rank) {
      const std::ptrdiff_t stride = below(15) - 7, size = below(6);
      result.layout.push(size, stride);
    }
    return result;
  };
  int shared = 0, apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const Extent a = any_extent(), b = any_extent();
    std::set<std::intptr_t> both = bytes_of(a, 0, a.first), of_b = bytes_of(b, 0, b.first);
    REQUIRE((both.empty() || (a.range().begin == *both.begin() && a.range().end == *both.rbegin() + 1)));
    const bool expected = [&] {
      for (const std::intptr_t byte : both) {
        if (of_b.count(byte) != 0) return true;
      }
      return false;
    }();
    REQUIRE(share_elements(a, b) == expected);
    REQUIRE(share_elements(b, a) == expected);
    const bool ranges_meet = a.range().begin < b.range().end && b.range().begin < a.range().end;
    shared += expected;
    apart += !expected && ranges_meet && !both.empty() && !of_b.empty();
  }
  CHECK(shared > 4000);
  CHECK(apart > 1000);  // among those whose ranges meet
}

TEST_CASE("large parts of larger tensors") {
  const std::ptrdiff_t n = 1000003;
  const Extent left = extent(0, 4, {{n, 4}, {2, 1}}), right = extent(8, 4, {{n, 4}, {2, 1}});
  CHECK_FALSE(share_elements(left, right));
  CHECK(share_elements(left, extent(4, 4, {{n, 4}, {2, 1}})));
  CHECK_FALSE(share_elements(left, extent(8, 2, {{n, 8}, {4, 1}})));
  CHECK(share_elements(left, extent(6, 2, {{n, 8}, {4, 1}})));
  CHECK_FALSE(share_elements(extent(0, 2, {{n, 2}}), extent(2, 2, {{n, 2}})));
  CHECK_FALSE(share_elements(extent(0, 4, {{64, 1 << 16}, {64, 1 << 8}, {64, 2}}),
                             extent(4, 4, {{64, 1 << 8}, {64, 1 << 16}, {64, 2}})));
  CHECK(share_elements(extent(0, 4, {{n, 6}}), extent(4, 4, {{n, 35}})));
  CHECK_FALSE(share_elements(extent(0, 4, {{1000, 6}}), extent(4, 4, {{1000, 9}})));
  CHECK_FALSE(share_elements(extent(0, 4, {{n, 6}}), extent(4, 4, {{n, 9}})));  // all distances leave 4 when divided by 12
  CHECK(share_elements(extent(0, 4, {{n, 6}}), extent(9, 4, {{n, 9}})));
  CHECK(share_elements(extent(0, 4, {{n, n}, {n, 1}}), extent(4 * n - 4, 4, {{n, n}})));
}

TEST_CASE("the same places") {
  const Extent matrix = extent(0, 4, {{3, 1}, {3, 3}});
  CHECK(same_places(matrix, matrix));
  CHECK(same_places(matrix, extent(0, 4, {{9, 1}})));
  CHECK_FALSE(same_places(matrix, extent(0, 4, {{3, 3}, {3, 1}})));
  CHECK_FALSE(same_places(matrix, extent(0, 2, {{3, 1}, {3, 3}})));
  CHECK_FALSE(same_places(matrix, extent(4, 4, {{3, 1}, {3, 3}})));
}
