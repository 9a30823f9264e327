#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/dtype/format.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/ops/for_each_block.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The effect of multiplying elements by a power of two and rounding them to a format, to the nearest, ties to even.
struct FormatShares {
  std::uint64_t elements = 0;    ///< those that are finite and not zero; the denominator of all shares
  std::uint64_t underflows = 0;  ///< that become zero
  std::uint64_t subnormals = 0;  ///< that become subnormal: not zero, but below the smallest normal number before rounding
  std::uint64_t overflows = 0;   ///< that become Inf. A lower bound: of the highest exponent only the largest element counts

  [[nodiscard]] constexpr double underflow_share() const noexcept { return share(underflows); }  ///< of elements, in [0, 1]
  [[nodiscard]] constexpr double subnormal_share() const noexcept { return share(subnormals); }  ///< likewise
  [[nodiscard]] constexpr double overflow_share() const noexcept { return share(overflows); }    ///< likewise

 private:
  [[nodiscard]] constexpr double share(std::uint64_t count) const noexcept {
    return elements == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(elements);
  }
};

/// The number of elements per binary exponent, regardless of sign. It shows how gradients fit into a format, and what a loss
/// scale would do to them. The sum of two histograms is that of all elements together. docs/choosing-a-policy.md uses one.
class ExponentHistogram {
 public:
  void add(span<const float> elements) noexcept {  ///< counts these
    elements_ += elements.size();
    for (const float& element : elements) {
      std::uint32_t bits;  // copied, because -ffast-math assumes that a float is finite
      std::memcpy(&bits, &element, sizeof bits);
      const std::uint32_t magnitude = bits & binary32::abs_mask, field = magnitude >> 23U;
      if (magnitude == 0) continue;
      if (magnitude >= binary32::infinity_bits) {
        ++(magnitude == binary32::infinity_bits ? infs_ : nans_);
        continue;
      }
      max_bits_ = std::max(max_bits_, magnitude);
      const int exponent = field != 0 ? static_cast<int>(field) - 127 : -118 - __builtin_clz(magnitude);
      const std::uint32_t lower_digits = magnitude & (field != 0 ? binary32::mantissa_mask : magnitude - 1);
      ++counts_[index(exponent)];
      if (lower_digits == 0) ++powers_of_two_[index(exponent)];
    }
  }

  /// All elements.
  [[nodiscard]] std::uint64_t size() const noexcept { return elements_; }
  /// Elements x with 2^exponent <= |x| < 2^(exponent + 1). The smallest subnormal number of fp16 has exponent -24.
  [[nodiscard]] std::uint64_t count(int exponent) const noexcept {
    return exponent < lowest || exponent > highest ? 0 : counts_[index(exponent)];
  }
  /// The lowest and highest exponent of any element; 0 and -1 if all are zero, Inf or NaN.
  [[nodiscard]] int lowest_exponent() const noexcept {
    if (max_bits_ == 0) return 0;
    int exponent = lowest;
    while (count(exponent) == 0) ++exponent;
    return exponent;
  }
  [[nodiscard]] int highest_exponent() const noexcept { return max_bits_ == 0 ? -1 : max_exponent(); }  ///< see lowest_exponent
  [[nodiscard]] std::uint64_t nonzeros() const noexcept {  ///< finite and not zero: all that have an exponent
    std::uint64_t sum = 0;
    for (const std::uint64_t each : counts_) sum += each;
    return sum;
  }
  [[nodiscard]] std::uint64_t zeros() const noexcept { return elements_ - nonzeros() - infs_ - nans_; }  ///< +0 and -0
  [[nodiscard]] std::uint64_t infs() const noexcept { return infs_; }                                    ///< +Inf and -Inf
  [[nodiscard]] std::uint64_t nans() const noexcept { return nans_; }  ///< of any sign and payload
  /// The largest finite |x|, exactly; 0 if there is none.
  [[nodiscard]] double max_abs() const noexcept { return detail::bit_cast<double>(max_as_double()); }

  /// The effect of multiplying the elements by the scale and rounding them to dtype T. Rounds the scale down to a power of two.
  /// Throws std::invalid_argument if it is not in [2^-126, 2^126].
  template <class T>
  [[nodiscard]] FormatShares shares(const float& scale = 1.0F) const {
    using Format = detail::format_of<T>;
    detail::check_loss_scale("scale", scale);
    constexpr int normal = 1 - Format::bias, smallest = normal - Format::mantissa_bits;
    const int up = static_cast<int>(detail::bit_cast<std::uint32_t>(scale) >> 23U) - 127;
    FormatShares found{nonzeros(), 0, 0, max_bits_ != 0 && up > doublings<Format>() ? 1U : 0U};
    std::uint64_t beyond = 0;
    for (int exponent = lowest; exponent <= highest; ++exponent) {
      const int scaled = exponent + up;
      const std::uint64_t all = counts_[index(exponent)], powers = powers_of_two_[index(exponent)];
      // Half the smallest number is a tie, which becomes zero. Anything above it becomes the smallest number.
      const std::uint64_t zeros = scaled < smallest - 1 ? all : scaled == smallest - 1 ? powers : 0;
      found.underflows += zeros;
      if (scaled < normal) found.subnormals += all - zeros;
      if (scaled > highest_of<Format>) beyond += all;
    }
    found.overflows = std::max(found.overflows, beyond);
    return found;
  }

