// Streaming stores write the same bits as ordinary ones, for any length at any address, and nothing
// beside them.
#include <headroom/headroom.hpp>
#include <headroom/kernel/table.hpp>

#include <cstdint>
#include <random>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace headroom::detail;
using namespace support;

namespace {

/// Pieces smaller and larger than the first size that streams, in one block of memory, with some
/// bytes between them.
template <class In, class Out>
struct Pieces {
  using InBits = typename In::bits_type;
  static constexpr std::size_t least = least_streamed / sizeof(typename Out::bits_type);
  static constexpr std::size_t count = 40, most = 2 * least + 100, gap = 130;

  struct Place {
    std::size_t source, size, destination;  // in elements, in bytes
  };
  std::vector<InBits> source;
  std::vector<Place> places;
  std::size_t bytes = 64;

  Pieces(std::mt19937& random, bool is_finite) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t size = random_size(random);
      bytes += random() % gap;
      if (random() % 2 == 0) bytes = bytes / 64 * 64;  // as an allocator aligns
      places.push_back({source.size(), size, bytes});
      bytes += size * sizeof(typename Out::bits_type) + gap;
      for (std::size_t k = 0; k < size; ++k) {
        source.push_back(is_finite ? random_finite_bits<In>(random) : random_bits<In>(random));
      }
    }
  }
  static std::size_t random_size(std::mt19937& random) {
    switch (random() % 3) {
      case 0:
        return random() % 70;
      case 1:
        return least - 2 + random() % 4;
      default:
        return random() % most;
    }
  }

  /// The whole block after the pass.
  template <Op op>
  [[nodiscard]] std::vector<unsigned char> run(double factor, bool streaming, Found& found) const {
    std::vector<unsigned char> block(bytes + 64, 0xA5);
    unsigned char* const begin =
        block.data() + (64 - reinterpret_cast<std::uintptr_t>(block.data()) % 64);
    std::vector<Piece> pieces;
    for (const Place& place : places)
      pieces.push_back({source.data() + place.source, begin + place.destination, place.size});
    kernels<op, In, Out>[isa_index()](pieces.data(), pieces.data() + pieces.size(),
                                      Pass{op, factor, false, streaming}, found);
    return {begin, begin + bytes};
  }
  template <Op op>
  [[nodiscard]] bool streams_right(double factor) const {
    Found ordinary{}, streamed{};
    const bool same = run<op>(factor, false, ordinary) == run<op>(factor, true, streamed);
    return same && ordinary.max_abs == streamed.max_abs;
  }
};

template <class In, class Out>
std::size_t wrong_streams() {
  std::mt19937 random(seed);
  std::size_t wrong = 0;
  for (int round = 0; round < 20; ++round) {
    const Pieces<In, Out> pieces(random, round % 2 == 0);
    if constexpr (is_fp8<Out>) {
      wrong += pieces.template streams_right<Op::quantize>(0.3) ? 0 : 1;
    } else {
      wrong += pieces.template streams_right<Op::scale>(0.25) ? 0 : 1;
      wrong += pieces.template streams_right<Op::unscale>(3.0) ? 0 : 1;
      wrong += pieces.template streams_right<Op::cast>(1.0) ? 0 : 1;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("streaming stores leave the same bits as ordinary ones", "[kernel]") {
  for_each_isa([](Isa) {
    CHECK(wrong_streams<binary16, binary32>() == 0);
    CHECK(wrong_streams<brain16, binary32>() == 0);
    CHECK(wrong_streams<binary32, binary16>() == 0);
    CHECK(wrong_streams<binary32, brain16>() == 0);
    CHECK(wrong_streams<binary32, binary32>() == 0);
    CHECK(wrong_streams<binary16, brain16>() == 0);
    CHECK(wrong_streams<brain16, brain16>() == 0);
    CHECK(wrong_streams<binary32, e4m3>() == 0);
    CHECK(wrong_streams<binary16, e5m2>() == 0);
    CHECK(wrong_streams<brain16, e4m3>() == 0);
    CHECK(wrong_streams<e4m3, binary32>() == 0);
    CHECK(wrong_streams<e5m2, brain16>() == 0);
  });
}

TEST_CASE("what is done in place does not stream, but is right", "[kernel]") {
  for_each_isa([](Isa) {
    std::vector<float> values(1000, 3.0F);
    const Piece piece{values.data(), values.data(), values.size()};
    Found found{0, 0.0};
    kernels<Op::scale, binary32>[isa_index()](&piece, &piece + 1, Pass{Op::scale, 0.5, false, true},
                                              found);
    CHECK(values == std::vector<float>(1000, 1.5F));
  });
}

TEST_CASE("a span large enough to stream is unscaled and checked to its end", "[kernel]") {
  const std::size_t n = least_streamed_pass / 6 + 100;
  std::vector<half> source(n, half(3.0F));
  std::vector<float> destination(n + 1, 7.0F);
  source[n - 1] = half(-6.0F);
  for_each_isa([&](Isa) {
    const span<float> odd_place(destination.data() + 1, n);
    CHECK(unscale_into(source, odd_place, 2.0F).max_abs == 3.0);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i + 1 < n; ++i) wrong += odd_place[i] == 1.5F ? 0 : 1;
    CHECK(wrong == 0);
    CHECK(odd_place[n - 1] == -3.0F);
    CHECK(destination[0] == 7.0F);
  });
}
