#include <headroom/ops/all_finite.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/network.hpp"

using headroom::all_finite;
using headroom::half;

namespace {

template <class T>
void set(T& value, support::bits_type<T> bits) {
  support::set_bits(value, bits);
}

}  // namespace

TEST_CASE("one non-finite element anywhere in a tree is found") {
  support::for_each_isa([](headroom::Isa) {
    support::for_each_dtype([](auto tag) {
      using T = typename decltype(tag)::type;
      const auto network = support::network_of(T(1.0F));
      CHECK(all_finite(network));
      for (const auto bad : support::nonfinite_bits<headroom::detail::format_of<T>>()) {
        for (std::size_t where = 0; where < support::network_elements; ++where) {
          auto spoilt = network;
          std::size_t position = 0;
          headroom::for_each_leaf(spoilt, [&](auto& leaf) {
            auto* elements = headroom::detail::data_of(leaf);
            for (std::size_t i = 0; i < headroom::detail::size_of(leaf); ++i, ++position) {
              if (position == where) set(elements[i], bad);
            }
          });
          REQUIRE(position == support::network_elements);
          CHECK_FALSE(all_finite(spoilt));
          CHECK_FALSE(all_finite(headroom::sequential, spoilt));
          CHECK_FALSE(all_finite(headroom::parallel(2), spoilt));
        }
      }
    });
  });
}

TEST_CASE("T22: many large values are finite, though their sum and the sum of their squares are not") {
  CHECK(all_finite(std::vector<float>(16, 3e38F)));
  CHECK(all_finite(std::vector<float>(16, -std::numeric_limits<float>::max())));
  CHECK(all_finite(std::vector<float>{1.9e19F}));
  CHECK(all_finite(std::vector<half>(100, half(65504.0F))));
  CHECK(all_finite(std::vector<double>(16, std::numeric_limits<double>::max())));
}

TEST_CASE("integers beside floating-point numbers count as finite, and so does nothing at all") {
  CHECK(all_finite(std::make_pair(1.0F, std::vector<int>{0x7F800000, -1})));
  CHECK(all_finite(std::make_tuple(1, true, std::string("nan"), std::vector<bool>(3), 1.0F)));
  CHECK(all_finite(std::tuple<>()));
  CHECK(all_finite(std::vector<float>{}));
  CHECK(all_finite(std::vector<std::vector<float>>{}));
  CHECK(all_finite(headroom::span<const float>()));
  CHECK(all_finite(std::unique_ptr<float>()));
}

TEST_CASE("scalars are trees") {
  float value = 1.0F;
  CHECK(all_finite(value));
  set(value, headroom::binary32::infinity_bits);
  CHECK_FALSE(all_finite(value));
}

TEST_CASE("elements need no alignment") {
  std::vector<unsigned char> bytes(4 * 100 + 1, 0);
  auto* const first = reinterpret_cast<float*>(bytes.data() + 1);
  CHECK(all_finite(headroom::span<const float>(first, 100)));
  const std::uint32_t nan = headroom::binary32::quiet_nan_bits;
  std::memcpy(bytes.data() + 1 + 4 * 99, &nan, sizeof nan);
  CHECK_FALSE(all_finite(headroom::span<const float>(first, 100)));
}

TEST_CASE("the last element of a tree of many pieces is looked at") {
  std::vector<std::vector<half>> tree(3, std::vector<half>(200001, half(1.0F)));
  CHECK(all_finite(tree));
  CHECK(all_finite(headroom::parallel(4), tree));
  set(tree[2].back(), headroom::binary16::infinity_bits);
  CHECK_FALSE(all_finite(tree));
  CHECK_FALSE(all_finite(headroom::parallel(4), tree));
}
