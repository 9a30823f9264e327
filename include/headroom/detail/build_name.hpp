#pragma once

#include <headroom/config.hpp>

// HEADROOM_BUILD is the name of the inline namespace around all of headroom. Two translation units built with different flags,
// or against different versions, compile the same inline function to different code, and the linker keeps one copy for both:
// perhaps one with instructions the CPU lacks, or one that assumes there are no NaNs. With version and flags in the name they
// are different functions, and each unit keeps its own. This also means that the linker does not find a function of yours that
// takes one of headroom's types if it is defined in a unit with other flags than its caller's. What all units have in common is
// in shared.hpp. Instances of the standard library's templates, std::vector<float> say, are still shared, and the copy the
// linker keeps has to suit the oldest CPU: link the units for that first.

#define HEADROOM_DETAIL_PASTE(a, b, c, d, e, f, g, h, i, j) a##b##c##d##e##f##g##h##i##j
#define HEADROOM_DETAIL_JOIN(...) HEADROOM_DETAIL_PASTE(__VA_ARGS__)

// The word if the macro is defined as 1 (or 2 or 3, for later revisions), otherwise the other one. Only if it is does the
// pasted name end in a number and become a comma, which makes the word the second argument.
#define HEADROOM_DETAIL_CHOOSE(macro, word, other) \
  HEADROOM_DETAIL_CHOOSE_AFTER(HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_IF_DEFINED_, macro, , , , , , , , ), word, other)
#define HEADROOM_DETAIL_CHOOSE_AFTER(comma, word, other) HEADROOM_DETAIL_SECOND(comma word, other, )
#define HEADROOM_DETAIL_SECOND(first, second, ...) second
#define HEADROOM_DETAIL_IF(macro, word) HEADROOM_DETAIL_CHOOSE(macro, word, )
#define HEADROOM_DETAIL_IF_DEFINED_1 ,
#define HEADROOM_DETAIL_IF_DEFINED_2 ,
#define HEADROOM_DETAIL_IF_DEFINED_3 ,

// Instruction sets that compilers use by themselves if the flags allow it. Two units get the same name only if every CPU that
// runs the one also runs the other; what only intrinsics reach is left out.
#if defined(__x86_64__) || defined(__i386__)
// No CPU has one of these without those below it.
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
#define HEADROOM_DETAIL_AVX512                                                                                         \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_IF(__AVX512VBMI__, _vbmi), HEADROOM_DETAIL_IF(__AVX512IFMA__, _ifma),           \
                       HEADROOM_DETAIL_IF(__AVX512VBMI2__, _vbmi2), HEADROOM_DETAIL_IF(__AVX512BITALG__, _bitalg),     \
                       HEADROOM_DETAIL_IF(__AVX512VPOPCNTDQ__, _vpopcntdq), HEADROOM_DETAIL_IF(__AVX512VNNI__, _vnni), \
                       HEADROOM_DETAIL_IF(__AVX512BF16__, _bf16), HEADROOM_DETAIL_IF(__AVX512FP16__, _fp16), , )
#define HEADROOM_DETAIL_AVX                                                                                              \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_IF(__GFNI__, _gfni), HEADROOM_DETAIL_IF(__AVXVNNI__, _avxvnni),                   \
                       HEADROOM_DETAIL_IF(__AVXVNNIINT8__, _vnniint8), HEADROOM_DETAIL_IF(__AVXVNNIINT16__, _vnniint16), \
                       HEADROOM_DETAIL_IF(__AVXIFMA__, _avxifma), HEADROOM_DETAIL_IF(__AVXNECONVERT__, _neconvert),      \
                       HEADROOM_DETAIL_IF(__XOP__, _xop), HEADROOM_DETAIL_IF(__FMA4__, _fma4),                           \
                       HEADROOM_DETAIL_IF(__FMA__, _fma), HEADROOM_DETAIL_IF(__F16C__, _f16c))
