#pragma once

#include <headroom/version.hpp>

// Every macro of headroom, but for the version. A user may define the ones in the first part before including any header (the
// same value in every translation unit); the second part is worked out from the compiler.

// 1: errors are exceptions. 0: the message goes to HEADROOM_ERROR_HANDLER, then the program aborts. Follows -fno-exceptions.
#ifndef HEADROOM_EXCEPTIONS
#if defined(__cpp_exceptions)
#define HEADROOM_EXCEPTIONS 1
#else
#define HEADROOM_EXCEPTIONS 0
#endif
#endif

// Called with a `const char*` message before abort() where exceptions are off. It may itself not return.
#ifndef HEADROOM_ERROR_HANDLER
#define HEADROOM_ERROR_HANDLER(message) ::std::fputs(message, stderr)
#endif

// 0: no SIMD code is compiled, only the scalar kernels. For compilers without target attributes, and for a look at the
// difference.
#ifndef HEADROOM_SIMD
#define HEADROOM_SIMD 1
#endif

// Results are the same bits on every target that computes in float and double. The x87 unit (32-bit x86 without -msse2
// -mfpmath=sse, or -mfpmath=387) rounds doubles twice: there gradients of double, and norms, may be off in their last bits.

// ---- worked out from the compiler; not for users ----

#if HEADROOM_SIMD && (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#define HEADROOM_HAS_AVX2 1
#define HEADROOM_HAS_AVX512 1
#else
#define HEADROOM_HAS_AVX2 0
#define HEADROOM_HAS_AVX512 0
#endif
#if HEADROOM_SIMD && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__) && defined(__GNUC__)
#define HEADROOM_HAS_NEON 1
#else
#define HEADROOM_HAS_NEON 0
#endif

// _Float16 is std::float16_t wherever the latter exists, so recognising one recognises both. g++ 12 has it on x86 only, though
// its macro says otherwise.
#if defined(__FLT16_MANT_DIG__) && (!defined(__x86_64__) || defined(__SSE2__)) && \
    (defined(__x86_64__) || defined(__clang__) || !defined(__GNUC__) || __GNUC__ >= 13)
#define HEADROOM_HAS_FLOAT16 1
#else
#define HEADROOM_HAS_FLOAT16 0
#endif

// g++ announces __bf16 (and std::bfloat16_t, the same type) with a macro; clang only with its version.
#if defined(__BFLT16_MANT_DIG__) || defined(__ARM_FEATURE_BF16) || \
    (defined(__clang__) && __clang_major__ >= 17 && defined(__SSE2__) && !defined(__apple_build_version__))
#define HEADROOM_HAS_BF16 1
#else
#define HEADROOM_HAS_BF16 0
#endif

// The name of the inline namespace around all of headroom. Where two translation units are built with unlike flags, or against
// unlike versions, they compile the same inline function to different code, of which the linker keeps one copy for both: one
// that the CPU may not have, or that takes no NaN for possible. With version and flags in the name they are different
// functions, and each unit keeps its own. It also means that a function of yours that takes a type of headroom's, and is
// defined in a unit with other flags than its caller's, is not found by the linker. What has to be one for all of them is in
// shared.hpp.

