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

// Whether the vectors of the language (vector_size) are registers of the CPU.
#ifndef HEADROOM_DETAIL_HAS_VECTORS
#if defined(__GNUC__) && (defined(__SSE2__) || defined(__ARM_NEON) || defined(__VSX__) || defined(__riscv_vector) || \
                          defined(__loongarch_sx) || defined(__wasm_simd128__))
#define HEADROOM_DETAIL_HAS_VECTORS 1
#else
#define HEADROOM_DETAIL_HAS_VECTORS 0
#endif
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

#include <headroom/detail/build_name.hpp>
