#pragma once

#include <Eigen/Core>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/adapters/eigen.hpp>
#include <headroom/headroom.hpp>
#include <xtensor/xadapt.hpp>
#include <xtensor/xmath.hpp>
#if HEADROOM_DETAIL_HAS_X86
#include <immintrin.h>
#endif
#if BENCHMARK_HIGHWAY
#include "highway.hpp"
#endif
#if BENCHMARK_TORCH
#include "torch.hpp"
#endif

// What headroom's kernels are compared with. The limits do less than the whole work: they show what
// memory and the conversion instructions allow. The others do the same work, as a user writes it
// without headroom.

namespace contenders {

using headroom::bfloat16;
using headroom::half;

// ---- limits: compiled for AVX2 on x86, whatever the flags; plain loops elsewhere ----

#if HEADROOM_DETAIL_HAS_X86
#define BENCHMARK_TARGET __attribute__((target("avx2,f16c"), noinline))
#else
#define BENCHMARK_TARGET __attribute__((noinline))
#endif

BENCHMARK_TARGET inline void multiply(float* values, std::size_t n, float factor) {
  for (std::size_t i = 0; i < n; ++i) values[i] *= factor;
}

#if HEADROOM_DETAIL_HAS_X86
BENCHMARK_TARGET inline std::uint32_t read(const void* memory, std::size_t bytes) {
  const auto* source = static_cast<const unsigned char*>(memory);
  __m256i seen[4] = {};
  for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
    const auto at = [&](std::size_t offset) {
      return reinterpret_cast<const __m256i*>(source + i + offset);
    };
    seen[0] = _mm256_or_si256(seen[0], _mm256_loadu_si256(at(0)));
    seen[1] = _mm256_or_si256(seen[1], _mm256_loadu_si256(at(32)));
    seen[2] = _mm256_or_si256(seen[2], _mm256_loadu_si256(at(64)));
    seen[3] = _mm256_or_si256(seen[3], _mm256_loadu_si256(at(96)));
  }
  const __m256i all =
      _mm256_or_si256(_mm256_or_si256(seen[0], seen[1]), _mm256_or_si256(seen[2], seen[3]));
  return static_cast<std::uint32_t>(_mm256_extract_epi32(all, 0));
}
BENCHMARK_TARGET inline void widen(const half* source, float* destination, std::size_t n) {
  for (std::size_t i = 0; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    _mm256_storeu_ps(destination + i, _mm256_cvtph_ps(halves));
  }
}
BENCHMARK_TARGET inline void widen(const bfloat16* source, float* destination, std::size_t n) {
  for (std::size_t i = 0; i + 8 <= n; i += 8) {
    const __m256i bits =
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(destination + i), _mm256_slli_epi32(bits, 16));
  }
}
BENCHMARK_TARGET inline void widen_and_add(const half* source, float* destination, std::size_t n) {
  for (std::size_t i = 0; i + 8 <= n; i += 8) {
    const __m256 values =
        _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
    _mm256_storeu_ps(destination + i, _mm256_add_ps(_mm256_loadu_ps(destination + i), values));
  }
}
BENCHMARK_TARGET inline void widen_and_add(const bfloat16* source, float* destination,
                                           std::size_t n) {
  for (std::size_t i = 0; i + 8 <= n; i += 8) {
    const __m256i bits =
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
    const __m256 values = _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
    _mm256_storeu_ps(destination + i, _mm256_add_ps(_mm256_loadu_ps(destination + i), values));
  }
}
#endif

// ---- the obvious loops ----

template <class T>
bool obvious_unscale(T* values, std::size_t n, float inverse_scale) {
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = T(static_cast<float>(values[i]) * inverse_scale);
    finite = finite && std::isfinite(static_cast<float>(values[i]));
  }
  return finite;
}
template <class In, class Out>
bool obvious_unscale(const In* source, Out* destination, std::size_t n, float inverse_scale) {
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    destination[i] = Out(static_cast<float>(source[i]) * inverse_scale);
    finite = finite && std::isfinite(static_cast<float>(destination[i]));
  }
  return finite;
}
template <class In>
bool obvious_accumulate(const In* source, float* destination, std::size_t n, float inverse_scale) {
  bool finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    const float value = static_cast<float>(source[i]) * inverse_scale;
    destination[i] += value;
    finite = finite && std::isfinite(value);
  }
  return finite;
}
template <class T>
bool obvious_all_finite(const T* values, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(static_cast<float>(values[i]))) return false;
  }
  return true;
}
template <class T>
double obvious_norm(const T* values, std::size_t n) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto value = static_cast<double>(static_cast<float>(values[i]));
    sum += value * value;
  }
  return std::sqrt(sum);
}
template <class In, class Out>
void obvious_cast(const In* source, Out* destination, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) destination[i] = Out(static_cast<float>(source[i]));
}

// ---- Eigen ----

template <class T>
struct eigen_scalar {
  using type = T;
};
template <>
struct eigen_scalar<half> {
  using type = Eigen::half;
};
template <>
struct eigen_scalar<bfloat16> {
  using type = Eigen::bfloat16;
};
template <class T>
using EigenArray = Eigen::Array<typename eigen_scalar<T>::type, Eigen::Dynamic, 1>;

/// The same memory as Eigen's type of the same bits.
template <class T>
auto eigen(T* values, std::size_t n) {
  using Scalar = typename eigen_scalar<T>::type;
  return Eigen::Map<EigenArray<T>>(reinterpret_cast<Scalar*>(values), static_cast<Eigen::Index>(n));
}

// ---- xtensor ----

inline auto xtensor(float* values, std::size_t n) {
  return xt::adapt(values, n, xt::no_ownership(), std::array<std::size_t, 1>{n});
}

}  // namespace contenders
