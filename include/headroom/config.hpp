#pragma once

#include <headroom/version.hpp>

#include <cstddef>  // for what the standard library says of itself

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

// ARM's older fp16 type, another one than _Float16.
#if defined(__ARM_FP16_FORMAT_IEEE)
#define HEADROOM_HAS_ARM_FP16 1
#else
#define HEADROOM_HAS_ARM_FP16 0
#endif

// g++ announces __bf16 (and std::bfloat16_t, the same type) with a macro; clang only with its version.
#if defined(__BFLT16_MANT_DIG__) || defined(__ARM_FEATURE_BF16) || \
    (defined(__clang__) && __clang_major__ >= 17 && defined(__SSE2__) && !defined(__apple_build_version__))
#define HEADROOM_HAS_BF16 1
#else
#define HEADROOM_HAS_BF16 0
#endif

// Threads as POSIX has them: pthread_create says that there is none to be had, where std::thread throws.
#ifndef HEADROOM_HAS_PTHREADS
#if defined(__unix__) || defined(__APPLE__)
#define HEADROOM_HAS_PTHREADS 1
#else
#define HEADROOM_HAS_PTHREADS 0
#endif
#endif

// What each shared library has for itself: it is not to outlive the code that it needs.
#if defined(__ELF__) || defined(__APPLE__)
#define HEADROOM_HIDDEN [[gnu::visibility("hidden")]]
#else
#define HEADROOM_HIDDEN
#endif

// The name of the inline namespace around all of headroom. Where two translation units are built with unlike flags, or against
// unlike versions, they compile the same inline function to different code, of which the linker keeps one copy for both: one
// that the CPU may not have, or that takes no NaN for possible. With version and flags in the name they are different
// functions, and each unit keeps its own. It also means that a function of yours that takes a type of headroom's, and is
// defined in a unit with other flags than its caller's, is not found by the linker. What has to be one for all of them is in
// shared.hpp. The code of the standard library's own templates, std::vector<float> say, is shared in spite of it: what the
// linker keeps of that has to suit the oldest CPU, whose units therefore come first when linking.

// What compilers use by themselves where the flags allow it. Two units get one name only where every CPU that runs the one runs
// the other, too; so of what no CPU has without the other, the greater is enough, and what only intrinsics reach is left out.
#if defined(__x86_64__) || defined(__i386__)
#if defined(__AVX10_2__)
#define HEADROOM_DETAIL_REGISTERS _avx10
#elif defined(__AVX512BW__) || defined(__AVX512VL__) || defined(__AVX512DQ__)
#define HEADROOM_DETAIL_REGISTERS _avx512bw
#elif defined(__AVX512ER__)
#define HEADROOM_DETAIL_REGISTERS _avx512er
#elif defined(__AVX512F__)
#define HEADROOM_DETAIL_REGISTERS _avx512f
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
#elif defined(__SSE2__) && defined(__i386__)
#define HEADROOM_DETAIL_REGISTERS _sse2
#else
#define HEADROOM_DETAIL_REGISTERS
#endif
#if defined(__AVX512VBMI2__) || defined(__AVX512BITALG__) || defined(__AVX512VPOPCNTDQ__)
#define HEADROOM_DETAIL_INTEGERS _vbmi2
#elif defined(__AVX512VBMI__) || defined(__AVX512IFMA__)
#define HEADROOM_DETAIL_INTEGERS _vbmi
#else
#define HEADROOM_DETAIL_INTEGERS
#endif
#if defined(__AVX512FP16__)
#define HEADROOM_DETAIL_PRODUCTS _fp16
#elif defined(__AVX512BF16__)
#define HEADROOM_DETAIL_PRODUCTS _bf16
#elif defined(__AVX512VNNI__)
#define HEADROOM_DETAIL_PRODUCTS _vnni
#else
#define HEADROOM_DETAIL_PRODUCTS
#endif
#if defined(__AVXVNNIINT16__)
#define HEADROOM_DETAIL_LATE_AVX _avxvnniint16
#elif defined(__AVXVNNIINT8__) || defined(__AVXIFMA__) || defined(__AVXNECONVERT__) || defined(__CMPCCXADD__)
#define HEADROOM_DETAIL_LATE_AVX _avxvnniint8
#elif defined(__AVXVNNI__)
#define HEADROOM_DETAIL_LATE_AVX _avxvnni
#elif defined(__GFNI__)
#define HEADROOM_DETAIL_LATE_AVX _gfni
#else
#define HEADROOM_DETAIL_LATE_AVX
#endif
#if defined(__TBM__)
#define HEADROOM_DETAIL_AMD _tbm
#elif defined(__XOP__) || defined(__FMA4__)
#define HEADROOM_DETAIL_AMD _xop
#elif defined(__SSE4A__)
#define HEADROOM_DETAIL_AMD _sse4a
#else
#define HEADROOM_DETAIL_AMD
#endif
#if defined(__FMA__)
#define HEADROOM_DETAIL_FMA _fma
#else
#define HEADROOM_DETAIL_FMA
#endif
#if defined(__F16C__)
#define HEADROOM_DETAIL_F16C _f16c
#else
#define HEADROOM_DETAIL_F16C
#endif
#if defined(__BMI2__)
#define HEADROOM_DETAIL_BITS _bmi2
#elif defined(__BMI__)
#define HEADROOM_DETAIL_BITS _bmi
#else
#define HEADROOM_DETAIL_BITS
#endif
#if defined(__LZCNT__)
#define HEADROOM_DETAIL_COUNTS _lzcnt
#elif defined(__POPCNT__)
#define HEADROOM_DETAIL_COUNTS _popcnt
#else
#define HEADROOM_DETAIL_COUNTS
#endif
#if defined(__APX_F__)
#define HEADROOM_DETAIL_MOVES _apx
#elif defined(__MOVBE__)
#define HEADROOM_DETAIL_MOVES _movbe
#else
#define HEADROOM_DETAIL_MOVES
#endif
#define HEADROOM_DETAIL_CPU                                                                                      \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_REGISTERS, HEADROOM_DETAIL_INTEGERS, HEADROOM_DETAIL_PRODUCTS,            \
                       HEADROOM_DETAIL_LATE_AVX, HEADROOM_DETAIL_AMD, HEADROOM_DETAIL_FMA, HEADROOM_DETAIL_F16C, \
                       HEADROOM_DETAIL_BITS, HEADROOM_DETAIL_COUNTS, HEADROOM_DETAIL_MOVES)
