#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/kernel/count_exponents.hpp>
#include <headroom/observe/format_shares.hpp>
#include <headroom/policy/magnitude.hpp>
#include <headroom/state/fields.hpp>
#include <headroom/state/state_dict.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// How many elements have which binary exponent: how gradients lie in a format, and what a loss scale would do to them. Signs
/// do not count. It is a value: two with the same counts are equal, and their sum is the histogram of all elements together,
/// whatever the order, the number of threads and the instruction set.
///
///     const auto histogram = headroom::exponent_histogram(grads);
///     histogram.shares<headroom::half>(1024.0F).underflow_share();  // of those that are not zero, in fp16 after scaling
///     histogram.recommended_scale<headroom::half>(2);
class ExponentHistogram {
 public:
  ExponentHistogram() = default;  ///< of no elements
  /// What the kernels have counted; exponent_histogram makes these.
  explicit ExponentHistogram(const detail::ExponentTally& tally)
      : elements_(tally.elements),
        subnormals_(tally.subnormals),
        infs_(tally.infs),
        nans_(tally.nans),
        max_bits_(tally.largest) {
    const auto is_used = [](const Bin& bin) { return bin.count != 0; };
    const Bin* last = tally.bins + sizeof tally.bins / sizeof *tally.bins;
    const Bin* const first = std::find_if(tally.bins, last, is_used);
    while (last != first && !is_used(last[-1])) --last;
    bins_.assign(first, last);
    if (!bins_.empty()) lowest_ = detail::ExponentTally::lowest + static_cast<int>(first - tally.bins);
  }

  /// All elements.
  [[nodiscard]] std::uint64_t size() const noexcept { return elements_; }
  /// Those x with 2^exponent <= |x| < 2^(exponent + 1), by value: the smallest subnormal number of fp16 has exponent -24.
  [[nodiscard]] std::uint64_t count(int exponent) const noexcept { return bin(exponent).count; }
  /// Those of them that are 2^exponent or -2^exponent.
  [[nodiscard]] std::uint64_t powers_of_two(int exponent) const noexcept { return bin(exponent).powers_of_two; }
  /// The lowest and highest exponent that any element has; 0 and -1 if all are zeros, Inf or NaN.
  [[nodiscard]] int lowest_exponent() const noexcept { return lowest_; }
  [[nodiscard]] int highest_exponent() const noexcept { return lowest_ + static_cast<int>(bins_.size()) - 1; }
  [[nodiscard]] std::uint64_t nonzeros() const noexcept {  ///< finite and not zero: all that have an exponent
    std::uint64_t sum = 0;
    for (const Bin& each : bins_) sum += each.count;
    return sum;
  }
  [[nodiscard]] std::uint64_t zeros() const noexcept { return elements_ - nonzeros() - infs_ - nans_; }
  [[nodiscard]] std::uint64_t infs() const noexcept { return infs_; }
  [[nodiscard]] std::uint64_t nans() const noexcept { return nans_; }
  /// Those that are subnormal in the dtype they are stored in; they are among the counts of exponents as well.
  [[nodiscard]] std::uint64_t subnormals() const noexcept { return subnormals_; }
  /// The largest finite |x|, exactly; 0 if there is none.
  [[nodiscard]] double max_abs() const noexcept { return detail::bit_cast<double>(max_bits_); }

  /// What would become of the elements in dtype T, if they were multiplied by the scale first: see FormatShares. Throws
  /// std::invalid_argument if the scale is not in [2^-126, 2^126].
  template <class T>
  [[nodiscard]] FormatShares shares(const float& scale = 1.0F) const {
    using Format = detail::format_of<T>;
    detail::check_loss_scale("scale", scale);
    const auto by = detail::WideFloat::of<binary32>(detail::bit_cast<std::uint32_t>(scale));
    const std::uint64_t all = nonzeros();
    const CountRange zero = below(detail::underflow_edge<Format>(), by), small = below(detail::normal_edge<Format>(), by);
    const CountRange finite = below(detail::overflow_edge<Format>(), by);
    return {all,
            zero,
            {small.least > zero.most ? small.least - zero.most : 0, small.most - zero.least},
            {all - finite.most, all - finite.least}};
  }

