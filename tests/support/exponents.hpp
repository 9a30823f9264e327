#pragma once

#include <headroom/observe/histogram.hpp>

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "support/bits.hpp"

namespace support {

/// What a histogram of elements has to say, element by element from their values.
struct Exponents {
  std::map<int, std::uint64_t> counts, powers_of_two;
  std::uint64_t size = 0, zeros = 0, infs = 0, nans = 0, subnormals = 0;
  std::uint64_t max_bits = 0;  // of a double

  template <class T>
  void add(const T& element) {
    using Format = headroom::detail::format_of<T>;
    const std::uint64_t magnitude = bits_of(element) & Format::abs_mask;
    ++size;
    if (magnitude == 0) {
      ++zeros;
    } else if (magnitude > Format::largest_finite_bits) {
      ++(magnitude >= Format::smallest_nan_bits ? nans : infs);
    } else {
      // Scaled up, because frexp may take a subnormal double for zero under -ffast-math; in integers for the same reason.
      const bool is_subnormal = magnitude <= Format::mantissa_mask;
      const int unit =
          (is_subnormal ? 1 : static_cast<int>(magnitude >> Format::mantissa_bits)) - Format::bias - Format::mantissa_bits;
      const std::uint64_t digits =
          (magnitude & Format::mantissa_mask) + (is_subnormal ? 0 : Format::mantissa_mask + std::uint64_t{1});
      int exponent = 0;
      const double fraction = std::frexp(static_cast<double>(digits), &exponent);
      ++counts[unit + exponent - 1];
      if (fraction == 0.5) ++powers_of_two[unit + exponent - 1];
      if (is_subnormal) ++subnormals;
      const std::uint64_t bits =
          headroom::detail::convert_bits<Format, headroom::binary64>(static_cast<bits_type<T>>(magnitude));
      if (bits > max_bits) max_bits = bits;
    }
  }
  template <class T>
  static Exponents of(const std::vector<T>& elements) {
    Exponents all;
    for (const T& element : elements) all.add(element);
    return all;
  }

  [[nodiscard]] bool are_those_of(const headroom::ExponentHistogram& histogram) const {
    bool same = histogram.size() == size && histogram.zeros() == zeros && histogram.infs() == infs &&
                histogram.nans() == nans && histogram.subnormals() == subnormals && bits_of(histogram.max_abs()) == max_bits;
    const int lowest = counts.empty() ? 0 : counts.begin()->first, highest = counts.empty() ? -1 : counts.rbegin()->first;
    same = same && histogram.lowest_exponent() == lowest && histogram.highest_exponent() == highest;
    for (int exponent = -1100; exponent <= 1100; ++exponent) {
      same = same && histogram.count(exponent) == of_exponent(counts, exponent) &&
             histogram.powers_of_two(exponent) == of_exponent(powers_of_two, exponent);
    }
    return same;
  }

 private:
  static std::uint64_t of_exponent(const std::map<int, std::uint64_t>& counts, int exponent) {
    const auto found = counts.find(exponent);
    return found == counts.end() ? 0 : found->second;
  }
};

}  // namespace support
