#include <headroom/kernel/table.hpp>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"

using headroom::binary16;
using headroom::binary32;
using headroom::binary64;
using headroom::brain16;
namespace kernel = headroom::kernel;

TEST_CASE("double runs on the scalar kernels, whatever is chosen", "[kernel]") {
  static_assert(kernel::has_registers<binary16> && kernel::has_registers<brain16> && kernel::has_registers<binary32>);
  static_assert(!kernel::has_registers<binary64>);
  support::for_each_isa([&](headroom::Isa) {
    CHECK(&kernel::transform_kernels<binary64, binary64>() == &kernel::scalar::transform_row<binary64, binary64>);
    CHECK(&kernel::transform_kernels<binary16, binary64>() == &kernel::scalar::transform_row<binary16, binary64>);
    CHECK(&kernel::transform_kernels<binary64, brain16>() == &kernel::scalar::transform_row<binary64, brain16>);
    CHECK(&kernel::read_kernels<binary64>() == &kernel::scalar::read_row<binary64>);
  });
}

TEST_CASE("an instruction set that this file was not compiled with runs as scalar", "[kernel]") {
  const int before = headroom::shared_v1::chosen_isa.exchange(static_cast<int>(headroom::Isa::neon) + 1);
  CHECK(&kernel::transform_kernels<binary32, binary32>() == &kernel::scalar::transform_row<binary32, binary32>);
  CHECK(&kernel::read_kernels<binary16>() == &kernel::scalar::read_row<binary16>);
  headroom::shared_v1::chosen_isa.store(before);
}

TEST_CASE("lanes are added pairwise: the far halves first", "[kernel]") {
  // 2^53 + 1 is no double: whichever sum a 1 is added to before the 1s have met loses it.
  double lanes[16] = {};
  lanes[0] = 0x1p53;
  lanes[1] = 1.0;
  lanes[9] = 1.0;
  CHECK(kernel::sum_of_lanes(lanes, 16) == 0x1p53 + 2.0);
  double lost[16] = {};
  lost[0] = 0x1p53;
  lost[8] = 1.0;
  lost[1] = 1.0;
  CHECK(kernel::sum_of_lanes(lost, 16) == 0x1p53);
  double all[kernel::sum_lanes];
  for (std::size_t i = 0; i < kernel::sum_lanes; ++i) all[i] = static_cast<double>(i + 1);
  CHECK(kernel::sum_of_lanes(all, kernel::sum_lanes) == 528.0);
  double one[] = {3.0};
  CHECK(kernel::sum_of_lanes(one, 1) == 3.0);
}
