#pragma once

#include <headroom/detail/error.hpp>

#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#if HEADROOM_DETAIL_HAS_X86
#include <cpuid.h>
#endif

/// All translation units of a program share this, whatever their flags. So it never changes; a successor needs a new number.
namespace headroom::shared_v1 {

/// The instruction set in use, an Isa as an integer; negative before the first use.
inline std::atomic<int> chosen_isa{-1};

}  // namespace headroom::shared_v1

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The instruction sets that have kernels. avx2 means AVX2, F16C and FMA. avx512 means the parts F, BW, VL and DQ of AVX-512.
enum class Isa { scalar, avx2, avx512, neon };

namespace detail {

/// In the order of Isa. Of those that a CPU has, the last is the fastest.
inline constexpr const char* isa_names[] = {"scalar", "avx2", "avx512", "neon"};
inline constexpr int isa_count = sizeof isa_names / sizeof *isa_names;

#if HEADROOM_DETAIL_HAS_X86
/// The best instruction set that the CPU has and whose registers the operating system saves (XCR0: 6 = XMM and YMM, 0xe0 = ZMM
/// and masks). __builtin_cpu_supports would add 4.5 kB of the compiler's library to a program.
[[nodiscard]] inline Isa best_isa_of_cpu() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0, saved = 0;
  constexpr unsigned fma = 1U << 12, osxsave = 1U << 27, f16c = 1U << 29, with_avx2 = fma | osxsave | f16c;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & with_avx2) != with_avx2) return Isa::scalar;
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(edx) : "c"(0));
  constexpr unsigned avx2 = 1U << 5, f = 1U << 16, dq = 1U << 17, bw = 1U << 30, vl = 1U << 31, avx512 = f | dq | bw | vl;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (ebx & avx2) == 0 || (saved & 6U) != 6U) return Isa::scalar;
  return (ebx & avx512) == avx512 && (saved & 0xe6U) == 0xe6U ? Isa::avx512 : Isa::avx2;
}
#endif

/// Whether `isa` is compiled into this program, the CPU has it, and the operating system saves its registers.
[[nodiscard]] inline bool can_run(Isa isa) {
#if HEADROOM_DETAIL_HAS_X86
  if (isa == Isa::avx2 || isa == Isa::avx512) return isa <= best_isa_of_cpu();
#endif
  return isa == Isa::scalar || (HEADROOM_DETAIL_HAS_NEON && isa == Isa::neon);
}

}  // namespace detail

/// The name, as in the environment variable HEADROOM_ISA; "unknown" for a value that Isa does not have.
[[nodiscard]] constexpr const char* to_string(Isa isa) noexcept {
  const auto index = static_cast<int>(isa);
  return index >= 0 && index < detail::isa_count ? detail::isa_names[index] : "unknown";
}

/// The instruction sets that are compiled into this program and that this CPU has, slowest first. The first is always `scalar`.
[[nodiscard]] inline std::vector<Isa> available_isas() {
  std::vector<Isa> result;
  for (int isa = 0; isa < detail::isa_count; ++isa) {
    if (detail::can_run(static_cast<Isa>(isa))) result.push_back(static_cast<Isa>(isa));
  }
  return result;
}

namespace detail {

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_isa_unavailable(const char* asked_by, const char* asked_for) {
  std::string names;
  for (int isa = 0; isa < isa_count; ++isa) {
    if (can_run(static_cast<Isa>(isa))) names.append(" ").append(isa_names[isa]);
  }
  throw_invalid_argument({asked_by, asked_for, " is not available; this program on this CPU has:", names});
}

/// Chooses the fastest instruction set that can run, or the one named by HEADROOM_ISA in the environment.
[[gnu::cold, gnu::noinline]] inline Isa choose_isa() {
  const char* asked_for = std::getenv("HEADROOM_ISA");
  const bool overridden = asked_for != nullptr && *asked_for != '\0';
  int best = -1;
  for (int isa = 0; isa < isa_count; ++isa) {
    if (can_run(static_cast<Isa>(isa)) && (!overridden || std::string_view(asked_for) == isa_names[isa])) best = isa;
  }
  if (best < 0) throw_isa_unavailable("HEADROOM_ISA=", asked_for);
  shared_v1::chosen_isa.store(best, std::memory_order_relaxed);
  return static_cast<Isa>(best);
}

}  // namespace detail

/// The instruction set that the kernels use. It is chosen at first use: the fastest one of this CPU, or the one named by the
/// environment variable HEADROOM_ISA (scalar, avx2, avx512, neon). Throws std::invalid_argument if the named one is unknown or
/// not available. Always `scalar` if HEADROOM_SIMD is 0.
[[nodiscard]] inline Isa active_isa() {
  if (!HEADROOM_SIMD) return Isa::scalar;  // other translation units of the program may use SIMD
  const int chosen = shared_v1::chosen_isa.load(std::memory_order_relaxed);
  return chosen >= 0 ? static_cast<Isa>(chosen) : detail::choose_isa();
}

/// Makes all kernels of the program use `isa`, for tests and measurements. All instruction sets give the same results. Throws
/// std::invalid_argument, and changes nothing, if `isa` is not compiled in or the CPU lacks it.
inline void force_isa(Isa isa) {
  if (!detail::can_run(isa)) detail::throw_isa_unavailable("force_isa: ", to_string(isa));
  shared_v1::chosen_isa.store(static_cast<int>(isa), std::memory_order_relaxed);
}

HEADROOM_DETAIL_END_NAMESPACE
