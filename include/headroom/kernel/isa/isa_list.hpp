#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/isa/cpu.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The instruction sets there are kernels for. Each is named by its largest part: avx2 means AVX2 with F16C and FMA, avx512
/// means F, BW, VL and DQ of AVX-512. Numbers are never reused: see shared.hpp.
enum class Isa { scalar, avx2, avx512, neon };

namespace detail {

inline constexpr int isa_count = 4;

}  // namespace detail

/// The name HEADROOM_ISA takes.
[[nodiscard]] constexpr const char* to_string(Isa isa) noexcept {
  constexpr const char* names[] = {"scalar", "avx2", "avx512", "neon"};
  return static_cast<int>(isa) >= 0 && static_cast<int>(isa) < detail::isa_count ? names[static_cast<int>(isa)] : "unknown";
}

namespace detail {

struct IsaRow {
  Isa isa;
  const char* name;
  bool (*cpu_has_it)();
};

[[nodiscard]] inline bool always() { return true; }

/// What this program was compiled with, slowest first. To add an instruction set: a file beside this one, included at the end
/// of kernel/table.hpp, and a row here.
inline constexpr IsaRow isa_rows[] = {
    {Isa::scalar, to_string(Isa::scalar), &always},
#if HEADROOM_DETAIL_HAS_AVX2
    {Isa::avx2, to_string(Isa::avx2), &cpu_has_avx2},
#endif
#if HEADROOM_DETAIL_HAS_AVX512
    {Isa::avx512, to_string(Isa::avx512), &cpu_has_avx512},
#endif
#if HEADROOM_DETAIL_HAS_NEON
    {Isa::neon, to_string(Isa::neon), &always},
#endif
};

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