  /// The largest power of two by which max_abs() can be multiplied, and then by 2^headroom_bits, without overflow in dtype T;
  /// within [2^-126, 2^126], even where that is too large or could be larger. 1 if there is no element but zeros, Inf and NaN;
  /// where there are others Inf and NaN are passed over, so do not go by a histogram of gradients that have overflowed. For
  /// gradients that were scaled already this is a further factor. Throws std::invalid_argument if headroom_bits is negative.
  template <class T>
  [[nodiscard]] float recommended_scale(int headroom_bits = 0) const {
    if (headroom_bits < 0) detail::throw_bad_value("headroom_bits", std::int64_t{headroom_bits}, "0 or more");
    if (max_bits_ == 0) return 1.0F;
    constexpr detail::RoundingEdge edge = detail::overflow_edge<detail::format_of<T>>();
    const auto max = detail::WideFloat::of<binary64>(max_bits_);
    const bool fits = edge.is_above({max.digits, edge.at.exponent});
    const int room = edge.at.exponent - max.exponent - (fits ? 0 : 1);
    return detail::power_of_two(room - std::min(headroom_bits, 4096));  // bits beyond these come to the same
  }

  ExponentHistogram& operator+=(const ExponentHistogram& other) {
    if (!other.bins_.empty()) {
      const int lowest = bins_.empty() ? other.lowest_ : std::min(lowest_, other.lowest_);
      const int highest = bins_.empty() ? other.highest_exponent() : std::max(highest_exponent(), other.highest_exponent());
      std::vector<Bin> sums(static_cast<std::size_t>(highest - lowest) + 1);
      for (int exponent = lowest; exponent <= highest; ++exponent) {
        const Bin a = bin(exponent), b = other.bin(exponent);
        sums[static_cast<std::size_t>(exponent - lowest)] = {a.count + b.count, a.powers_of_two + b.powers_of_two};
      }
      bins_ = std::move(sums);
      lowest_ = lowest;
    }
    elements_ += other.elements_;
    subnormals_ += other.subnormals_;
    infs_ += other.infs_;
    nans_ += other.nans_;
    max_bits_ = std::max(max_bits_, other.max_bits_);
    return *this;
  }
  [[nodiscard]] friend ExponentHistogram operator+(ExponentHistogram a, const ExponentHistogram& b) { return a += b; }
  [[nodiscard]] friend bool operator==(const ExponentHistogram& a, const ExponentHistogram& b) noexcept {
    const auto same = [](const Bin& x, const Bin& y) { return x.count == y.count && x.powers_of_two == y.powers_of_two; };
    return a.elements_ == b.elements_ && a.subnormals_ == b.subnormals_ && a.infs_ == b.infs_ && a.nans_ == b.nans_ &&
           a.max_bits_ == b.max_bits_ && a.lowest_ == b.lowest_ &&
           std::equal(a.bins_.begin(), a.bins_.end(), b.bins_.begin(), b.bins_.end(), same);
  }
  [[nodiscard]] friend bool operator!=(const ExponentHistogram& a, const ExponentHistogram& b) noexcept { return !(a == b); }

  /// All of it, to save, or to send to another rank, which adds it to its own: to_text(histogram.state_dict()). Throws
  /// std::invalid_argument beyond 2^63 - 1 elements.
  [[nodiscard]] StateDict state_dict() const {
    detail::StateWriter write(state_name);
    write("elements", elements_);
    write("infs", infs_);
    write("nans", nans_);
    write("subnormals", subnormals_);
    write("max_abs", max_abs());
    write("lowest_exponent", lowest_);
    std::string counts, powers_of_two;
    for (const Bin& each : bins_) {
      const char* const separator = counts.empty() ? "" : " ";
      counts += separator + std::to_string(each.count);
      powers_of_two += separator + std::to_string(each.powers_of_two);
    }
    write("counts", counts);
    write("powers_of_two", powers_of_two);
    return write.take();
  }
  /// Throws std::invalid_argument naming key and value if one is missing, unknown, of another type, out of range, or at odds
  /// with the others.
  [[nodiscard]] static ExponentHistogram from_state_dict(const StateDict& dict) {
    constexpr int lowest = detail::ExponentTally::lowest, highest = detail::ExponentTally::highest;
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    detail::StateReader read(dict, std::string(state_name));
    ExponentHistogram found;
    read("elements", found.elements_, 0, most);
    const auto all = static_cast<std::int64_t>(found.elements_);
    read("infs", found.infs_, 0, all);
    read("nans", found.nans_, 0, all - static_cast<std::int64_t>(found.infs_));
    read("subnormals", found.subnormals_, 0, all);
    double max_abs = 0.0;
    read("max_abs", max_abs);
    found.max_bits_ = detail::bit_cast<std::uint64_t>(max_abs);
    read("lowest_exponent", found.lowest_, lowest, highest);
    std::uint64_t counts[highest - lowest + 1] = {}, powers_of_two[highest - lowest + 1] = {};
    std::size_t bins = 0, bins_of_powers = 0;
    read.list("counts", counts, bins, 0, all);
    read.list("powers_of_two", powers_of_two, bins_of_powers, 0, all);
    read.finish();
    for (std::size_t i = 0; i < bins; ++i) found.bins_.push_back({counts[i], powers_of_two[i]});
    const char* odd = found.what_is_odd();
    // Of two lists of unlike length the other values say which is wrong.
    if (bins_of_powers != bins) odd = bins == found.bins_by_range() ? "powers_of_two" : "counts";
    if (odd != nullptr) {
      detail::throw_invalid_argument({odd, " is ", detail::to_text(dict.at(odd)), ", which the other values contradict"});
    }
    return found;
  }

