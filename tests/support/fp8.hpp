#pragma once

#include <headroom/fp8/mx.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/flush.hpp"
#include "support/reference.hpp"

// Slow references for 8-bit formats, from the words of the rules, with the exact numbers of support/reference.hpp.

namespace support {

/// element * factor, rounded to the compute format and then to F, saturated. A NaN keeps the sign of the element.
template <class In, class F>
Outcome quantized(typename In::bits_type element, float factor) {
  if (is_nan<In>(element)) return {(element & In::sign_mask) != 0 ? 0x80U | F::quiet_nan_bits : F::quiet_nan_bits, false};
  Outcome outcome = compute<In, F>(&product, element, factor);
  if ((outcome.bits & F::abs_mask) > F::largest_finite_bits) {
    outcome.bits = (outcome.bits & F::sign_mask) | F::largest_finite_bits;
  }
  return outcome;
}
/// Equal; or two NaNs; or a zero of the same sign if the program flushes subnormals and has met one.
template <class F>
bool agrees(std::uint64_t actual, const Outcome& expected) {
  using Bits = typename F::bits_type;
  const bool flushed = flushes_subnormals() && expected.met_subnormal && actual == (expected.bits & F::sign_mask);
  return flushed || same_bits<F>(static_cast<Bits>(actual), static_cast<Bits>(expected.bits));
}

/// The byte of the scale of a block whose largest magnitude has these bits of a float.
template <class F>
int mx_scale_byte(std::uint32_t largest, headroom::MxScale rule) {
  using headroom::binary32;
  using headroom::MxScale;
  if (largest >= binary32::infinity_bits) return 255;
  if (largest == 0) return 0;
  const Number number = decode<binary32>(largest), max = decode<F>(F::largest_finite_bits);
  int exponent = floor_log2(number) - floor_log2(max);
  if (rule == MxScale::rceil) {
    const std::uint32_t reciprocal = nearest<binary32>(quotient({false, 1, 0}, max));
    const std::uint32_t scale = nearest<binary32>(product(number, decode<binary32>(reciprocal)));
    if (scale == 0) return 0;
    const Number rounded = decode<binary32>(scale);
    exponent = floor_log2(rounded) + ((rounded.significand & (rounded.significand - 1)) != 0 ? 1 : 0);
  } else if (rule == MxScale::ceil) {
    exponent += (number.significand & (number.significand - 1)) != 0 ? 1 : 0;
  } else if (rule == MxScale::even) {
    const std::uint64_t significand = with_leading_one_at(23, number).significand;  // a subnormal one is clamped in any case
    const std::uint64_t half_unit = std::uint64_t{1} << (22 - F::mantissa_bits);
    if (significand + half_unit >= std::uint64_t{1} << 24) ++exponent;
    if (exponent + floor_log2(max) == 128) return 255;
  }
  return std::max(exponent + 127, 0);
}

template <class F>
struct MxBlocks {
  std::vector<Outcome> codes;
  std::vector<int> scales;
  bool finite = true;
};
/// The codes and scales of one row.
template <class F, class In>
MxBlocks<F> mx_row(const std::vector<typename In::bits_type>& row, headroom::MxScale rule) {
  using headroom::binary32;
  MxBlocks<F> result;
  for (std::size_t begin = 0; begin < row.size(); begin += 32) {
    const std::size_t end = std::min(begin + 32, row.size());
    typename In::bits_type largest = 0;
    for (std::size_t i = begin; i < end; ++i)
      largest = std::max(largest, static_cast<typename In::bits_type>(row[i] & In::abs_mask));
    const int byte = is_finite<In>(largest) ? mx_scale_byte<F>(nearest<binary32>(decode<In>(largest)), rule) : 255;
    result.scales.push_back(byte);
    result.finite = result.finite && byte != 255;
    for (std::size_t i = begin; i < end; ++i) {
      Number number = decode<In>(byte == 255 ? typename In::bits_type{0} : row[i]);
      const bool met_subnormal = is_subnormal_or_least<compute_format<In, F>>(number);
      number.exponent -= byte - 127;
      std::uint64_t code = nearest<F>(number);
      if ((code & F::abs_mask) > F::largest_finite_bits) code = (code & F::sign_mask) | F::largest_finite_bits;
      result.codes.push_back({byte == 255 ? std::uint64_t{F::quiet_nan_bits} : code, met_subnormal});
    }
  }
  return result;
}
/// code * 2^(byte - 127), rounded to `Out`.
template <class F, class Out>
Outcome mx_value(std::uint8_t code, int byte) {
  if (byte == 255 || is_nan<F>(code)) return {Out::quiet_nan_bits, false};
  if (!is_finite<F>(code)) return {std::uint64_t{nearest<Out>({(code & F::sign_mask) != 0, 1, 2000})}, false};
  Number number = decode<F>(code);
  number.exponent += byte - 127;
  const bool flushes = number.significand != 0 && (byte == 0 || is_subnormal_or_least<compute_format<F, Out>>(number));
  return {nearest<Out>(number), flushes};
}

/// The elements of each leaf, in row-major order.
template <class Tree>
std::vector<AnyBits> leaves_of(const Tree& tree) {
  std::vector<AnyBits> leaves;
  headroom::for_each_leaf(tree, [&](const auto& leaf) {
    leaves.emplace_back();
    for (std::size_t i = 0; i < headroom::detail::size_of(leaf); ++i) {
      if constexpr (headroom::detail::has_layout_v<std::decay_t<decltype(leaf)>>) {
        leaves.back().push_back(bits_of(leaf.at(i)));
      } else {
        leaves.back().push_back(bits_of(headroom::detail::data_of(leaf)[i]));
      }
    }
  });
  return leaves;
}

/// A file of tests/golden/fp8 as it is.
template <class T>
std::vector<T> golden_bytes(const std::string& file) {
  std::ifstream in(std::string(HEADROOM_TEST_DATA_DIR) + "/fp8/" + file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (bytes.empty()) throw std::runtime_error("cannot read " + file);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

inline constexpr headroom::MxScale mx_rules[] = {headroom::MxScale::floor, headroom::MxScale::rceil, headroom::MxScale::ceil,
                                                 headroom::MxScale::even};
inline constexpr const char* mx_rule_names[] = {"floor", "rceil", "ceil", "even"};  // in the order of MxScale

}  // namespace support
