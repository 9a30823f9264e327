#pragma once

#include <headroom/kernel/isa.hpp>

#include <cstdlib>
#include <string>

#include "support/catch.hpp"

namespace support {

/// Makes the kernels use `isa` during its lifetime.
class ScopedIsa {
 public:
  explicit ScopedIsa(headroom::Isa isa) : before_(headroom::active_isa()) {
    headroom::force_isa(isa);
  }
  ~ScopedIsa() { headroom::force_isa(before_); }
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  headroom::Isa before_;
};

/// Runs `body(isa)` for each instruction set of this CPU. The portable one comes first, because
/// many tests compare the others with it. The environment variable HEADROOM_TEST_ISA limits the
/// loop to the portable instruction set and the named one, which must be available. A failed check
/// names the instruction set.
template <class Body>
void for_each_isa(Body body) {
  const char* const only = std::getenv("HEADROOM_TEST_ISA");
  bool is_found = only == nullptr;
  for (const headroom::Isa isa : headroom::available_isas()) {
    const bool is_named = only != nullptr && std::string(only) == headroom::to_string(isa);
    is_found = is_found || is_named;
    if (only != nullptr && isa != headroom::Isa::portable && !is_named) continue;
    const ScopedIsa scoped(isa);
    INFO("instruction set: " << headroom::to_string(isa));
    body(isa);
  }
  INFO("HEADROOM_TEST_ISA is " << (only != nullptr ? only : ""));
  REQUIRE(is_found);
}

}  // namespace support
