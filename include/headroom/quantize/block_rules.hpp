#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/quantize/rules.hpp>

#include <cstdint>

// Rules for the scale of a block. `scale<Format>` takes the amax of the block, its largest |element| as a float (Inf or NaN if
// an element is), and the largest number of the source's dtype. It returns the scale to be stored and the factor by which
// elements are multiplied, or divided if `divides`, before they are rounded to Format and saturated. With `passes_over_nan` the
// amax is that of the elements that are not NaN. A rule of your own has the same members.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {
struct exponent_format {
  using bits_type = std::uint8_t;
  static constexpr int exponent_bits = 8, mantissa_bits = 0, bias = 127;
  static constexpr bits_type largest_finite_bits = 0xFE;
};
}  // namespace detail

/// OCP E8M0: the power of two 2^(bits - 127), the scale of an MX block; 0xFF is NaN. Only the verbs for blocks take tensors of
/// it.
class e8m0 {
 public:
  e8m0() = default;
  /// The nearest power of two; the larger of two. The smallest, 2^-127, for 0; NaN for Inf, NaN and negative numbers.
  constexpr explicit e8m0(float value) noexcept : bits_(nearest(detail::bit_cast<std::uint32_t>(value))) {}
  constexpr explicit operator float() const noexcept {  ///< exact
    const std::uint32_t normal = static_cast<std::uint32_t>(bits_) << binary32::mantissa_bits;
    return detail::bit_cast<float>(bits_ == 0 ? 1U << 22 : bits_ == 0xFF ? 0x7FC00000 : normal);
  }
  [[nodiscard]] static constexpr e8m0 from_bits(std::uint8_t bits) noexcept {  ///< the number with these bits
    e8m0 result{};
    result.bits_ = bits;
    return result;
  }
  [[nodiscard]] constexpr std::uint8_t bits() const noexcept { return bits_; }  ///< the exponent plus 127; 255 for NaN

  /// Compares values: NaN differs from itself.
  friend constexpr bool operator==(e8m0 a, e8m0 b) noexcept { return a.bits_ == b.bits_ && a.bits_ != 0xFF; }
  friend constexpr bool operator!=(e8m0 a, e8m0 b) noexcept { return !(a == b); }

 private:
  static constexpr std::uint8_t nearest(std::uint32_t bits) noexcept {
    if (bits == binary32::sign_mask) return 0;
    const std::uint32_t tie = bits <= binary32::mantissa_mask ? 1U << 21 : 1U << 22;  // 2^-127 is a subnormal float
    const std::uint32_t rounded = (bits + tie) >> binary32::mantissa_bits;
    return static_cast<std::uint8_t>(bits > binary32::infinity_bits || rounded > 0xFF ? 0xFF : rounded);
  }
  std::uint8_t bits_;
};
template <>
struct dtype_traits<e8m0> : detail::has_format<detail::exponent_format> {};

