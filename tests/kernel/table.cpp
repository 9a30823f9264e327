#include <headroom/kernel/table.hpp>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"

using namespace headroom;
using namespace support;
namespace detail = headroom::detail;
using detail::Op;

#if !HEADROOM_COMPILED
TEST_CASE("double runs on the scalar kernels, whatever is chosen", "[kernel]") {
  static_assert(detail::has_registers<binary16> && detail::has_registers<brain16> &&
                detail::has_registers<binary32>);
  static_assert(!detail::has_registers<binary64>);
  for (int isa = 0; isa < detail::isa_count; ++isa) {
    CHECK(detail::kernels<Op::scale, binary64>[isa] ==
          detail::scalar::Kernels::find<Op::scale, binary64, binary64>());
    CHECK(detail::kernels<Op::cast, binary16, binary64>[isa] ==
          detail::scalar::Kernels::find<Op::cast, binary16, binary64>());
    CHECK(detail::kernels<Op::unscale, binary64, brain16>[isa] ==
          detail::scalar::Kernels::find<Op::unscale, binary64, brain16>());
    CHECK(detail::kernels<Op::measure, binary64>[isa] ==
          detail::scalar::Kernels::find<Op::measure, binary64, binary64>());
  }
}
#endif

#if !HEADROOM_DETAIL_HAS_NEON
TEST_CASE("an instruction set that this file was not compiled with runs as portable", "[kernel]") {
  const auto neon = static_cast<std::size_t>(Isa::neon);
  CHECK(detail::kernels<Op::scale, binary32>[neon] == detail::kernels<Op::scale, binary32>[0]);
}
#endif
