#pragma once

#include <headroom/version.hpp>

#include <cstddef>  // for the standard library's own macros

// Every macro of headroom except the version. You may define those in the first part before including any header, with the same
// value in every translation unit. Those in the second part follow from the compiler.

// 1: errors are exceptions. 0: the message goes to HEADROOM_ERROR_HANDLER, then the program aborts. 0 by default under
// -fno-exceptions.
#ifndef HEADROOM_EXCEPTIONS
#if defined(__cpp_exceptions)
#define HEADROOM_EXCEPTIONS 1
#else
#define HEADROOM_EXCEPTIONS 0
#endif
#endif

// Called with a `const char*` message before abort() if exceptions are off. It need not return.
#ifndef HEADROOM_ERROR_HANDLER
#define HEADROOM_ERROR_HANDLER(message) ::std::fputs(message, stderr)
#endif

// 0: no SIMD code is compiled, only the scalar kernels. For compilers without target attributes, and to see the difference.
#ifndef HEADROOM_SIMD
#define HEADROOM_SIMD 1
#endif

// 1: the kernels are those of the library headroom::compiled, which the program is linked with, and which sets this by itself.
#ifndef HEADROOM_COMPILED
#define HEADROOM_COMPILED 0
#endif

// ---- determined from the compiler; not for users ----

#if HEADROOM_SIMD && (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
#define HEADROOM_DETAIL_HAS_X86 1
#else
#define HEADROOM_DETAIL_HAS_X86 0
#endif
#if HEADROOM_SIMD && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__) && defined(__GNUC__)
#define HEADROOM_DETAIL_HAS_NEON 1
#else
#define HEADROOM_DETAIL_HAS_NEON 0
#endif

// _Float16 is std::float16_t wherever the latter exists, so recognising one recognises both. g++ 12 has it only on x86,
// although its macro says otherwise.
#if defined(__FLT16_MANT_DIG__) && (!defined(__x86_64__) || defined(__SSE2__)) && \
    (defined(__x86_64__) || defined(__clang__) || !defined(__GNUC__) || __GNUC__ >= 13)
#define HEADROOM_DETAIL_HAS_FLOAT16 1
#else
#define HEADROOM_DETAIL_HAS_FLOAT16 0
#endif

// g++ announces __bf16 (and std::bfloat16_t, the same type) with a macro; clang only with its version.
#if defined(__BFLT16_MANT_DIG__) || defined(__ARM_FEATURE_BF16) || \
    (defined(__clang__) && __clang_major__ >= 17 && defined(__SSE2__) && !defined(__apple_build_version__))
#define HEADROOM_DETAIL_HAS_BF16 1
#else
#define HEADROOM_DETAIL_HAS_BF16 0
#endif

// ---- the inline namespace around all of headroom ----

// Two translation units built with different flags, or against different versions, compile the same inline function to
// different code, and the linker keeps one copy for both: perhaps one with instructions the CPU lacks, or one that assumes
// there are no NaNs. With version and flags in the namespace's name they are different functions, and each unit keeps its own.
// This also means that the linker does not find a function of yours that takes one of headroom's types if it is defined in a
// unit with other flags than its caller's. Instances of the standard library's templates, std::vector<float> say, are still
// shared.

#if defined(__AVX512F__)
#define HEADROOM_DETAIL_AVX _avx512
#elif defined(__AVX2__)
#define HEADROOM_DETAIL_AVX _avx2
#elif defined(__AVX__)
#define HEADROOM_DETAIL_AVX _avx
#else
#define HEADROOM_DETAIL_AVX
#endif
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#define HEADROOM_DETAIL_MATH _fastmath
#else
#define HEADROOM_DETAIL_MATH
#endif
#if HEADROOM_EXCEPTIONS
#define HEADROOM_DETAIL_ERRORS
#else
#define HEADROOM_DETAIL_ERRORS _abort
#endif
#if HEADROOM_COMPILED
#define HEADROOM_DETAIL_KERNELS _compiled
#elif HEADROOM_SIMD
#define HEADROOM_DETAIL_KERNELS
#else
#define HEADROOM_DETAIL_KERNELS _scalar
#endif
#if defined(_LIBCPP_VERSION)
#define HEADROOM_DETAIL_LIBRARY _libcxx
#elif defined(_GLIBCXX_DEBUG)
#define HEADROOM_DETAIL_LIBRARY _debug
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define HEADROOM_DETAIL_LIBRARY _oldabi
#else
#define HEADROOM_DETAIL_LIBRARY
#endif
#define HEADROOM_DETAIL_PASTE(major, minor, patch, avx, math, errors, kernels, library) \
  v##major##_##minor##_##patch##avx##math##errors##kernels##library
#define HEADROOM_DETAIL_NAME(...) HEADROOM_DETAIL_PASTE(__VA_ARGS__)
#define HEADROOM_BUILD                                                                                              \
  HEADROOM_DETAIL_NAME(HEADROOM_VERSION_MAJOR, HEADROOM_VERSION_MINOR, HEADROOM_VERSION_PATCH, HEADROOM_DETAIL_AVX, \
                       HEADROOM_DETAIL_MATH, HEADROOM_DETAIL_ERRORS, HEADROOM_DETAIL_KERNELS, HEADROOM_DETAIL_LIBRARY)
#define HEADROOM_DETAIL_BEGIN_NAMESPACE \
  namespace headroom {                  \
  inline namespace HEADROOM_BUILD {
#define HEADROOM_DETAIL_END_NAMESPACE \
  }                                   \
  }
