#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

// A policy passes its fields by name to a function `visit(key, field)`, or `visit(key, field, low, high)` for counters. The
// same list is written and read, so neither can forget a field. `visit.unless_false(key, flag)` is for a flag that few policies
// set and older versions do not know, and `visit.check(key, is_right, expected)` for what fields that were visited already make
// of one of them.

/// The version of what state_dict writes; incremented by a change that an older headroom would misread.
inline constexpr std::int64_t state_version = 1;

/// Adds every field passed to it to a dictionary.
class StateWriter {
 public:
  StateWriter() = default;  ///< of settings alone
  explicit StateWriter(const std::string& policy) : dict_{{"version", state_version}, {"policy", policy}} {}

  template <class Field, class... Bounds>
  void operator()(const char* key, const Field& field, Bounds...) {
    if constexpr (std::is_same_v<Field, bool>) {
      dict_.add(key, field ? 1 : 0);  // which every version reads
    } else {
      dict_.add(key, field);
    }
  }
  void unless_false(const char* key, bool field) {
    if (field) (*this)(key, field);
  }
  void within(const char* key, double field, double, double) { (*this)(key, field); }
  void check(const char*, bool, const char*) {}
  /// The first `size` numbers of an array, as text.
  template <class Integer, std::size_t capacity, class Size>
  void list(const char* key, const Integer (&values)[capacity], const Size& size, std::int64_t, std::int64_t) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i) text += concat({i == 0 ? "" : " ", std::to_string(values[i])});
    dict_.add(key, text);
  }
  [[nodiscard]] StateDict take() { return std::move(dict_); }

 private:
  StateDict dict_;
};

/// Whether the key is one of a SpikeGuard in the state of a scaler: "spike_guard.0.window", say.
[[nodiscard]] inline bool is_of_spike_guard(std::string_view key) noexcept {
  constexpr std::string_view start = "spike_guard.";
  return key.substr(0, start.size()) == start;
}

/// Fills every field passed to it from a dictionary. Throws std::invalid_argument naming key and value if one is missing, of
/// another type, out of range or, at the end, not asked for.
class StateReader {
 public:
  /// Of this library's own format, written by `policy`, or with one by an AsyncGradScaler: the scale it had in flight is no
  /// policy's, but has to be one. All keys start with `prefix`, which the caller leaves out.
  StateReader(const StateDict& dict, const std::string& policy, std::string prefix = std::string()) : StateReader(dict, true) {
    prefix_ = std::move(prefix);
    check_version();
    leave_out("version");
    const StateValue& name = look_up("policy");
    if (name != StateValue(policy)) bad("policy", name, concat({"'", policy, "'"}));
    check_main_scale(dict);
    if (dict.contains("main_scale")) leave_out("main_scale");
  }
  /// Of another format, or of settings; without `all_needed` a field that is not there stays as it is.
  explicit StateReader(const StateDict& dict, bool all_needed)
      : dict_(&dict), all_needed_(all_needed), is_read_(dict.size(), '-') {}

  static void check_version(const StateDict& dict) { StateReader(dict, true).check_version(); }

  static void check_main_scale(const StateDict& dict) {
    float scale = 1.0F;
    StateReader(dict, false)("main_scale", scale);
    check_loss_scale("main_scale", scale);
  }

