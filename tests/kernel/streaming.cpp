// Streaming stores: the same bits as ordinary ones, for any length at any address, and nothing written beside them.
#include <headroom/kernel/kernel.hpp>
#include <headroom/kernel/streaming.hpp>
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
using headroom::detail::Found;
using headroom::detail::is_worth_streaming;
using headroom::detail::Op;
using headroom::detail::Piece;

namespace {

/// Two pieces beside each other.
template <Op op, class In, class Out>
Found run(const void* source, unsigned char* destination, std::size_t n, double factor) {
  const std::size_t first = n / 3;
  const Piece pieces[] = {{source, destination, first},
                          {static_cast<const typename In::bits_type*>(source) + first,
                           destination + first * sizeof(typename Out::bits_type), n - first}};
  Found found{0, 0.0};
  headroom::detail::kernels<op, In, Out>[headroom::detail::isa_index()](pieces, pieces + 2, factor, found);
  return found;
}

template <class In, class Out>
std::size_t wrong_streams() {
  using InBits = typename In::bits_type;
  using OutBits = typename Out::bits_type;
  constexpr std::size_t most = 400, margin = 64;
  std::mt19937 random(support::seed);
  std::vector<InBits> source(most);
  for (auto& bits : source) bits = support::random_bits<In>(random);

  std::size_t wrong = 0;
  for (std::size_t offset = 0; offset <= 64; ++offset) {
    for (std::size_t n = 0; n <= most; n += n < 70 ? 1 : 37) {
      alignas(64) unsigned char expected[2 * margin + 64 + most * sizeof(OutBits)], found[sizeof expected];
      std::memset(expected, 0xA5, sizeof expected);
      std::memset(found, 0xA5, sizeof found);
      Found ordinary{}, streaming{};
      switch (n % 3) {
        case 0:
          ordinary = run<Op::scale, In, Out>(source.data(), expected + margin + offset, n, 0.25);
          streaming = run<Op::scale_streaming, In, Out>(source.data(), found + margin + offset, n, 0.25);
          break;
        case 1:
          ordinary = run<Op::unscale, In, Out>(source.data(), expected + margin + offset, n, 3.0);
          streaming = run<Op::unscale_streaming, In, Out>(source.data(), found + margin + offset, n, 3.0);
          break;
        default:
          ordinary = run<Op::cast, In, Out>(source.data(), expected + margin + offset, n, 1.0);
          streaming = run<Op::cast_streaming, In, Out>(source.data(), found + margin + offset, n, 1.0);
      }
      if (ordinary.largest != streaming.largest || std::memcmp(expected, found, sizeof expected) != 0) ++wrong;
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

TEST_CASE("work larger than the largest cache streams, small work does not", "[kernel]") {
  CHECK(headroom::detail::read_largest_cache() >= 1024);
  CHECK_FALSE(is_worth_streaming(0));
  CHECK_FALSE(is_worth_streaming(1024));
  CHECK(is_worth_streaming(~std::size_t{0}));
  CHECK(is_worth_streaming(headroom::detail::read_largest_cache()));
}

TEST_CASE("what is done in place does not stream, but is right", "[kernel]") {
  support::for_each_isa([](headroom::Isa) {
    std::vector<float> values(1000, 3.0F);
    (void)run<Op::scale_streaming, binary32, binary32>(values.data(), reinterpret_cast<unsigned char*>(values.data()), 1000,
                                                       0.5);
    CHECK(values == std::vector<float>(1000, 1.5F));
  });
}

TEST_CASE("a span larger than the largest cache is unscaled and checked to its end", "[kernel]") {
  const std::size_t n = headroom::detail::read_largest_cache() / 4;
  std::vector<headroom::half> source(n, headroom::half(3.0F));
  std::vector<float> destination(n + 1, 7.0F);
  source[n - 1] = headroom::half(-6.0F);
  support::for_each_isa([&](headroom::Isa) {
    const headroom::span<float> odd_place(destination.data() + 1, n);
    CHECK(headroom::kernel::unscale_into(source, odd_place, 2.0F).max_abs == 3.0);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i + 1 < n; ++i) wrong += odd_place[i] == 1.5F ? 0 : 1;
    CHECK(wrong == 0);
    CHECK(odd_place[n - 1] == -3.0F);
    CHECK(destination[0] == 7.0F);
  });
}
