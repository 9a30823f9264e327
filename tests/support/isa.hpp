#pragma once

#include <headroom/kernel/isa.hpp>

#include <cstdlib>
#include <string>

#include "support/catch.hpp"

namespace support {

/// Makes the kernels use `isa` for as long as it lives.
class ScopedIsa {
 public:
  explicit ScopedIsa(headroom::Isa isa) : before_(headroom::active_isa()) { headroom::force_isa(isa); }
  ~ScopedIsa() { headroom::force_isa(before_); }
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  headroom::Isa before_;
};

/// Runs `body(isa)` once for each instruction set of this CPU, the scalar one first, which many compare the others with; where
/// the environment variable HEADROOM_TEST_ISA is set, only for that one and the scalar one. A failed check names the one in
/// use.
template <class Body>
void for_each_isa(Body body) {
  const char* const only = std::getenv("HEADROOM_TEST_ISA");
  for (const headroom::Isa isa : headroom::available_isas()) {
    if (only != nullptr && isa != headroom::Isa::scalar && std::string(only) != headroom::to_string(isa)) continue;
    const ScopedIsa scoped(isa);
    INFO("instruction set: " << headroom::to_string(isa));
    body(isa);
  }
}

}  // namespace support
