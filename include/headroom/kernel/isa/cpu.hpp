#pragma once

#include <headroom/config.hpp>

#if HEADROOM_DETAIL_HAS_X86

#include <cpuid.h>

// What lies between BEGIN and END is compiled for CPUs that have these instruction sets, whatever the flags of the including
// file are.
#define HEADROOM_DETAIL_TARGET_AVX2 "avx2,f16c,fma"
#define HEADROOM_DETAIL_TARGET_AVX512 "avx512f,avx512bw,avx512vl,avx512dq"
#define HEADROOM_DETAIL_PRAGMA(...) _Pragma(#__VA_ARGS__)
#if defined(__clang__)
#define HEADROOM_DETAIL_BEGIN_TARGET(isa) \
  HEADROOM_DETAIL_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define HEADROOM_DETAIL_END_TARGET _Pragma("clang attribute pop")
#else
#define HEADROOM_DETAIL_BEGIN_TARGET(isa) _Pragma("GCC push_options") HEADROOM_DETAIL_PRAGMA(GCC target(isa))
#define HEADROOM_DETAIL_END_TARGET _Pragma("GCC pop_options")
#endif

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

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

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom

#endif
