#pragma once

#include <headroom/quantize/blocks.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/flush.hpp"
#include "support/reference.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

// Slow references for 8-bit formats, by the words of the rules and with the exact numbers of
// support/reference.hpp, and trees to compare with them.

namespace support {

/// A magnitude beyond that of the largest number becomes it.
template <class F>
std::uint64_t saturated(std::uint64_t bits) {
  return (bits & F::abs_mask) > F::largest_finite_bits
             ? (bits & F::sign_mask) | F::largest_finite_bits
             : bits;
}
/// element * factor, rounded to the compute format and then to F, saturated. A NaN keeps the sign
/// of the element.
template <class In, class F>
Outcome quantized(typename In::bits_type element, float factor) {
  if (is_nan<In>(element))
    return {(element & In::sign_mask) != 0 ? 0x80U | F::quiet_nan_bits : F::quiet_nan_bits, false};
  const Outcome outcome = compute<In, F>(&product, element, factor);
  return {saturated<F>(outcome.bits), outcome.met_subnormal};
}
/// Equal; or two NaNs; or a zero of the same sign if the program flushes subnormals and has met
/// one.
inline bool agrees(const Layout& layout, std::uint64_t actual, const Outcome& expected) {
  const bool flushed = flushes_subnormals() && expected.met_subnormal &&
                       actual == (expected.bits & layout.sign_mask);
  return flushed || layout.same_bits(actual, expected.bits);
}

/// The largest magnitude as the bits of a double; those of Inf if an element is Inf or NaN.
template <class Format, class Elements>
std::uint64_t largest_of(const Elements& elements) {
  std::uint64_t largest = 0;
  for (const std::uint64_t bits : elements) largest = std::max(largest, bits & Format::abs_mask);
  const auto bits = static_cast<typename Format::bits_type>(largest);
  return is_finite<Format>(bits) ? nearest<headroom::binary64>(decode<Format>(bits))
                                 : headroom::binary64::infinity_bits;
}

/// The byte of the scale of a block whose largest magnitude has these bits of a float.
template <class F>
int mx_scale_byte(std::uint32_t largest, headroom::MxScale rule) {
  using headroom::binary32;
  using headroom::MxScale;
  if (largest >= binary32::infinity_bits) return 255;
  const Number max = decode<F>(F::largest_finite_bits);
  Number number = decode<binary32>(largest);
  if (rule == MxScale::rceil) {  // a * float(1 / max)
    const Number reciprocal = decode<binary32>(nearest<binary32>(quotient({false, 1, 0}, max)));
    number = decode<binary32>(nearest<binary32>(product(number, reciprocal)));
  }
  if (number.significand == 0) return 0;
  int exponent = floor_log2(number) - (rule == MxScale::rceil ? 0 : floor_log2(max));
  const bool is_power_of_two = (number.significand & (number.significand - 1)) == 0;
  if (rule == MxScale::rceil || rule == MxScale::ceil) exponent += is_power_of_two ? 0 : 1;
  // Half a unit more, at the digits of the format, may reach the next power of two
  if (rule == MxScale::even) {
    const std::uint64_t half_unit = std::uint64_t{1} << (22 - F::mantissa_bits);
    if (with_leading_one_at(23, number).significand + half_unit >= std::uint64_t{1} << 24)
      ++exponent;
    if (exponent + floor_log2(max) == 128) return 255;
  }
  return std::max(exponent + 127, 0);
}
struct MxRow {
  std::vector<Outcome> codes;
  std::vector<int> scales;
  bool finite = true;
};
template <class In, class F>
MxRow mx_row(const AnyBits& row, headroom::MxScale rule) {
  using headroom::binary32;
  using Bits = typename In::bits_type;
  MxRow result;
  for (std::size_t begin = 0; begin < row.size(); begin += 32) {
    const std::size_t end = std::min(begin + 32, row.size());
    std::uint64_t largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, row[i] & In::abs_mask);
    const auto bits = static_cast<Bits>(largest);
    const int byte =
        is_finite<In>(bits) ? mx_scale_byte<F>(nearest<binary32>(decode<In>(bits)), rule) : 255;
    result.scales.push_back(byte);
    result.finite = result.finite && byte != 255;
    for (std::size_t i = begin; i < end; ++i) {
      Number number = byte == 255 ? Number() : decode<In>(static_cast<Bits>(row[i]));
      const bool met_subnormal = is_subnormal_or_least<compute_format<In, F>>(number);
      number.exponent -= byte - 127;
      const std::uint64_t code = byte == 255 ? F::quiet_nan_bits : saturated<F>(nearest<F>(number));
      result.codes.push_back({code, met_subnormal});
    }
  }
  return result;
}
inline constexpr headroom::MxScale mx_rules[] = {headroom::MxScale::floor, headroom::MxScale::rceil,
                                                 headroom::MxScale::ceil, headroom::MxScale::even};