  /// The largest power of two in [2^-126, 2^126] for which max_abs() * scale * 2^headroom_bits does not overflow dtype T; 1 if
  /// all elements are zero, Inf or NaN. Inf and NaN are ignored, so do not use gradients that have overflowed. For scaled
  /// gradients the result is an additional factor. Throws std::invalid_argument if headroom_bits is negative.
  template <class T>
  [[nodiscard]] float recommended_scale(int headroom_bits = 0) const {
    if (headroom_bits < 0) detail::throw_bad_value("headroom_bits", std::int64_t{headroom_bits}, "0 or more");
    if (max_bits_ == 0) return 1.0F;
    return detail::power_of_two(doublings<detail::format_of<T>>() - std::min(headroom_bits, 4096));
  }

  ExponentHistogram& operator+=(const ExponentHistogram& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      counts_[i] += other.counts_[i];
      powers_of_two_[i] += other.powers_of_two_[i];
    }
    elements_ += other.elements_;
    infs_ += other.infs_;
    nans_ += other.nans_;
    max_bits_ = std::max(max_bits_, other.max_bits_);
    return *this;
  }
  [[nodiscard]] friend ExponentHistogram operator+(ExponentHistogram a, const ExponentHistogram& b) { return a += b; }

  [[nodiscard]] friend bool operator==(const ExponentHistogram& a, const ExponentHistogram& b) noexcept {
    return a.elements_ == b.elements_ && a.infs_ == b.infs_ && a.nans_ == b.nans_ && a.max_bits_ == b.max_bits_ &&
           a.counts_ == b.counts_ && a.powers_of_two_ == b.powers_of_two_;
  }
  [[nodiscard]] friend bool operator!=(const ExponentHistogram& a, const ExponentHistogram& b) noexcept { return !(a == b); }

 private:
  static constexpr int lowest = -149, highest = 127;  // the exponents of floats
  static constexpr std::size_t index(int exponent) noexcept { return static_cast<std::size_t>(exponent - lowest); }
  template <class Format>
  static constexpr int highest_of = static_cast<int>(Format::largest_finite_bits >> Format::mantissa_bits) - Format::bias;

  [[nodiscard]] std::uint64_t max_as_double() const noexcept { return detail::convert_bits<binary32, binary64>(max_bits_); }
  [[nodiscard]] int max_exponent() const noexcept {
    return static_cast<int>(max_as_double() >> binary64::mantissa_bits) - binary64::bias;
  }
  /// The number of times that max_abs can be doubled without overflow.
  template <class Format>
  [[nodiscard]] int doublings() const noexcept {
    static_assert(sizeof(typename Format::bits_type) <= 4, "headroom: no loss scale is for gradients in double");
    // Halfway from the largest finite number to the next one; a tie goes to the even one. In the digits of a double.
    constexpr std::uint64_t unit = std::uint64_t{1} << (binary64::mantissa_bits - Format::mantissa_bits);
    constexpr std::uint64_t tie = (Format::largest_finite_bits & Format::mantissa_mask) * unit + unit / 2;
    constexpr std::uint64_t first_beyond = tie + (Format::largest_finite_bits % 2 == 0 ? 1 : 0);
    return highest_of<Format> - max_exponent() - ((max_as_double() & binary64::mantissa_mask) >= first_beyond ? 1 : 0);
  }

  std::uint64_t elements_ = 0, infs_ = 0, nans_ = 0;
  std::uint32_t max_bits_ = 0;
  std::array<std::uint64_t, highest - lowest + 1> counts_{}, powers_of_two_{};  // from `lowest` on
};

/// The histogram of all floating-point elements of a tree, or of one leaf. Doubles are rounded to float. Throws
/// std::invalid_argument if a leaf cannot be walked or repeats elements, as for_each_block does.
template <class Tree>
[[nodiscard]] ExponentHistogram exponent_histogram(const Tree& tree) {
  ExponentHistogram histogram;
  headroom::for_each_block(tree, [&](std::size_t, std::size_t, span<const float> block) { histogram.add(block); });
  return histogram;
}

/// The histogram as lines for a terminal, from the largest numbers to zero: exponent, elements, their share of all, and a bar.
/// The longest bar has `width` characters, and every bar at least one. Of empty exponents in a row only the first has a line.
///
///         2^-9             120   1.20 %  ###
///        2^-10            2310  23.10 %  ############################################################
///         zero            7570  75.70 %
[[nodiscard]] inline std::string histogram_text(const ExponentHistogram& histogram, std::size_t width = 60) {
  const int lowest = histogram.lowest_exponent(), highest = histogram.highest_exponent();
  std::uint64_t most = 1;
  for (int exponent = lowest; exponent <= highest; ++exponent) most = std::max(most, histogram.count(exponent));
  std::string text;
  const auto add_line = [&](const std::string& name, std::uint64_t count, std::size_t length) {
    const double percent =
        100.0 * static_cast<double>(count) / static_cast<double>(std::max<std::uint64_t>(histogram.size(), 1));
    char line[64];
    std::snprintf(line, sizeof line, "%8s %15llu %6.2f %%", name.c_str(), static_cast<unsigned long long>(count), percent);
    text += line + (length == 0 ? "" : "  " + std::string(length, '#')) + '\n';
  };
  if (histogram.nans() > 0) add_line("NaN", histogram.nans(), 0);
  if (histogram.infs() > 0) add_line("Inf", histogram.infs(), 0);
  for (int exponent = highest; exponent >= lowest; --exponent) {
    const std::uint64_t count = histogram.count(exponent);
    if (count == 0 && histogram.count(exponent + 1) == 0) continue;
    const double length = static_cast<double>(count) / static_cast<double>(most) * static_cast<double>(width) + 0.5;
    add_line("2^" + std::to_string(exponent), count,
             std::max(static_cast<std::size_t>(length), std::size_t{count > 0 && width > 0 ? 1U : 0U}));
  }
  add_line("zero", histogram.zeros(), 0);
  return text;
}

HEADROOM_DETAIL_END_NAMESPACE
