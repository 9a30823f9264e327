#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_X86
#include <cpuid.h>
#endif

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The instruction sets there are kernels for. Each is named by its largest part: avx2 means AVX2 with F16C and FMA, avx512
/// means F, BW, VL and DQ of AVX-512. Numbers are never reused: units of other versions share the choice.
enum class Isa { scalar, avx2, avx512, neon };

namespace detail {

#if HEADROOM_DETAIL_HAS_X86
/// Whether the operating system saves these parts of the register file (XCR0: 2 = XMM, 4 = YMM, 0xe0 = ZMM and masks). The CPU
/// having an instruction set is not enough. Own cpuid, because __builtin_cpu_supports does not know every name on every
/// compiler.
[[nodiscard]] inline bool os_saves_registers(unsigned mask) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned osxsave = 1U << 27;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & osxsave) == 0) return false;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & mask) == mask;
}

/// AVX2, F16C and FMA.
[[nodiscard]] inline bool read_cpu_has_avx2() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned f16c = 1U << 29, avx = 1U << 28, fma = 1U << 12, avx2 = 1U << 5;
  constexpr unsigned needed = f16c | avx | fma;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & needed) != needed) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (ebx & avx2) == 0) return false;
  return os_saves_registers(2U | 4U);
}

/// F, BW, VL and DQ; every CPU with these has AVX2, F16C and FMA.
[[nodiscard]] inline bool read_cpu_has_avx512() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned f = 1U << 16, dq = 1U << 17, bw = 1U << 30, vl = 1U << 31;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (ebx & (f | dq | bw | vl)) != (f | dq | bw | vl)) return false;
  return read_cpu_has_avx2() && os_saves_registers(2U | 4U | 0xe0U);
}

// Asked once: in a virtual machine cpuid takes tens of microseconds.
[[nodiscard]] inline bool cpu_has_avx2() {
  static const bool has = read_cpu_has_avx2();
  return has;
}
[[nodiscard]] inline bool cpu_has_avx512() {
  static const bool has = read_cpu_has_avx512();
  return has;
}
#endif

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