/// Makes an element a number between 2^low and 2^high, with any sign; one in `rarity` is Inf, NaN
/// or any pattern.
template <class T>
void randomize(T& element, std::mt19937& random, int low = -9, int high = 9,
               unsigned rarity = 1U << 30) {
  using Format = headroom::detail::format_of<T>;
  auto bits = random_magnitude<Format>(random, low, high - 1);
  if (random() % rarity == 0) {
    const auto nonfinite = nonfinite_bits<Format>();
    bits = random() % 2 == 0 ? nonfinite[random() % nonfinite.size()] : random_bits<Format>(random);
  }
  set_bits(element, static_cast<bits_type<T>>(random() % 2 == 0 ? bits : bits ^ Format::sign_mask));
}

/// Calls `f(element)` for each element of a leaf, in row-major order.
template <class Leaf, class F>
void for_each_element(Leaf& leaf, const F& f) {
  for (std::size_t i = 0; i < headroom::detail::size_of(leaf); ++i) {
    if constexpr (headroom::detail::has_layout_v<std::remove_const_t<Leaf>>) {
      f(leaf.at(i));
    } else {
      f(headroom::detail::data_of(leaf)[i]);
    }
  }
}
template <class Tree>
std::vector<AnyBits> leaves_of(const Tree& tree) {
  std::vector<AnyBits> leaves;
  headroom::for_each_leaf(tree, [&](const auto& leaf) {
    leaves.emplace_back();
    for_each_element(leaf, [&](const auto& element) { leaves.back().push_back(bits_of(element)); });
  });
  return leaves;
}

using Shape = std::vector<std::ptrdiff_t>;
/// Tensors of some shapes with random strides, some negative. Half of the tensors have gaps. The
/// tree is `leaves`. `order` is the seed for the order of the dimensions in memory.
template <class T>
struct RandomTensors {
  std::vector<std::vector<T>> memories;
  std::vector<Strided<T>> leaves;

  RandomTensors(const std::vector<Shape>& shapes, std::mt19937& random, std::uint32_t order) {
    std::mt19937 random_order(order);
    for (const Shape& shape : shapes) {
      std::vector<std::size_t> dimensions(shape.size());
      for (std::size_t i = 0; i < shape.size(); ++i) dimensions[i] = i;
      std::shuffle(dimensions.begin(), dimensions.end(), random_order);
      Shape strides(shape.size());
      std::ptrdiff_t first = 0, span = 1;
      const bool has_gaps = random() % 2 == 0;
      for (const std::size_t i : dimensions) {
        strides[i] = span + (has_gaps ? static_cast<std::ptrdiff_t>(random() % 3) : 0);
        if (shape[i] == 0) continue;
        span += strides[i] * (shape[i] - 1);
        if (random() % 4 != 0) continue;
        first += strides[i] * (shape[i] - 1);
        strides[i] = -strides[i];
      }
      memories.emplace_back(static_cast<std::size_t>(span));
      leaves.push_back({memories.back().data() + first, shape, strides});
    }
    clear();
  }
  void clear() {
    for (auto& memory : memories) {
      for (T& element : memory) set_bits(element, 0x55);
    }
  }
  /// Whether the memory between the elements is as it was.
  [[nodiscard]] bool has_old_gaps() const {
    std::ptrdiff_t changed = 0, elements = 0;
    for (const auto& memory : memories) {
      const auto bits = bits_of(memory);
      changed += std::count_if(bits.begin(), bits.end(), [](auto one) { return one != 0x55; });
    }
    for (const auto& leaf : leaves) elements += static_cast<std::ptrdiff_t>(leaf.size());
    return changed <= elements;
  }
};
/// Enough elements for four threads.
inline const std::vector<Shape> large_shapes = {{200000}, {1},  {0},        {5, 7, 3},
                                                {70001},  {33}, {1000, 300}};

}  // namespace support
