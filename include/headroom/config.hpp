#pragma once

#include <headroom/version.hpp>

#if __cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#error "headroom needs C++17"
#endif
#include <cstddef>  // for the standard library's own macros

// The macros of headroom. Those of the first part may be defined before including any header, alike in every translation unit.

/// 1: errors are exceptions. 0, the default under -fno-exceptions: HEADROOM_ERROR_HANDLER gets the message, then abort().
#if !defined(HEADROOM_EXCEPTIONS) && defined(__cpp_exceptions)
#define HEADROOM_EXCEPTIONS 1
#elif !defined(HEADROOM_EXCEPTIONS)
#define HEADROOM_EXCEPTIONS 0
#endif

// Called with a `const char*` message before abort(), if HEADROOM_EXCEPTIONS is 0. It may return or not.
#ifndef HEADROOM_ERROR_HANDLER
#define HEADROOM_ERROR_HANDLER(message) ::std::fputs(message, stderr)
#endif

// 0: only the scalar kernels are compiled. For compilers without target attributes, and for comparisons.
#ifndef HEADROOM_SIMD
#define HEADROOM_SIMD 1
#endif

/// 0, the default if the standard library has no threads: parallel(n) is the calling thread; there is no AsyncGradScaler.
#if !defined(HEADROOM_THREADS) && ((defined(__GLIBCXX__) && !defined(_GLIBCXX_HAS_GTHREADS)) || \
                                   defined(_LIBCPP_HAS_NO_THREADS) || (defined(_LIBCPP_HAS_THREADS) && !_LIBCPP_HAS_THREADS))
#define HEADROOM_THREADS 0
#elif !defined(HEADROOM_THREADS)
#define HEADROOM_THREADS 1
#endif

// 1: the kernels come from the library headroom::compiled. Its CMake target and its pkg-config file set this.
#ifndef HEADROOM_COMPILED
#define HEADROOM_COMPILED 0
#endif

// ---- determined from the compiler; not for users ----

// Host and device: before each function that kernels call, too. It uses no std::max and takes no address of a constant.
#if defined(__CUDACC__) || defined(__CUDA__) || defined(__HIP__)
#define HEADROOM_DETAIL_HD __host__ __device__
#else
#define HEADROOM_DETAIL_HD
#endif

// 1: g++ or clang. 0: another compiler, such as cl, without their builtins, assembly and vectors. A vector then has one lane.
#if defined(__GNUC__) || defined(__clang__)
#define HEADROOM_DETAIL_IS_GNU 1
#define HEADROOM_DETAIL_VECTOR(bytes) __attribute__((vector_size(bytes)))
#define HEADROOM_DETAIL_LANE(vector, i) (vector)[i]
#elif defined(_MSVC_TRADITIONAL) && _MSVC_TRADITIONAL
#error "headroom needs /Zc:preprocessor"
#else
#include <cmath>
#define HEADROOM_DETAIL_IS_GNU 0
#define HEADROOM_DETAIL_VECTOR(bytes)
#define HEADROOM_DETAIL_LANE(vector, i) (vector)
#endif

#if HEADROOM_SIMD && defined(__x86_64__) && defined(__GNUC__)
#define HEADROOM_DETAIL_HAS_X86 1
#else
#define HEADROOM_DETAIL_HAS_X86 0
#endif
#if HEADROOM_SIMD && defined(__aarch64__) && defined(__ARM_NEON) && !defined(__AARCH64EB__) && defined(__GNUC__)
#define HEADROOM_DETAIL_HAS_NEON 1
#else
#define HEADROOM_DETAIL_HAS_NEON 0
#endif

// _Float16, which is std::float16_t if that exists. g++ 12 has it only on x86, although its macro says otherwise.
#if defined(__FLT16_MANT_DIG__) && (!defined(__x86_64__) || defined(__SSE2__)) && \
    (defined(__x86_64__) || defined(__clang__) || !defined(__GNUC__) || __GNUC__ >= 13)
#define HEADROOM_DETAIL_HAS_FLOAT16 1
#else
#define HEADROOM_DETAIL_HAS_FLOAT16 0
#endif

// __bf16, which is std::bfloat16_t if that exists. g++ has a macro for it; clang is judged by its version.
#if defined(__BFLT16_MANT_DIG__) || defined(__ARM_FEATURE_BF16) || \
    (defined(__clang__) && __clang_major__ >= 17 && defined(__SSE2__) && !defined(__apple_build_version__))
#define HEADROOM_DETAIL_HAS_BF16 1
#else
#define HEADROOM_DETAIL_HAS_BF16 0
#endif

// ---- the inline namespace around all of headroom ----

// The linker keeps one copy of an inline function that several units have compiled, each with its own flags. That copy might
// use instructions the CPU lacks, or assume that there are no NaNs. So the namespace's name has version and flags in it.
// Functions of yours that take headroom's types link only between units with equal flags.

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
// Compilers refuse `try` and `catch` under -fno-exceptions.
#if HEADROOM_EXCEPTIONS
#define HEADROOM_DETAIL_ERRORS
#define HEADROOM_DETAIL_TRY try
#define HEADROOM_DETAIL_CATCH catch (...)
#else
#define HEADROOM_DETAIL_ERRORS _abort
#define HEADROOM_DETAIL_TRY if (true)
#define HEADROOM_DETAIL_CATCH else
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
#if HEADROOM_THREADS
#define HEADROOM_DETAIL_TASKS
#else
#define HEADROOM_DETAIL_TASKS _nothreads
#endif
#define HEADROOM_DETAIL_PASTE(major, minor, patch, avx, math, errors, kernels, library, tasks) \
  v##major##_##minor##_##patch##avx##math##errors##kernels##library##tasks
#define HEADROOM_DETAIL_NAME(...) HEADROOM_DETAIL_PASTE(__VA_ARGS__)
/// The name of the inline namespace.
#define HEADROOM_BUILD                                                                                                 \
  HEADROOM_DETAIL_NAME(HEADROOM_VERSION_MAJOR, HEADROOM_VERSION_MINOR, HEADROOM_VERSION_PATCH, HEADROOM_DETAIL_AVX,    \
                       HEADROOM_DETAIL_MATH, HEADROOM_DETAIL_ERRORS, HEADROOM_DETAIL_KERNELS, HEADROOM_DETAIL_LIBRARY, \
                       HEADROOM_DETAIL_TASKS)
#define HEADROOM_DETAIL_BEGIN_NAMESPACE \
  namespace headroom {                  \
  inline namespace HEADROOM_BUILD {
#define HEADROOM_DETAIL_END_NAMESPACE \
  }                                   \
  }
