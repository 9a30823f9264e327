#pragma once

#include <headroom/config.hpp>
#include <headroom/kernel/isa/cpu.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The instruction sets there are kernels for. Each is named by its largest part: avx2 means AVX2 with F16C and FMA, avx512
/// means F, BW, VL and DQ of AVX-512. Numbers are never reused: see shared.hpp.
enum class Isa { scalar, avx2, avx512, neon };

namespace detail {

struct IsaRow {
  const char* name;
  bool (*can_run)();  // compiled into this program, and the CPU has it
};

[[nodiscard]] inline bool on_every_cpu() { return true; }
[[nodiscard]] inline bool on_no_cpu() { return false; }

/// In the order of Isa; of those a CPU has, the last is the fastest. To add an instruction set: a file beside this one, which
/// kernel/table.hpp includes, and a name and a row here.
inline constexpr IsaRow isa_rows[] = {
    {"scalar", &on_every_cpu},
#if HEADROOM_DETAIL_HAS_X86
    {"avx2", &cpu_has_avx2},
    {"avx512", &cpu_has_avx512},
#else
    {"avx2", &on_no_cpu},
    {"avx512", &on_no_cpu},
#endif
    {"neon", HEADROOM_DETAIL_HAS_NEON ? &on_every_cpu : &on_no_cpu},
};
inline constexpr int isa_count = sizeof isa_rows / sizeof *isa_rows;

/// The kernels of an instruction set; each file specialises it. One that is not compiled in runs as scalar.
template <Isa isa>
struct IsaKernels;

}  // namespace detail

/// The name HEADROOM_ISA takes.
[[nodiscard]] constexpr const char* to_string(Isa isa) noexcept {
  const auto row = static_cast<int>(isa);
  return row >= 0 && row < detail::isa_count ? detail::isa_rows[row].name : "unknown";
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
