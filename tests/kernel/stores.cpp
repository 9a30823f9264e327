// Streaming stores: the same bits as ordinary ones, for any length at any address, and nothing written beside them.
#include <headroom/kernel/kernel.hpp>
#include <headroom/kernel/stores.hpp>
#include <headroom/kernel/table.hpp>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/samples.hpp"

using headroom::binary16;
using headroom::binary32;
using headroom::brain16;
using headroom::kernel::Stores;
using headroom::kernel::stores_for;

namespace {

template <class In, class Out>
std::size_t wrong_streams() {
  using InBits = typename In::bits_type;
  using OutBits = typename Out::bits_type;
  constexpr std::size_t most = 400, margin = 64;
  std::mt19937 random(support::seed);
  std::vector<InBits> source(most);
  for (auto& bits : source) bits = support::random_bits<In>(random);
  const auto& ordinary = headroom::kernel::transform_kernels<In, Out>();
  const auto& streaming = headroom::kernel::transform_kernels<In, Out>(Stores::streaming);

  std::size_t wrong = 0;
  for (std::size_t offset = 0; offset <= 64; ++offset) {
    for (std::size_t n = 0; n <= most; n += n < 70 ? 1 : 37) {
      alignas(64) unsigned char expected[2 * margin + 64 + most * sizeof(OutBits)], found[sizeof expected];
      std::memset(expected, 0xA5, sizeof expected);
      std::memset(found, 0xA5, sizeof found);
      OutBits largest[2] = {};
      switch (n % 3) {
        case 0:
          largest[0] = ordinary.multiply(source.data(), expected + margin + offset, n, 0.25);
          largest[1] = streaming.multiply(source.data(), found + margin + offset, n, 0.25);
          break;
        case 1:
          largest[0] = ordinary.divide(source.data(), expected + margin + offset, n, 3.0);
          largest[1] = streaming.divide(source.data(), found + margin + offset, n, 3.0);
          break;
        default:
          largest[0] = ordinary.convert(source.data(), expected + margin + offset, n, 1.0);
          largest[1] = streaming.convert(source.data(), found + margin + offset, n, 1.0);
      }
      if (largest[0] != largest[1] || std::memcmp(expected, found, sizeof expected) != 0) ++wrong;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("streaming stores leave the same bits as ordinary ones", "[kernel]") {
  support::for_each_isa([](headroom::Isa) {
    CHECK(wrong_streams<binary16, binary32>() == 0);
    CHECK(wrong_streams<brain16, binary32>() == 0);
    CHECK(wrong_streams<binary32, binary16>() == 0);
    CHECK(wrong_streams<binary32, brain16>() == 0);
    CHECK(wrong_streams<binary32, binary32>() == 0);
    CHECK(wrong_streams<binary16, brain16>() == 0);
    CHECK(wrong_streams<brain16, brain16>() == 0);
  });
}

TEST_CASE("work larger than the largest cache streams, small work does not, and in place nothing does", "[kernel]") {
  CHECK(headroom::kernel::read_largest_cache() >= 1024);
  CHECK(stores_for(0) == Stores::ordinary);
  CHECK(stores_for(1024) == Stores::ordinary);
  CHECK(stores_for(~std::size_t{0}) == Stores::streaming);
  CHECK(stores_for(headroom::kernel::read_largest_cache()) == Stores::streaming);
  float place = 0.0F;
  double other = 0.0;
  using headroom::kernel::unchecked::unless_in_place;
  CHECK(unless_in_place(&place, &place, Stores::streaming) == Stores::ordinary);
  CHECK(unless_in_place(&place, &other, Stores::streaming) == Stores::streaming);
}

TEST_CASE("a span larger than the largest cache is unscaled and checked to its end", "[kernel]") {
  const std::size_t n = headroom::kernel::read_largest_cache() / 4;
  std::vector<headroom::half> source(n, headroom::half(3.0F));
  std::vector<float> destination(n + 1, 7.0F);
  source[n - 1] = headroom::half(-6.0F);
  support::for_each_isa([&](headroom::Isa) {
    const headroom::span<float> odd_place(destination.data() + 1, n);
    CHECK(headroom::kernel::unscale(source, odd_place, 2.0F).max_abs == 3.0);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i + 1 < n; ++i) wrong += odd_place[i] == 1.5F ? 0 : 1;
    CHECK(wrong == 0);
    CHECK(odd_place[n - 1] == -3.0F);
    CHECK(destination[0] == 7.0F);
  });
}
