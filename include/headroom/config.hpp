#pragma once

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

// The name of the inline namespace the kernels live in. Two translation units built with different -m flags, or one of them
// with -ffast-math, compile the same inline function to different code, and the linker keeps one copy for both. With the flags
// in the name they are different functions, and each unit keeps its own.
#if defined(__AVX512F__)
#define HEADROOM_DETAIL_BASELINE avx512
#elif defined(__AVX2__)
#define HEADROOM_DETAIL_BASELINE avx2
#elif defined(__AVX__)
#define HEADROOM_DETAIL_BASELINE avx
#elif defined(__SSE4_2__)
#define HEADROOM_DETAIL_BASELINE sse42
#else
#define HEADROOM_DETAIL_BASELINE plain
#endif
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#define HEADROOM_DETAIL_MATH fast
#else
#define HEADROOM_DETAIL_MATH exact
#endif
#if HEADROOM_SIMD
#define HEADROOM_DETAIL_SIMD simd
#else
#define HEADROOM_DETAIL_SIMD scalar
#endif
#define HEADROOM_DETAIL_JOIN(a, b, c) built_##a##_##b##_##c
#define HEADROOM_DETAIL_JOIN_VALUES(a, b, c) HEADROOM_DETAIL_JOIN(a, b, c)
#define HEADROOM_BUILD HEADROOM_DETAIL_JOIN_VALUES(HEADROOM_DETAIL_BASELINE, HEADROOM_DETAIL_MATH, HEADROOM_DETAIL_SIMD)