// What compilers use by themselves where the flags allow it, a token each: the widest registers first, and then what may come
// with them or not.
#if defined(__AVX512F__)
#define HEADROOM_DETAIL_REGISTERS _avx512
#elif defined(__AVX2__)
#define HEADROOM_DETAIL_REGISTERS _avx2
#elif defined(__AVX__)
#define HEADROOM_DETAIL_REGISTERS _avx
#elif defined(__SSE4_2__)
#define HEADROOM_DETAIL_REGISTERS _sse42
#elif defined(__SSE4_1__)
#define HEADROOM_DETAIL_REGISTERS _sse41
#elif defined(__SSSE3__)
#define HEADROOM_DETAIL_REGISTERS _ssse3
#elif defined(__SSE3__)
#define HEADROOM_DETAIL_REGISTERS _sse3
#elif defined(__ARM_FEATURE_SVE2)
#define HEADROOM_DETAIL_REGISTERS _sve2
#elif defined(__ARM_FEATURE_SVE)
#define HEADROOM_DETAIL_REGISTERS _sve
#else
#define HEADROOM_DETAIL_REGISTERS
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && defined(__AVX512CD__)
#define HEADROOM_DETAIL_AVX512_BASE bwvldqcd
#elif defined(__AVX512BW__) || defined(__AVX512VL__) || defined(__AVX512DQ__) || defined(__AVX512CD__)
#define HEADROOM_DETAIL_AVX512_BASE part
#else
#define HEADROOM_DETAIL_AVX512_BASE
#endif
#if defined(__AVX512FP16__) || defined(__AVX512BF16__)
#define HEADROOM_DETAIL_AVX512_MORE fp
#elif defined(__AVX512VBMI__) || defined(__AVX512IFMA__) || defined(__AVX512VPOPCNTDQ__) || defined(__AVX512VNNI__)
#define HEADROOM_DETAIL_AVX512_MORE vbmi
#else
#define HEADROOM_DETAIL_AVX512_MORE
#endif
#if defined(__FMA__)
#define HEADROOM_DETAIL_FMA _fma
#elif defined(__FMA4__)
#define HEADROOM_DETAIL_FMA _fma4
#else
#define HEADROOM_DETAIL_FMA
#endif
#if defined(__F16C__)
#define HEADROOM_DETAIL_F16C _f16c
#else
#define HEADROOM_DETAIL_F16C
#endif
#if defined(__BMI2__)
#define HEADROOM_DETAIL_BMI _bmi2
#elif defined(__BMI__) || defined(__TBM__)
#define HEADROOM_DETAIL_BMI _bmi
#else
#define HEADROOM_DETAIL_BMI
#endif
#if defined(__LZCNT__)
#define HEADROOM_DETAIL_COUNTS _lzcnt
#elif defined(__POPCNT__)
#define HEADROOM_DETAIL_COUNTS _popcnt
#else
#define HEADROOM_DETAIL_COUNTS
#endif
#if defined(__MOVBE__)
#define HEADROOM_DETAIL_OTHER _movbe
#elif defined(__ARM_FEATURE_ATOMICS)
#define HEADROOM_DETAIL_OTHER _lse
#else
#define HEADROOM_DETAIL_OTHER
#endif
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(__ASSOCIATIVE_MATH__) || \
    defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#define HEADROOM_DETAIL_MATH _fastmath
#else
#define HEADROOM_DETAIL_MATH
#endif
#if HEADROOM_SIMD
#define HEADROOM_DETAIL_SIMD
#else
#define HEADROOM_DETAIL_SIMD _scalar
#endif
#if HEADROOM_EXCEPTIONS
#define HEADROOM_DETAIL_ERRORS
#else
#define HEADROOM_DETAIL_ERRORS _abort
#endif
#define HEADROOM_DETAIL_JOIN(a, b, c, d, e, f, g, h, i, j, k, l, m, n) v##a##_##b##_##c##d##e##f##g##h##i##j##k##l##m##n
#define HEADROOM_DETAIL_JOIN_VALUES(...) HEADROOM_DETAIL_JOIN(__VA_ARGS__)
#define HEADROOM_BUILD                                                                                                \
  HEADROOM_DETAIL_JOIN_VALUES(HEADROOM_VERSION_MAJOR, HEADROOM_VERSION_MINOR, HEADROOM_VERSION_PATCH,                 \
                              HEADROOM_DETAIL_REGISTERS, HEADROOM_DETAIL_AVX512_BASE, HEADROOM_DETAIL_AVX512_MORE,    \
                              HEADROOM_DETAIL_FMA, HEADROOM_DETAIL_F16C, HEADROOM_DETAIL_BMI, HEADROOM_DETAIL_COUNTS, \
                              HEADROOM_DETAIL_OTHER, HEADROOM_DETAIL_MATH, HEADROOM_DETAIL_SIMD, HEADROOM_DETAIL_ERRORS)
