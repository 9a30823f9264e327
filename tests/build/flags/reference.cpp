#include "reference.hpp"

#include <headroom/dtype/float8.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/reference.hpp"
#include "support/samples.hpp"

namespace reference {
namespace {

template <class Body>
void with_format(Format format, Body body) {
  switch (format) {
    case Format::binary16:
      return body(headroom::binary16{});
    case Format::brain16:
      return body(headroom::brain16{});
    case Format::e4m3:
      return body(headroom::e4m3{});
    case Format::binary32:
      return body(headroom::binary32{});
    case Format::binary64:
      return body(headroom::binary64{});
  }
}

template <class Wide, class Narrow>
void add_boundaries(std::vector<std::uint64_t>& samples) {
  const auto boundaries = support::boundaries<Wide, Narrow>();
  // Takes all six kinds in turn
  for (std::size_t i = 0; i < boundaries.size(); i += 5) samples.push_back(boundaries[i].wide);
}

const std::vector<std::uint64_t>& samples_of(Format format) {
  static std::vector<std::uint64_t> all[5];
  std::vector<std::uint64_t>& samples = all[static_cast<std::size_t>(format)];
  if (!samples.empty()) return samples;
  with_format(format, [&](auto in) {
    using In = decltype(in);
    const auto bits = support::sample_bits<In>();
    samples.assign(bits.begin(), bits.end());
    if constexpr (sizeof(typename In::bits_type) > 2) {
      add_boundaries<In, headroom::binary16>(samples);
      add_boundaries<In, headroom::brain16>(samples);
      add_boundaries<In, headroom::e4m3>(samples);
    }
  });
  return samples;
}

template <class In, class Out>
std::uint64_t outcome(Verb verb, typename In::bits_type element, std::uint32_t factor) {
  if (verb == Verb::cast) {
    const auto magnitude = static_cast<typename In::bits_type>(element & In::abs_mask);
    if (magnitude >= In::smallest_nan_bits) return Out::quiet_nan_bits;
    if (magnitude <= In::largest_finite_bits)
      return support::nearest<Out>(support::decode<In>(element));
    return ((element & In::sign_mask) != 0 ? std::uint64_t{Out::sign_mask} : 0) |
           support::overflow<Out>();
  }
  const auto operation = verb == Verb::scale ? support::product : support::quotient;
  return support::compute<In, Out>(operation, element, __builtin_bit_cast(float, factor)).bits;
}

/// The order is part of the contract. Here it is that of at most one block: element i is added to
/// sum i mod 64, in float except for doubles; these are folded to sixteen sums, and those, in
/// double, to one. For large and for small numbers the elements are multiplied by a power of two.
template <class Float>
double plain_norm(const std::vector<double>& values, bool is_fused) {
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::fabs(value));
  const bool is_float = sizeof(Float) == sizeof(float);
  const double factor = is_float && largest > 0x1p60     ? 0x1p-70
                        : is_float && largest <= 0x1p-40 ? 0x1p101
                                                         : 1.0;
  Float sums[64] = {};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<Float>(values[i] * factor);
    sums[i % 64] = is_fused ? std::fma(value, value, sums[i % 64]) : sums[i % 64] + value * value;
  }
  for (const std::size_t half : {32, 16}) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  double lanes[16];
  std::copy(sums, sums + 16, lanes);
  for (std::size_t half = 8; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return std::sqrt(lanes[0] / factor / factor);
}
constexpr std::uint64_t infinity = headroom::binary64::infinity_bits;

}  // namespace

const std::uint64_t* samples(Format format) { return samples_of(format).data(); }
std::size_t sample_count(Format format) { return samples_of(format).size(); }

void outcomes(Verb verb, Format in_format, Format out_format, std::uint32_t factor,
              std::uint64_t* result) {
  with_format(in_format, [&](auto in) {
    with_format(out_format, [&](auto out) {
      using In = decltype(in);
      for (const std::uint64_t element : samples_of(in_format)) {
        *result++ =
            outcome<In, decltype(out)>(verb, static_cast<typename In::bits_type>(element), factor);
      }
    });
  });
}

std::uint64_t max_abs(Format format, const std::uint64_t* elements, std::size_t n) {
  std::uint64_t result = 0;
  with_format(format, [&](auto in) {
    using In = decltype(in);
    typename In::bits_type largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      largest = std::max(largest, static_cast<typename In::bits_type>(elements[i] & In::abs_mask));
    }
    result = largest <= In::largest_finite_bits
                 ? support::nearest<headroom::binary64>(support::decode<In>(largest))
                 : infinity;
  });
  return result;
}

std::uint64_t norm(Format format, const std::uint64_t* elements, std::size_t n) {
  const std::uint64_t largest_bits = max_abs(format, elements, n);
  if (largest_bits == infinity || largest_bits == 0) return largest_bits;
  std::vector<double> values(n);
  with_format(format, [&](auto in) {
    using In = decltype(in);
    for (std::size_t i = 0; i < n; ++i) {
      const support::Number value =
          support::decode<In>(static_cast<typename In::bits_type>(elements[i]));
      values[i] = static_cast<double>(support::to_long_double(value));
    }
  });
  // The squares of short formats are exact in float, so a fused operation makes no difference,
  // unless they are subnormal.
  const bool is_short = format != Format::binary32;
  return __builtin_bit_cast(std::uint64_t, format == Format::binary64
                                               ? plain_norm<double>(values, false)
                                               : plain_norm<float>(values, is_short));
}

}  // namespace reference