#define HEADROOM_DETAIL_INTEGERS                                                                             \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_IF(__BMI__, _bmi), HEADROOM_DETAIL_IF(__BMI2__, _bmi2),               \
                       HEADROOM_DETAIL_IF(__LZCNT__, _lzcnt), HEADROOM_DETAIL_IF(__POPCNT__, _popcnt),       \
                       HEADROOM_DETAIL_IF(__MOVBE__, _movbe), HEADROOM_DETAIL_IF(__TBM__, _tbm),             \
                       HEADROOM_DETAIL_IF(__SSE4A__, _sse4a), HEADROOM_DETAIL_IF(__CMPCCXADD__, _cmpccxadd), \
                       HEADROOM_DETAIL_IF(__APX_F__, _apx), )
#define HEADROOM_DETAIL_CPU                                                                                                    \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_REGISTERS, HEADROOM_DETAIL_AVX512, HEADROOM_DETAIL_AVX, HEADROOM_DETAIL_INTEGERS, , , , \
                       , , )
#elif defined(__aarch64__)
#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS
#define HEADROOM_DETAIL_REGISTERS _svebits
#else
#define HEADROOM_DETAIL_REGISTERS \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_IF(__ARM_FEATURE_SVE, _sve), HEADROOM_DETAIL_IF(__ARM_FEATURE_SVE2, 2), , , , , , , , )
#endif
#define HEADROOM_DETAIL_NUMBERS                                                                                             \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_IF(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC, _fp16),                                     \
                       HEADROOM_DETAIL_IF(__ARM_FEATURE_FP16_SCALAR_ARITHMETIC, _fp16s),                                    \
                       HEADROOM_DETAIL_IF(__ARM_FEATURE_DOTPROD, _dotprod),                                                 \
                       HEADROOM_DETAIL_IF(__ARM_FEATURE_MATMUL_INT8, _i8mm), HEADROOM_DETAIL_IF(__ARM_FEATURE_BF16, _bf16), \
                       HEADROOM_DETAIL_IF(__ARM_FEATURE_SHA3, _sha3), , , , )
#define HEADROOM_DETAIL_LEVEL                                                                                          \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_IF(__ARM_FEATURE_ATOMICS, _lse), HEADROOM_DETAIL_IF(__ARM_FEATURE_QRDMX, _rdm), \
                       HEADROOM_DETAIL_IF(__ARM_FEATURE_RCPC, _rcpc), HEADROOM_DETAIL_IF(__ARM_FEATURE_JCVT, _jcvt),   \
                       HEADROOM_DETAIL_IF(__ARM_FEATURE_PAUTH, _pauth), HEADROOM_DETAIL_IF(__ARM_FEATURE_MOPS, _mops), \
                       HEADROOM_DETAIL_IF(__ARM_FEATURE_CSSC, _cssc), , , )
#define HEADROOM_DETAIL_CPU \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_REGISTERS, HEADROOM_DETAIL_NUMBERS, HEADROOM_DETAIL_LEVEL, , , , , , , )
#else
#define HEADROOM_DETAIL_CPU HEADROOM_DETAIL_IF(HEADROOM_DETAIL_HAS_VECTORS, _vectors)
#endif

// What changes the meaning of code or the layout of types.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || defined(__ASSOCIATIVE_MATH__) || \
    defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#define HEADROOM_DETAIL_MATH _fastmath
#else
#define HEADROOM_DETAIL_MATH
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
#define HEADROOM_DETAIL_RULES                                                                          \
  HEADROOM_DETAIL_JOIN(HEADROOM_DETAIL_MATH, HEADROOM_DETAIL_CHOOSE(HEADROOM_SIMD, , _scalar),         \
                       HEADROOM_DETAIL_CHOOSE(HEADROOM_EXCEPTIONS, , _abort), HEADROOM_DETAIL_LIBRARY, \
                       HEADROOM_DETAIL_IF(HEADROOM_COMPILED, _compiled), , , , , )
#define HEADROOM_BUILD                                                                                                       \
  HEADROOM_DETAIL_JOIN(v, HEADROOM_VERSION_MAJOR, _, HEADROOM_VERSION_MINOR, _, HEADROOM_VERSION_PATCH, HEADROOM_DETAIL_CPU, \
                       HEADROOM_DETAIL_RULES, , )