 private:
  using Bin = detail::ExponentTally::Bin;
  static constexpr const char* state_name = "exponent_histogram";

  [[nodiscard]] Bin bin(int exponent) const noexcept {
    const bool is_used = exponent >= lowest_ && exponent <= highest_exponent();
    return is_used ? bins_[static_cast<std::size_t>(exponent - lowest_)] : Bin{};
  }

  /// How many there have to be, by the smallest exponent and the largest magnitude.
  [[nodiscard]] std::size_t bins_by_range() const noexcept {
    if (max_bits_ == 0 || max_bits_ >= binary64::infinity_bits) return 0;
    return static_cast<std::size_t>(detail::WideFloat::of<binary64>(max_bits_).exponent - lowest_ + 1);
  }
  /// The key of a value that cannot be, for what the others are; null if there is none.
  [[nodiscard]] const char* what_is_odd() const noexcept {
    std::uint64_t rest = elements_ - infs_ - nans_;
    if (!bins_.empty() && (bins_.front().count == 0 || bins_.back().count == 0)) return "counts";
    for (const Bin& each : bins_) {
      if (each.count > rest) return "counts";
      if (each.powers_of_two > each.count) return "powers_of_two";
      rest -= each.count;
    }
    if (subnormals_ > nonzeros()) return "subnormals";
    if (bins_.empty()) return lowest_ != 0 ? "lowest_exponent" : max_bits_ != 0 ? "max_abs" : nullptr;
    const Bin& last = bins_.back();
    if (highest_exponent() > detail::ExponentTally::highest) return "lowest_exponent";
    if (max_bits_ == 0 || max_bits_ >= binary64::infinity_bits) return "max_abs";
    const auto max = detail::WideFloat::of<binary64>(max_bits_);
    const bool fits =
        max.exponent == highest_exponent() && (max.digits > detail::WideFloat::one) == (last.count > last.powers_of_two);
    return fits ? nullptr : "max_abs";
  }

  /// How many elements lie below an edge once they are multiplied.
  [[nodiscard]] CountRange below(const detail::RoundingEdge& edge, const detail::WideFloat& by) const noexcept {
    CountRange found;
    for (int exponent = lowest_; exponent <= highest_exponent(); ++exponent) {
      const Bin all = bin(exponent);
      const detail::WideFloat lower{by.digits, by.exponent + exponent}, upper{by.digits, lower.exponent + 1};
      const std::uint64_t powers = edge.is_above(lower) ? all.powers_of_two : 0, others = all.count - all.powers_of_two;
      found.least += powers;
      found.most += powers;
      if (!(lower < edge.at)) continue;  // the others are above
      const bool all_below = !(edge.at < upper);
      if (all_below || exponent < highest_exponent()) {
        found.least += all_below ? others : 0;
        found.most += others;
      } else {  // of these the largest one is known
        const bool max_is_below = edge.is_above(detail::WideFloat::of<binary64>(max_bits_) * by);
        found.least += max_is_below ? others : 0;
        found.most += max_is_below || others == 0 ? others : others - 1;
      }
    }
    return found;
  }

  std::uint64_t elements_ = 0, subnormals_ = 0, infs_ = 0, nans_ = 0;
  std::uint64_t max_bits_ = 0;  // of a double
  int lowest_ = 0;
  std::vector<Bin> bins_;  // from lowest_ on; neither the first nor the last is empty
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