#elif defined(__aarch64__)
#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS
#define HEADROOM_DETAIL_REGISTERS _svebits
#elif defined(__ARM_FEATURE_SVE2)
#define HEADROOM_DETAIL_REGISTERS _sve2
#elif defined(__ARM_FEATURE_SVE)
#define HEADROOM_DETAIL_REGISTERS _sve
#else
#define HEADROOM_DETAIL_REGISTERS
#endif
#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC) || defined(__ARM_FEATURE_FP16_SCALAR_ARITHMETIC)
#define HEADROOM_DETAIL_FP16 _fp16
#else
#define HEADROOM_DETAIL_FP16
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8) || defined(__ARM_FEATURE_BF16)
#define HEADROOM_DETAIL_PRODUCTS _i8mm
#elif defined(__ARM_FEATURE_DOTPROD)
#define HEADROOM_DETAIL_PRODUCTS _dotprod
#else
#define HEADROOM_DETAIL_PRODUCTS
#endif
#if defined(__ARM_FEATURE_SHA3)
#define HEADROOM_DETAIL_SHA3 _sha3
#else
#define HEADROOM_DETAIL_SHA3
#endif
#if defined(__ARM_FEATURE_CSSC)
#define HEADROOM_DETAIL_LEVEL _v89
#elif defined(__ARM_FEATURE_MOPS)
#define HEADROOM_DETAIL_LEVEL _v88
#elif defined(__ARM_FEATURE_JCVT) || defined(__ARM_FEATURE_PAUTH)
#define HEADROOM_DETAIL_LEVEL _v83
#elif defined(__ARM_FEATURE_RCPC)
#define HEADROOM_DETAIL_LEVEL _rcpc
#elif defined(__ARM_FEATURE_ATOMICS) || defined(__ARM_FEATURE_QRDMX)
#define HEADROOM_DETAIL_LEVEL _v81
#else
#define HEADROOM_DETAIL_LEVEL
#endif
#define HEADROOM_DETAIL_CPU                                                                                             \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_REGISTERS, HEADROOM_DETAIL_FP16, HEADROOM_DETAIL_PRODUCTS, HEADROOM_DETAIL_SHA3, \
                       HEADROOM_DETAIL_LEVEL, , , , , )
#else
#define HEADROOM_DETAIL_CPU
#endif

// What changes the meaning of code or the layout of types.
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
#if defined(_LIBCPP_VERSION)
#define HEADROOM_DETAIL_LIBRARY _libcxx
#elif defined(_GLIBCXX_DEBUG)
#define HEADROOM_DETAIL_LIBRARY _debug
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define HEADROOM_DETAIL_LIBRARY _oldabi
#else
#define HEADROOM_DETAIL_LIBRARY
#endif
#define HEADROOM_DETAIL_VERSION \
  HEADROOM_DETAIL_JOIN(v, HEADROOM_VERSION_MAJOR, _, HEADROOM_VERSION_MINOR, _, HEADROOM_VERSION_PATCH, , , , )

#define HEADROOM_DETAIL_PASTE(a, b, c, d, e, f, g, h, i, j) a##b##c##d##e##f##g##h##i##j
#define HEADROOM_DETAIL_JOIN(...) HEADROOM_DETAIL_PASTE(__VA_ARGS__)
#define HEADROOM_BUILD                                                                                           \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_VERSION, HEADROOM_DETAIL_CPU, HEADROOM_DETAIL_MATH, HEADROOM_DETAIL_SIMD, \
                       HEADROOM_DETAIL_ERRORS, HEADROOM_DETAIL_LIBRARY, , , , )
