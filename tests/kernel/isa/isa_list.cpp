#include <headroom/kernel/isa/isa_list.hpp>

#include <string>

#include "support/catch.hpp"

using headroom::Isa;
using headroom::detail::isa_count;

namespace {

bool can_run(Isa isa) { return headroom::detail::isa_rows[static_cast<int>(isa)].can_run(); }

}  // namespace

TEST_CASE("names of the instruction sets", "[kernel]") {
  CHECK(std::string(to_string(Isa::scalar)) == "scalar");
  CHECK(std::string(to_string(Isa::avx2)) == "avx2");
  CHECK(std::string(to_string(Isa::avx512)) == "avx512");
  CHECK(std::string(to_string(Isa::neon)) == "neon");
  CHECK(std::string(to_string(static_cast<Isa>(99))) == "unknown");
  CHECK(std::string(to_string(static_cast<Isa>(-1))) == "unknown");
}

TEST_CASE("each instruction set has a row, and those that were compiled in can run", "[kernel]") {
  CHECK(isa_count == 4);
  CHECK(can_run(Isa::scalar));
  for (const Isa isa : {Isa::avx2, Isa::avx512}) CHECK((HEADROOM_DETAIL_HAS_X86 || !can_run(isa)));
  CHECK(can_run(Isa::neon) == (HEADROOM_DETAIL_HAS_NEON != 0));
  CHECK((can_run(Isa::avx2) || !can_run(Isa::avx512)));  // no CPU has the one without the other
}