namespace detail {
// Arithmetic of floats by their bits, rounded once. The default NaN of some CPUs has a sign, so results have none.
[[nodiscard, gnu::always_inline]] inline std::uint32_t over(std::uint32_t dividend, std::uint32_t divisor) noexcept {
  return quotient_bits(widened(dividend), widened(divisor)) & binary32::abs_mask;
}
[[nodiscard]] inline std::uint32_t times(std::uint32_t a, std::uint32_t b) noexcept {
  return nearest_float_bits(hide_from_optimizer(widened(a)) * hide_from_optimizer(widened(b))) & binary32::abs_mask;
}
[[nodiscard]] constexpr std::uint32_t bits_of(float constant) noexcept { return bit_cast<std::uint32_t>(constant); }
template <class Format>
inline constexpr std::uint32_t largest_bits = convert_bits<Format, binary32>(Format::largest_finite_bits);
/// Inf becomes the largest float; NaN stays.
[[nodiscard]] constexpr std::uint32_t without_infinity(std::uint32_t bits) noexcept {
  return bits == binary32::infinity_bits ? binary32::largest_finite_bits : bits;
}
[[nodiscard]] constexpr float8_e4m3 to_e4m3(std::uint32_t bits) noexcept {
  constexpr std::uint32_t smallest = 121U << 23, dropped = binary32::mantissa_bits - e4m3::mantissa_bits;  // 2^-6
  if (bits >= smallest && bits <= largest_bits<e4m3>)  // most scales: a sixth of the time of NVFP4
    return float8_e4m3::from_bits(
        static_cast<std::uint8_t>(((bits + (1U << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped) - (120U << 3)));
  return float8_e4m3::from_bits(convert_bits<binary32, saturating<e4m3>>(bits));
}
[[nodiscard]] constexpr std::uint32_t bits_of(float8_e4m3 value) noexcept { return convert_bits<e4m3, binary32>(value.bits()); }
}  // namespace detail

/// What a rule makes of the amax of a block.
template <class Scale>
struct BlockScale {
  Scale stored;  ///< what codes are multiplied by
  float factor;  ///< what elements are multiplied or divided by
};

/// TransformerEngine's Float8BlockScaling, as its device code: CurrentScaling, with a power of two by default. If the scale
/// would be Inf, which CurrentScaling makes the largest float, it is the largest number of the source's dtype. Stored is its
/// reciprocal.
struct TeBlockScaling {
  float epsilon = 0.0F;      ///< the least amax
  bool power_of_two = true;  ///< rounds the factor down to a power of two
  using scale_type = float;
  static constexpr bool divides = false, passes_over_nan = true;
  void check() const { CurrentScaling{epsilon}.check(); }
  template <class Format>
  [[nodiscard]] BlockScale<float> scale(const float& amax, const float& source_max) const {
    ScaleState state;
    CurrentScaling{epsilon}.update(state, amax, detail::bit_cast<float>(detail::largest_bits<Format>));
    std::uint32_t bits = detail::magnitude_bits(state.scale);
    if (bits == binary32::largest_finite_bits) bits = detail::magnitude_bits(source_max);
    if (power_of_two) bits &= ~binary32::mantissa_mask;
    return {detail::bit_cast<float>(detail::over(detail::bits_of(1.0F), bits)), detail::bit_cast<float>(bits)};
  }
};

/// torchao's blockwise_fp8_training: TorchaoScaling. Stored is its reciprocal, Inf for an amax of Inf.
struct TorchaoBlockScaling {
  using scale_type = float;
  static constexpr bool divides = false, passes_over_nan = false;
  template <class Format>
  [[nodiscard]] BlockScale<float> scale(const float& amax, const float&) const {
    ScaleState state;
    TorchaoScaling{}.update(state, amax, detail::bit_cast<float>(detail::largest_bits<Format>));
    return {detail::bit_cast<float>(detail::over(detail::bits_of(1.0F), detail::magnitude_bits(state.scale))), state.scale};
  }
};

/// DeepSeek-V3's act_quant: max(amax, 1e-4) / 448, by which elements are divided.
struct DeepSeekScaling {
  bool ue8m0 = false;  ///< rounds the scale up to a power of two
  using scale_type = float;
  static constexpr bool divides = true, passes_over_nan = true;
  template <class Format>
  [[nodiscard]] BlockScale<float> scale(const float& amax, const float&) const {
    const std::uint32_t largest = detail::larger_of(detail::magnitude_bits(amax), detail::bits_of(1e-4F));
    std::uint32_t bits = detail::over(largest, detail::largest_bits<Format>);
    if (ue8m0 && bits < binary32::infinity_bits) bits = (bits + binary32::mantissa_mask) & ~binary32::mantissa_mask;
    return {detail::bit_cast<float>(bits), detail::bit_cast<float>(bits)};
  }
};

/// How the scale of an MX block follows from its amax a, as in torchao. emax is the exponent of the largest number of the
/// format: 8 for e4m3, 15 for e5m2, 2 for e2m1. No scale is below 2^-127. All except floor can round a dtype's largest numbers
/// up; converted back to that dtype, they are Inf. See docs/quantize.md.
/// - floor: 2^(exponent of a - emax), the rule of the specification. The largest elements may saturate.
/// - rceil: a / (largest number), rounded up to a power of two. No code saturates.
/// - ceil: as floor, with one more if a is no power of two. No code saturates.
/// - even: as floor, after a is rounded to the digits of the format.
enum class MxScale : int { floor, rceil, ceil, even };

/// The formats of the OCP Microscaling specification 1.0, with blocks of {1, 32}. The scale of a block with Inf or NaN, or that
/// `even` would round to Inf, is NaN, and so are its codes.
struct MxScaling {
  MxScale rule = MxScale::floor;  ///< how a scale follows from an amax
  using scale_type = e8m0;
  static constexpr bool divides = false, passes_over_nan = false;
  /// torchao's rceil multiplies by the rounded reciprocal of the largest number. The comparison of mantissas gives the same
  /// results, with one exception for the exponent whose product is subnormal.
  template <class Format>
  [[nodiscard]] BlockScale<e8m0> scale(const float& amax, const float&) const {
    constexpr std::uint32_t largest = detail::largest_bits<Format>;
    constexpr int mantissa_bits = binary32::mantissa_bits, emax = static_cast<int>(largest >> mantissa_bits) - binary32::bias;
    std::uint32_t bits = detail::magnitude_bits(amax);
    if (rule == MxScale::even) bits += 1U << (mantissa_bits - 1 - Format::mantissa_bits);
    if (bits >= binary32::infinity_bits) return {e8m0::from_bits(0xFF), detail::bit_cast<float>(binary32::quiet_nan_bits)};
    const int floored = static_cast<int>(bits >> mantissa_bits) - emax;  // both biases are 127; 0 is a subnormal float
    std::uint32_t limit = rule == MxScale::ceil ? 0 : binary32::mantissa_mask;
    if (rule == MxScale::rceil) limit = (largest & binary32::mantissa_mask) + (floored == 0 ? 1 : 0);
    const bool is_above = (bits & binary32::mantissa_mask) > limit;
    const auto byte = static_cast<std::uint32_t>(detail::larger_of(floored + (is_above ? 1 : 0), 0));
    return {e8m0::from_bits(static_cast<std::uint8_t>(byte)), detail::bit_cast<float>((254 - byte) << mantissa_bits)};
  }
};

// NVFP4: blocks of {1, 16}, with scales of e4m3 that are multiplied by one float for the tensor, from its amax.

/// torchao's: e4m3(amax / 6 / tensor_scale), at least 2^-6. A tensor_scale of amax / 2688 is the second level, 1 is none. 0, of
/// a tensor of zeros, counts as 1: torchao's codes would be NaN.
struct TorchaoNvfp4 {
  float tensor_scale = 1.0F;  ///< what all scales are multiplied by, too
  using scale_type = float8_e4m3;
  static constexpr bool divides = false, passes_over_nan = false;
  template <class Format>
  [[nodiscard]] BlockScale<float8_e4m3> scale(const float& amax, const float&) const {
    using namespace detail;
    const std::uint32_t one = bits_of(1.0F), given = magnitude_bits(tensor_scale), level = given == 0 ? one : given;
    std::uint32_t bits = over(over(magnitude_bits(amax), largest_bits<Format>), level);
    if (bits <= binary32::infinity_bits) bits = larger_of(bits, bits_of(0x1p-6F));
    const float8_e4m3 stored = to_e4m3(bits);
    return {stored, bit_cast<float>(over(over(one, level), bits_of(stored)))};
  }
};

/// TransformerEngine's, from the amax of the tensor, or of a row where rows have their own. Dequantize with a tensor_scale of
/// amax / 2688: TransformerEngine multiplies by amax first, which can differ in the last bit.
struct TeNvfp4 {
  float amax;  ///< of the tensor
  using scale_type = float8_e4m3;
  static constexpr bool divides = false, passes_over_nan = false;
  template <class Format>
  [[nodiscard]] BlockScale<float8_e4m3> scale(const float& block_amax, const float&) const {
    using namespace detail;
    const std::uint32_t one = bits_of(1.0F), sixth = bits_of(1.0F / 6.0F);
    std::uint32_t encode = without_infinity(over(bits_of(2688.0F), magnitude_bits(amax)));
    if (encode == 0) encode = one;
    const float8_e4m3 stored = to_e4m3(without_infinity(times(magnitude_bits(block_amax), times(encode, sixth))));
    return {stored, bit_cast<float>(without_infinity(over(one, times(bits_of(stored), over(one, encode)))))};
  }
};

/// ModelOpt's: e4m3(amax / (6 * tensor_scale)), or 1 for 0. Elements are divided by scale * tensor_scale. A tensor_scale of 0
/// counts as 1.
struct ModelOptNvfp4 {
  float tensor_scale = 1.0F;  ///< amax / 2688, which is stored as weight_scale_2
  using scale_type = float8_e4m3;
  static constexpr bool divides = true, passes_over_nan = false;
  template <class Format>
  [[nodiscard]] BlockScale<float8_e4m3> scale(const float& amax, const float&) const {
    using namespace detail;
    const std::uint32_t one = bits_of(1.0F), given = magnitude_bits(tensor_scale), level = given == 0 ? one : given;
    const std::uint32_t bits = over(magnitude_bits(amax), times(largest_bits<Format>, level));
    const float8_e4m3 stored = to_e4m3(bits == 0 ? one : bits);
    return {stored, bit_cast<float>(times(bits_of(stored), level))};
  }
};

HEADROOM_DETAIL_END_NAMESPACE
