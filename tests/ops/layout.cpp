// Shapes and strides.
#include <headroom/ops/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/strided.hpp"

using namespace headroom;
using namespace headroom::detail;

namespace {

using support::Places;

Places sorted(Places places) {
  std::sort(places.begin(), places.end());
  return places;
}
LoopNest nest_of(const std::vector<Dimension>& dimensions) {
  Layout source, destination;
  for (const Dimension& dimension : dimensions) {
    source.push(dimension.size, dimension.source_stride);
    destination.push(dimension.size, dimension.destination_stride);
  }
  return {source, destination};
}

}  // namespace

TEST_CASE(
    "two layouts of all the dimensions there can be have the same shape, whatever their strides") {
  Layout a, b, longer;
  for (int i = 0; i < Layout::max_rank; ++i) {
    a.push(2, 1 + i);
    b.push(2, 100 + i);
    longer.push(i + 1 == Layout::max_rank ? 3 : 2, 1 + i);
  }
  CHECK(a.rank() == Layout::max_rank);
  CHECK(a.same_shape(b));
  CHECK(b.same_shape(a));
  CHECK_FALSE(a.same_shape(longer));
  CHECK_FALSE(a.same_shape(Layout()));
}

TEST_CASE("a loop nest reaches the elements of both tensors, each with its own counterpart") {
  std::mt19937 random(1);
  const auto in = [&](int low, int high) {
    return std::uniform_int_distribution<std::ptrdiff_t>(low, high)(random);
  };
  std::size_t wrong = 0, unsorted = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<Dimension> dimensions(static_cast<std::size_t>(in(0, 4)));
    for (Dimension& dimension : dimensions) dimension = {in(1, 4), in(-12, 12), in(-12, 12)};
    const LoopNest nest = nest_of(dimensions);
    const Places places = sorted(support::places_of(dimensions));
    wrong += sorted(support::places_of({nest.dimensions, nest.dimensions + nest.depth})) != places
                 ? 1U
                 : 0U;
    Places side_by_side;
    for (std::ptrdiff_t k = 0; side_by_side.size() < places.size(); ++k)
      side_by_side.emplace_back(k, k);
    wrong += nest.is_contiguous() != (places == side_by_side) ? 1U : 0U;
    for (int j = 1; j < nest.depth; ++j) {
      unsorted += std::abs(nest.dimensions[j - 1].destination_stride) <
                          std::abs(nest.dimensions[j].destination_stride)
                      ? 1U
                      : 0U;
    }
  }
  CHECK(wrong == 0);
  CHECK(unsorted == 0);
}

TEST_CASE("dimensions without a gap between them are one") {
  CHECK(nest_of({{2, 12, 12}, {3, 4, 4}, {4, 1, 1}}).is_contiguous());
  // In any order, if both have the same
  CHECK(nest_of({{4, 1, 1}, {2, 12, 12}, {3, 4, 4}}).is_contiguous());
  CHECK(nest_of({}).is_contiguous());
  CHECK_FALSE(nest_of({{3, 4, 1}, {4, 1, 3}}).is_contiguous());
  CHECK_FALSE(nest_of({{3, 2, 2}}).is_contiguous());
  CHECK_FALSE(nest_of({{3, 1, 2}}).is_contiguous());
  CHECK_FALSE(nest_of({{3, 2, 1}}).is_contiguous());
  CHECK(nest_of({{2, 24, 12}, {3, 4, 4}, {4, 1, 1}}).depth == 2);
  CHECK(nest_of({{2, 12, 24}, {3, 4, 4}, {4, 1, 1}}).depth == 2);
}
