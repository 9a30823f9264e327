// Trees of many parts of one memory, some of which share elements: refused where a comparison of all leaves finds it.
#include <headroom/headroom.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using support::message_of;
using Part = support::Strided<float>;
using Parts = std::vector<Part>;

namespace {

bool share(const Part& a, const Part& b) {
  using headroom::detail::extent_at;
  return headroom::detail::share_elements(extent_at(a.first, sizeof(float), headroom::detail::layout_of(a)),
                                          extent_at(b.first, sizeof(float), headroom::detail::layout_of(b)));
}
bool overlap(const Parts& source, const Parts& destination) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    for (std::size_t j = 0; j < destination.size(); ++j) {
      if (i != j && share(source[i], destination[j])) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("tiles of one tensor, of which one may be read and written") {
  std::mt19937 random(11);
  const auto below = [&](std::ptrdiff_t n) { return static_cast<std::ptrdiff_t>(random() % static_cast<unsigned>(n)); };
  std::vector<float> memory(1000);
  int refused = 0, accepted = 0;
  for (int round = 0; round < support::cases(4000); ++round) {
    // n x n x n tiles of a x b x c elements beside each other, or n x n x n that each have every n-th element.
    const std::ptrdiff_t n = 2 + below(2), a = 1 + below(3), b = 1 + below(3), c = 1 + below(3);
    const std::ptrdiff_t row = n * c + below(2), plane = row * (n * b + below(2));
    const bool beside = below(2) == 0;
    Parts tiles;
    for (std::ptrdiff_t i = 0; i < n * n * n; ++i) {
      const std::ptrdiff_t x = i / (n * n), y = i / n % n, z = i % n;
      if (beside) {
        tiles.push_back({memory.data() + x * a * plane + y * b * row + z * c, {a, b, c}, {plane, row, 1}});
      } else {
        tiles.push_back({memory.data() + x * plane + y * row + z, {a, b, c}, {plane * n, row * n, n}});
      }
      if (below(3) == 0) {
        tiles.back().first += (a - 1) * tiles.back().strides[0];
        tiles.back().strides[0] *= -1;
      }
    }
    std::shuffle(tiles.begin(), tiles.end(), random);
    Parts source, destination;
    for (std::size_t i = 0; i + 1 < tiles.size(); i += 2) {
      source.push_back(tiles[i]);
      destination.push_back(tiles[below(8) == 0 ? i : i + 1]);
    }
    if (below(2) == 0) destination.front() = source.back();
    const bool expected = overlap(source, destination);
    const std::string message = message_of([&] { headroom::cast_into(source, destination); });
    REQUIRE((message.find(" overlaps the source's ") != std::string::npos) == expected);
    REQUIRE(message.empty() == !expected);
    ++(expected ? refused : accepted);
  }
  CHECK(refused > support::cases(1500));
  CHECK(accepted > support::cases(1500));
}

TEST_CASE("windows anywhere in one matrix") {
  std::mt19937 random(12);
  const auto below = [&](std::ptrdiff_t n) { return static_cast<std::ptrdiff_t>(random() % static_cast<unsigned>(n)); };
  std::vector<float> memory(200);
  int refused = 0, accepted = 0;
  for (int round = 0; round < support::cases(6000); ++round) {
    const std::ptrdiff_t row = 6 + below(6), step = 1 + below(2);
    Parts source, destination;
    for (std::ptrdiff_t leaves = 2 + below(2); leaves > 0;) {
      const std::vector<std::ptrdiff_t> shape = {1 + below(4), 1 + below(3)}, strides = {row * (1 + below(2)), step};
      const Part from{memory.data() + below(6 * row), shape, strides}, to{memory.data() + below(6 * row), shape, strides};
      if (share(from, to)) continue;
      source.push_back(from);
      destination.push_back(to);
      --leaves;
    }
    const bool expected = overlap(source, destination);
    CHECK(message_of([&] { headroom::cast_into(source, destination); }).empty() == !expected);
    ++(expected ? refused : accepted);
  }
  CHECK(refused > support::cases(1500));
  CHECK(accepted > support::cases(1500));
}

TEST_CASE("a column of single bytes shares the first byte of rows that end a byte late") {
  using Byte = headroom::float8_e5m2;
  using Bytes = std::vector<support::Strided<Byte>>;
  std::vector<Byte> memory(40), elsewhere(20);
  const auto apart = [&](std::ptrdiff_t first) {
    const Bytes source = {{memory.data(), {4}, {8}}, {elsewhere.data(), {3, 2}, {2, 1}}};
    const Bytes destination = {{elsewhere.data() + 10, {4}, {1}}, {memory.data() + first, {3, 2}, {8, 1}}};
    return message_of([&] { headroom::cast_into(source, destination); }).empty();
  };
  CHECK(apart(1));
  CHECK(apart(6));
  CHECK_FALSE(apart(7));
  CHECK_FALSE(apart(8));
}
