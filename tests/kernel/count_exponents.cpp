#include <headroom/kernel/count_exponents.hpp>
#include <headroom/observe/histogram.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/exponents.hpp"
#include "support/isa.hpp"
#include "support/samples.hpp"

using headroom::bfloat16;
using headroom::ExponentHistogram;
using headroom::half;
using headroom::detail::ExponentCounter;
using headroom::detail::ExponentTally;
using headroom::detail::Piece;

namespace {

struct e5m9 : headroom::ieee_format<std::uint16_t, 5, 9> {};  // of 15 bits
struct e8m4 : headroom::ieee_format<std::uint16_t, 8, 4> {};  // of 13 bits
struct e5m10fn : headroom::float_format<std::uint16_t, 5, 10, 15, 0x7FFE, false> {};

/// The histogram of pieces [begin, end) of elements, counted with one call.
template <class T>
ExponentHistogram count(const std::vector<Piece>& pieces) {
  const auto tally = std::make_unique<ExponentTally>();
  ExponentCounter<headroom::detail::format_of<T>>::count(pieces.data(), pieces.data() + pieces.size(), 1.0, *tally);
  return ExponentHistogram(*tally);
}
template <class T>
ExponentHistogram count(const std::vector<T>& elements) {
  return count<T>({Piece{elements.data(), nullptr, elements.size()}});
}

template <class T>
std::vector<T> all_patterns() {
  std::vector<T> elements(std::size_t{1} << (8 * sizeof(T)));
  for (std::size_t i = 0; i < elements.size(); ++i) support::set_bits(elements[i], static_cast<support::bits_type<T>>(i));
  return elements;
}

}  // namespace

TEST_CASE("every pattern of 16 bits is counted as frexp sees it, by tables and one by one") {
  support::for_each_isa([](headroom::Isa) {
    support::for_each_type<half, bfloat16, headroom::cbfloat16, headroom::storage_float<e5m9>, headroom::storage_float<e8m4>,
                           headroom::storage_float<e5m10fn>>([](auto tag) {
      using T = typename decltype(tag)::type;
      INFO(support::name_of<T>());
      auto elements = all_patterns<T>();
      const auto expected = support::Exponents::of(elements);
      CHECK(expected.are_those_of(count(elements)));
      std::shuffle(elements.begin(), elements.end(), std::mt19937(support::seed));
      for (int i = 0; i < 3; ++i) {  // each element in another lane
        std::rotate(elements.begin(), elements.begin() + 11, elements.end());
        CHECK(expected.are_those_of(count(elements)));
      }
      std::vector<Piece> few;  // for the tables, too few at a time
      ExponentHistogram sum;
      for (std::size_t begin = 0; begin < elements.size(); begin += 1024) {
        sum += count<T>({Piece{elements.data() + begin, nullptr, 1024}});
      }
      CHECK(expected.are_those_of(sum));
    });
  });
}

TEST_CASE("every pattern of 8 bits, any number of times") {
  support::for_each_type<headroom::float8_e4m3, headroom::float8_e5m2>([](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> elements;
    for (const T& element : all_patterns<T>()) elements.insert(elements.end(), support::bits_of(element) % 7 * 50, element);
    CHECK(support::Exponents::of(elements).are_those_of(count(elements)));
  });
}

TEST_CASE("random floats and doubles, subnormal, infinite and exact powers among them") {
  support::for_each_type<float, double>([](auto tag) {
    using T = typename decltype(tag)::type;
    using Format = headroom::detail::format_of<T>;
    std::mt19937 random(support::seed);
    for (const int size : {1, 7, 8, 9, 5001, 8191, 8192, 8193, 40000}) {
      std::vector<T> elements(static_cast<std::size_t>(size));
      for (T& element : elements) {
        auto bits = support::random_bits<Format>(random);
        if (random() % 4 == 0) bits = static_cast<decltype(bits)>(bits & ~Format::mantissa_mask);
        if (random() % 4 == 0) bits = static_cast<decltype(bits)>(bits & (Format::mantissa_mask | Format::sign_mask));
        if (random() % 8 == 0) bits = static_cast<decltype(bits)>(bits & Format::sign_mask);
        support::set_bits(element, bits);
      }
      CHECK(support::Exponents::of(elements).are_those_of(count(elements)));
    }
  });
}

TEST_CASE("counters do not overflow, however often one pair comes") {
  for (const float value : {3.0F, 1.0F, 0.0F, 0x1.8p-20F}) {
    const std::vector<half> elements(1500001, half(value));
    CHECK(support::Exponents::of(elements).are_those_of(count(elements)));
  }
}

TEST_CASE("pieces of any size and alignment, one call") {
  std::mt19937 random(support::seed);
  std::vector<half> elements(20000);
  for (half& element : elements) support::set_bits(element, static_cast<std::uint16_t>(random()));
  std::vector<Piece> pieces;
  std::vector<half> taken;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(elements.data());
  for (std::size_t at = 0, size = 0; at + size <= 19000; at += size, size = random() % 900) {
    pieces.push_back({bytes + 2 * at + 1, nullptr, size});
    std::vector<half> copy(size);
    if (size > 0) std::memcpy(static_cast<void*>(copy.data()), bytes + 2 * at + 1, 2 * size);
    taken.insert(taken.end(), copy.begin(), copy.end());
  }
  CHECK(support::Exponents::of(taken).are_those_of(count<half>(pieces)));
}

TEST_CASE("a tally goes on from call to call") {
  const auto elements = all_patterns<half>();
  std::vector<half> twice = elements;
  twice.insert(twice.end(), elements.begin(), elements.end());
  const auto tally = std::make_unique<ExponentTally>();
  const Piece piece{elements.data(), nullptr, elements.size()};
  ExponentCounter<headroom::binary16>::count(&piece, &piece + 1, 1.0, *tally);
  ExponentCounter<headroom::binary16>::count(&piece, &piece + 1, 1.0, *tally);
  CHECK(support::Exponents::of(twice).are_those_of(ExponentHistogram(*tally)));
  tally->clear();
  CHECK(ExponentHistogram(*tally) == ExponentHistogram());
}

TEST_CASE("what only the block has before which the tables are emptied is counted, and nothing is left for the next call") {
  constexpr std::size_t full = 65535 - 512, per_count = 8, block = 512;
  constexpr std::size_t emptied_before = (full * per_count / block + 1) * block;  // elements: a counter may have got `full`
  std::vector<float> elements(emptied_before + 3 * block, 1e-3F);
  for (const std::size_t at : {emptied_before - 1, emptied_before, emptied_before + block - 1, emptied_before + block}) {
    for (const float value : {1000.0F, std::numeric_limits<float>::infinity()}) {
      elements[at] = value;
      const auto expected = support::Exponents::of(elements);
      support::for_each_isa([&](headroom::Isa) {
        const auto tally = std::make_unique<ExponentTally>();
        for (int call = 0; call < 2; ++call) {
          const Piece piece{elements.data(), nullptr, elements.size()};
          ExponentCounter<headroom::binary32>::count(&piece, &piece + 1, 1.0, *tally);
          CHECK(expected.are_those_of(ExponentHistogram(*tally)));
          tally->clear();
        }
      });
      elements[at] = 1e-3F;
    }
  }
}
