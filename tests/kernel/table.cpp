#include <headroom/kernel/table.hpp>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"

using headroom::binary16;
using headroom::binary32;
using headroom::binary64;
using headroom::brain16;
namespace detail = headroom::detail;
using detail::Op;

#if !HEADROOM_COMPILED
TEST_CASE("double runs on the scalar kernels, whatever is chosen", "[kernel]") {
  static_assert(detail::has_registers<binary16> && detail::has_registers<brain16> && detail::has_registers<binary32>);
  static_assert(!detail::has_registers<binary64>);
  for (int isa = 0; isa < detail::isa_count; ++isa) {
    CHECK(detail::kernels<Op::scale, binary64>[isa] == detail::scalar::kernel_for<Op::scale, binary64, binary64>());
    CHECK(detail::kernels<Op::cast, binary16, binary64>[isa] == detail::scalar::kernel_for<Op::cast, binary16, binary64>());
    CHECK(detail::kernels<Op::unscale, binary64, brain16>[isa] == detail::scalar::kernel_for<Op::unscale, binary64, brain16>());
    CHECK(detail::kernels<Op::measure, binary64>[isa] == detail::scalar::kernel_for<Op::measure, binary64, binary64>());
  }
}
#endif

TEST_CASE("an instruction set that this file was not compiled with runs as scalar", "[kernel]") {
  const int before = headroom::shared_v1::chosen_isa.exchange(detail::isa_count);
  CHECK(detail::isa_index() == 0);
  headroom::shared_v1::chosen_isa.store(before);
#if !HEADROOM_DETAIL_HAS_NEON
  const auto neon = static_cast<std::size_t>(headroom::Isa::neon);
  CHECK(detail::kernels<Op::scale, binary32>[neon] == detail::kernels<Op::scale, binary32>[0]);
#endif
}

TEST_CASE("lanes are added pairwise: the far halves first", "[kernel]") {
  // 2^53 + 1 is no double: whichever sum a 1 is added to before the 1s have met loses it.
  double lanes[16] = {};
  lanes[0] = 0x1p53;
  lanes[1] = 1.0;
  lanes[9] = 1.0;
  CHECK(detail::sum_of_lanes(lanes, 16) == 0x1p53 + 2.0);
  double lost[16] = {};
  lost[0] = 0x1p53;
  lost[8] = 1.0;
  lost[1] = 1.0;
  CHECK(detail::sum_of_lanes(lost, 16) == 0x1p53);
  double all[detail::sum_lanes];
  for (std::size_t i = 0; i < detail::sum_lanes; ++i) all[i] = static_cast<double>(i + 1);
  CHECK(detail::sum_of_lanes(all, detail::sum_lanes) == 528.0);
  double one[] = {3.0};
  CHECK(detail::sum_of_lanes(one, 1) == 3.0);
}
