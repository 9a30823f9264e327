#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/kernel/isa/isa_list.hpp>
#include <headroom/shared.hpp>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

[[nodiscard]] inline std::string names_of_available_isas() {
  std::string names;
  for (const IsaRow& row : isa_rows) {
    if (!row.cpu_has_it()) continue;
    names += names.empty() ? row.name : std::string(" ") + row.name;
  }
  return names;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_isa_unavailable(const std::string& asked_for) {
  throw_invalid_argument(asked_for + " is not available; this program on this CPU has: " + names_of_available_isas());
}

/// The last available row is the fastest; HEADROOM_ISA in the environment overrides it.
[[gnu::cold, gnu::noinline]] inline Isa choose_isa() {
  if (!HEADROOM_SIMD) return Isa::scalar;  // other translation units of the program may use SIMD all the same
  const char* asked_for = std::getenv("HEADROOM_ISA");
  const bool overridden = asked_for != nullptr && *asked_for != '\0';
  Isa best = Isa::scalar;
  bool found = false;
  for (const IsaRow& row : isa_rows) {
    if (!row.cpu_has_it() || (overridden && std::string(asked_for) != row.name)) continue;
    best = row.isa;
    found = true;
  }
  if (!found) throw_isa_unavailable("HEADROOM_ISA=" + std::string(asked_for));
  shared_v1::chosen_isa.store(static_cast<int>(best), std::memory_order_relaxed);
  return best;
}

}  // namespace detail

/// The instruction set the kernels use now. Chosen at first use: the best one this CPU has, or the one named by the environment
/// variable HEADROOM_ISA (scalar, avx2, avx512, neon); `scalar` if HEADROOM_SIMD is 0. Throws std::invalid_argument if the
/// named one is unknown or not available.
[[nodiscard]] inline Isa active_isa() {
  const int chosen = shared_v1::chosen_isa.load(std::memory_order_relaxed);
  return chosen >= 0 ? static_cast<Isa>(chosen) : detail::choose_isa();
}

/// Those compiled into this program that this CPU has, slowest first; the first is always `scalar`.
[[nodiscard]] inline std::vector<Isa> available_isas() {
  std::vector<Isa> result;
  for (const detail::IsaRow& row : detail::isa_rows) {
    if (row.cpu_has_it()) result.push_back(row.isa);
  }
  return result;
}

/// Makes all kernels of the program use `isa`, for tests and measurements: all instruction sets give the same results. Throws
/// std::invalid_argument, and changes nothing, if it is not compiled in or the CPU lacks it.
inline void force_isa(Isa isa) {
  for (const detail::IsaRow& row : detail::isa_rows) {
    if (row.isa != isa || !row.cpu_has_it()) continue;
    shared_v1::chosen_isa.store(static_cast<int>(isa), std::memory_order_relaxed);
    return;
  }
  detail::throw_isa_unavailable(std::string("force_isa: ") + to_string(isa));
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
