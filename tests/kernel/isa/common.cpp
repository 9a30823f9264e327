#include <headroom/kernel/isa/common.hpp>

#include <cstddef>
#include <cstdint>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace support;
using namespace headroom::detail;

namespace {

/// All magnitudes of a format, compared with its values as doubles.
template <class T>
std::size_t wrong_magnitudes() {
  using Format = format_of<T>;
  using Bits = typename Format::bits_type;
  std::size_t wrong = 0;
  for (std::uint32_t bits = 0; bits <= Format::abs_mask; ++bits) {
    Found found{0, 0.0};
    add_max_abs<Format>(found, static_cast<Bits>(bits));
    std::uint64_t expected = binary64::infinity_bits;
    if (bits <= Format::largest_finite_bits) {
      expected =
          bits_of(static_cast<double>(to_long_double(decode<Format>(static_cast<Bits>(bits)))));
    }
    wrong += found.max_abs == expected ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE("the largest magnitude is kept, and sums add up", "[kernel]") {
  Found found{0, 0.0};
  for (const std::uint64_t magnitude : {std::uint64_t{5}, std::uint64_t{9}, std::uint64_t{7}})
    add_max_abs(found, magnitude);
  CHECK(found.max_abs == 9);
  add_to_sum(found, 1.0);
  add_to_sum(found, 0x1p-53);
  add_to_sum(found, 0x1p-53);  // lost if added to 1 alone
  CHECK(bits_of(found.sum_of_squares) == bits_of(1.0));
}

TEST_CASE("every magnitude of a format is that of the double; what is not finite is Inf's",
          "[kernel]") {
  CHECK(wrong_magnitudes<half>() == 0);
  CHECK(wrong_magnitudes<bfloat16>() == 0);
  CHECK(wrong_magnitudes<float8_e4m3>() == 0);
  CHECK(wrong_magnitudes<float8_e5m2>() == 0);
  CHECK(wrong_magnitudes<cbfloat16>() == 0);
}