  void operator()(const char* key, double& field) {
    if (is_there(key)) field = real(key);
  }
  void operator()(const char* key, double& field, std::int64_t low, std::int64_t high) {
    (*this)(key, field);
    if (!positive_in(field, static_cast<double>(low), static_cast<double>(high))) bad(key, field, range_text(low, high));
  }
  void operator()(const char* key, float& field) {
    if (!is_there(key)) return;
    const double& value = real(key);
    const auto magnitude = bit_cast<std::uint64_t>(value) & binary64::abs_mask;
    // Inf and NaN are left to the check that knows the field's range.
    const bool is_large = magnitude > bit_cast<std::uint64_t>(largest_float) && magnitude < binary64::infinity_bits;
    if (is_large || (magnitude != 0 && magnitude < bit_cast<std::uint64_t>(smallest_float))) {
      bad(key, look_up(key), "within the range of float");
    }
    field = static_cast<float>(value);
  }
  template <class Integer, std::enable_if_t<std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>, int> = 0>
  void operator()(const char* key, Integer& field,  //
                  std::int64_t low = std::numeric_limits<Integer>::min(),
                  std::int64_t high = std::numeric_limits<Integer>::max()) {
    if (!is_there(key)) return;
    const StateValue& value = look_up(key);
    const std::int64_t number = whole(key, value);
    if (number < low || number > high) bad(key, value, range_text(low, high));
    field = static_cast<Integer>(number);
  }
  void operator()(const char* key, bool& field) {
    if (!is_there(key)) return;
    const StateValue& value = look_up(key);
    if (value != StateValue(true) && value != StateValue(false)) bad(key, value, "true or false, or 1 or 0");
    field = value == StateValue(true);
  }
  void unless_false(const char* key, bool& field) {
    if (dict_->contains(full(key))) (*this)(key, field);
  }
  void within(const char* key, double& field, double low, double high) {
    (*this)(key, field);
    const bool is_finite = (bit_cast<std::uint64_t>(field) & binary64::abs_mask) < binary64::infinity_bits;
    if (!is_finite || field < low || field > high) bad(key, field, concat({"in [", to_text(low), ", ", to_text(high), "]"}));
  }
  void check(const char* key, bool is_right, const char* expected) {
    if (!is_right) bad(key, look_up(key), expected);
  }
  /// As many numbers as there are, up to the capacity of the array.
  template <class Integer, std::size_t capacity, class Size>
  void list(const char* key, Integer (&values)[capacity], Size& size, std::int64_t low, std::int64_t high) {
    if (!is_there(key)) return;
    const StateValue& value = look_up(key);
    const std::string text = value.is_text() ? value.text() : "no text";
    // By hand: std::from_chars has one code for units of unlike flags, see shared.hpp.
    const char* at = text.data();
    const char* const end = at + text.size();
    std::size_t n = 0;
    for (; at != end && n < capacity; ++n) {
      const bool is_negative = *at == '-';
      const char* const first = is_negative ? at + 1 : at;
      const char* next = first;
      std::uint64_t magnitude = 0;  // of up to 19 digits, as many as 2^63 - 1 has: any of those fits
      for (; next != end && *next >= '0' && *next <= '9' && next - first < 19; ++next) {
        magnitude = 10 * magnitude + static_cast<std::uint64_t>(*next - '0');
      }
      if (magnitude > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) break;
      const std::int64_t number = is_negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
      if (next == first || number < low || number > high || (next != end && (*next != ' ' || next + 1 == end))) break;
      values[n] = static_cast<Integer>(number);
      at = next == end ? end : next + 1;
    }
    if (at != end) bad(key, value, concat({"up to ", std::to_string(capacity), " whole numbers ", range_text(low, high)}));
    size = static_cast<Size>(n);
  }

  /// A value of whatever type.
  const StateValue& look_up(const char* key) {
    const StateValue& value = dict_->at(full(key));
    std::size_t i = 0;
    for (const auto& entry : *dict_) {
      if (&entry.second == &value) is_read_[i] = '+';
      ++i;
    }
    return value;
  }
  /// Ignores a key, whatever its value.
  void leave_out(const char* key) { (void)look_up(key); }

  /// Call after the last field: throws if the dictionary has an entry that none of them asked for.
  void finish() const {
    std::size_t i = 0;
    for (const auto& [key, value] : *dict_) {
      if (is_read_[i++] != '+') throw_invalid_argument({"the key '", key, "' is unknown; its value is ", to_text(value)});
    }
  }

 private:
  void check_version() {
    if (dict_->empty())
      throw_invalid_argument({"the key 'version' is missing: the state is empty, as that of a disabled scaler is"});
    const StateValue& version = look_up("version");
    const std::int64_t number = whole("version", version);
    if (number < 1) bad("version", version, "at least 1");
    if (number > state_version) {
      throw_invalid_argument({full("version"), " is ", to_text(version),
                              ", the state of a newer headroom: this one reads up to ", std::to_string(state_version)});
    }
  }
  [[nodiscard]] std::string full(const char* key) const { return concat({prefix_, key}); }
  [[nodiscard]] static std::string range_text(std::int64_t low, std::int64_t high) {
    return concat({"in [", std::to_string(low), ", ", std::to_string(high), "]"});
  }
  [[noreturn]] void bad(const char* key, const StateValue& value, const std::string& expected) const {
    throw_invalid_argument({full(key), " is ", to_text(value), "; it must be ", expected});
  }
  [[nodiscard]] std::int64_t whole(const char* key, const StateValue& value) const {
    if (value.is_integer()) return value.integer();
    throw_invalid_argument(
        {full(key), " is ", to_text(value), (value.is_real() ? " as a real number" : ""), "; it must be a whole number"});
  }
  /// An integer will do, because some writers of JSON do not distinguish 2 from 2.0.
  const double& real(const char* key) {
    const StateValue& value = look_up(key);
    if (value.is_real()) return value.real();
    if (!value.is_integer()) bad(key, value, "a number");
    converted_ = static_cast<double>(value.integer());
    return converted_;
  }
  [[nodiscard]] bool is_there(const char* key) const { return all_needed_ || dict_->contains(full(key)); }

  const StateDict* dict_;
  bool all_needed_;
  double converted_ = 0.0;
  std::string prefix_;
  std::string is_read_;  // + or - for each entry of the dictionary
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
