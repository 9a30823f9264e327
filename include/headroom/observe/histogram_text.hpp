#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/csv.hpp>
#include <headroom/observe/exponent_histogram.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// A line of the text: its name, the number of elements, their share, a bar.
inline void append_bar(std::string& text, const std::string& name, std::uint64_t count, std::uint64_t all, std::size_t length) {
  const double percent = all == 0 ? 0.0 : 100.0 * static_cast<double>(count) / static_cast<double>(all);
  char line[64];
  std::snprintf(line, sizeof line, "%8s %15llu %6.2f %%", name.c_str(), static_cast<unsigned long long>(count), percent);
  text += line;
  if (length > 0) text.append("  ").append(length, '#');
  text += '\n';
}

inline void append_csv_row(std::string& text, const std::string& begin, const char* kind, const std::string& exponent,
                           std::uint64_t count, std::uint64_t powers_of_two) {
  text += begin + kind + ',' + exponent + ',' + std::to_string(count) + ',' + std::to_string(powers_of_two) + '\n';
}
/// The rows of a histogram, each with the same beginning.
inline void append_csv_rows(std::string& text, const std::string& begin, const ExponentHistogram& histogram) {
  append_csv_row(text, begin, "zero", "", histogram.zeros(), 0);
  for (int exponent = histogram.lowest_exponent(); exponent <= histogram.highest_exponent(); ++exponent) {
    append_csv_row(text, begin, "finite", std::to_string(exponent), histogram.count(exponent),
                   histogram.powers_of_two(exponent));
  }
  append_csv_row(text, begin, "inf", "", histogram.infs(), 0);
  append_csv_row(text, begin, "nan", "", histogram.nans(), 0);
}

}  // namespace detail

/// The histogram as lines for a terminal, from the largest numbers to zero: exponent, elements, their share of all, and a bar,
/// which has `width` characters for the most frequent one, and at least one for any. Inf and NaN have a line if there are any.
/// Of several empty exponents in a row only the first has a line.
///
///         2^-9             120   1.20 %  ###
///        2^-10            2310  23.10 %  ############################################################
///         zero            7570  75.70 %
[[nodiscard]] inline std::string histogram_text(const ExponentHistogram& histogram, std::size_t width = 60) {
  const int lowest = histogram.lowest_exponent(), highest = histogram.highest_exponent();
  std::uint64_t most = 1;
  for (int exponent = lowest; exponent <= highest; ++exponent) {
    if (histogram.count(exponent) > most) most = histogram.count(exponent);
  }
  const std::uint64_t all = histogram.size();
  std::string text;
  if (histogram.nans() > 0) detail::append_bar(text, "NaN", histogram.nans(), all, 0);
  if (histogram.infs() > 0) detail::append_bar(text, "Inf", histogram.infs(), all, 0);
  for (int exponent = highest; exponent >= lowest; --exponent) {
    const std::uint64_t count = histogram.count(exponent);
    if (count == 0 && histogram.count(exponent + 1) == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(most);
    const auto length = static_cast<std::size_t>(share * static_cast<double>(width) + 0.5);
    const std::size_t at_least = count > 0 && width > 0 ? 1 : 0;
    detail::append_bar(text, "2^" + std::to_string(exponent), count, all, length > at_least ? length : at_least);
  }
  detail::append_bar(text, "zero", histogram.zeros(), all, 0);
  return text;
}

/// As CSV with a header, for plots: `kind,exponent,count,powers_of_two`, where kind is zero, finite, inf or nan, and only
/// finite elements have an exponent. Every exponent from the lowest to the highest has a row.
[[nodiscard]] inline std::string histogram_csv(const ExponentHistogram& histogram) {
  std::string text = "kind,exponent,count,powers_of_two\n";
  detail::append_csv_rows(text, "", histogram);
  return text;
}
/// The same for each leaf, with its path as the first column, `path`.
[[nodiscard]] inline std::string histogram_csv(const std::vector<LeafHistogram>& leaves) {
  std::string text = "path,kind,exponent,count,powers_of_two\n";
  for (const LeafHistogram& leaf : leaves) {
    std::string begin;
    detail::append_csv_field(begin, leaf.path);
    detail::append_csv_rows(text, begin + ',', leaf.histogram);
  }
  return text;
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
