#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/kernel/isa/isa_list.hpp>

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

/// All units of a program share the choice, whatever their flags and version, so this never changes: anything different goes
/// into a namespace with another number.
namespace headroom::shared_v1 {

/// The instruction set in use, an Isa as its number; negative until first asked for.
inline std::atomic<int> chosen_isa{-1};

}  // namespace headroom::shared_v1

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

[[nodiscard, gnu::cold]] inline std::string names_of_available_isas() {
  std::string names;
  for (const IsaRow& row : isa_rows) {
    if (!row.can_run()) continue;
    if (!names.empty()) names += ' ';
    names += row.name;
  }
  return names;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_isa_unavailable(const char* asked_by, const char* asked_for) {
  throw_invalid_argument({asked_by, asked_for, " is not available; this program on this CPU has: ", names_of_available_isas()});
}

/// The last that can run is the fastest; HEADROOM_ISA in the environment overrides it.
[[gnu::cold, gnu::noinline]] inline Isa choose_isa() {
  if (!HEADROOM_SIMD) return Isa::scalar;  // other translation units of the program may use SIMD all the same
  const char* asked_for = std::getenv("HEADROOM_ISA");
  const bool overridden = asked_for != nullptr && *asked_for != '\0';
  int best = -1;
  for (int isa = 0; isa < isa_count; ++isa) {
    if (isa_rows[isa].can_run() && (!overridden || std::string_view(asked_for) == isa_rows[isa].name)) best = isa;
  }
  if (best < 0) throw_isa_unavailable("HEADROOM_ISA=", asked_for);
  shared_v1::chosen_isa.store(best, std::memory_order_relaxed);
  return static_cast<Isa>(best);
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
  for (int isa = 0; isa < detail::isa_count; ++isa) {
    if (detail::isa_rows[isa].can_run()) result.push_back(static_cast<Isa>(isa));
  }
  return result;
}

/// Makes all kernels of the program use `isa`, for tests and measurements: all instruction sets give the same results. Throws
/// std::invalid_argument, and changes nothing, if it is not compiled in or the CPU lacks it.
inline void force_isa(Isa isa) {
  const auto row = static_cast<int>(isa);
  if (row < 0 || row >= detail::isa_count || !detail::isa_rows[row].can_run()) {
    detail::throw_isa_unavailable("force_isa: ", to_string(isa));
  }
  shared_v1::chosen_isa.store(row, std::memory_order_relaxed);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
