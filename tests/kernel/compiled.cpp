#include <headroom/headroom.hpp>
#include <headroom/kernel/compiled.hpp>

#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/isa.hpp"

using namespace headroom;
using boundary_v4::Op;

namespace {

/// A format that the library does not have.
struct binary24 : ieee_format<std::uint32_t, 7, 16> {};

}  // namespace

TEST_CASE("The library has the formats of headroom's own, but not their saturating casts",
          "[kernel]") {
  static_assert(detail::is_compiled<binary16, binary32> && detail::is_compiled<e4m3, e4m3>);
  static_assert(!detail::is_compiled<binary32, detail::saturating<e4m3>>);
  static_assert(!detail::is_compiled<binary24, binary32> &&
                !detail::is_compiled<binary32, binary24>);
}

TEST_CASE("A format of one's own runs without the library", "[kernel]") {
  support::for_each_isa([](Isa isa) {
    const std::uint32_t one = 63U << 16, half_of_it = 62U << 16;
    const std::uint32_t source[] = {one, half_of_it, one};
    std::uint32_t destination[3] = {};
    const boundary_v4::Piece piece{source, destination, 3};
    boundary_v4::Found found{0, 0.0};
    detail::kernels<Op::scale, binary24>[static_cast<int>(isa)](
        &piece, &piece + 1, boundary_v4::Pass{Op::scale, 2.0}, found);
    CHECK(destination[0] == 64U << 16);
    CHECK(destination[1] == one);
    CHECK(detail::report_of(found).max_abs == 2.0);
  });
}

#if HEADROOM_COMPILED
TEST_CASE("No kernel is missing in the library", "[kernel]") {
  int found = 0;
  for (const auto& sources : detail::CompiledKernels::compiled.kernels) {
    for (const auto& destinations : sources) {
      for (const auto& isas : destinations) {
        found += isas[0] != nullptr ? 1 : 0;
        for (const auto kernel : isas) CHECK((kernel != nullptr) == (isas[0] != nullptr));
      }
    }
  }
  // e2m1 is only for blocks
  const int codes = 3, others = detail::CompiledFormats::size - codes, formats = others + 2;
  const int transforms = 5 * formats * formats, reads = 3 * formats, quantizing = formats * 2,
            blocks = 2 * codes * others;
  CHECK(found == transforms + reads + quantizing + blocks);
}
#endif
