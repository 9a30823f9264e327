#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/scale_range.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE

class StateValue;

namespace detail {

/// A value as text, the same in files and in messages: see state/text.hpp.
[[nodiscard]] inline std::string to_text(const StateValue& value);

/// Excludes characters, which would become numbers instead of texts.
template <class T>
inline constexpr bool is_state_integer =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
    !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>;

}  // namespace detail

/// An integer, a real number, a text, a boolean, or a list of real numbers. A float becomes a double, which is exact.
class StateValue {
 public:
  StateValue() = default;  ///< the integer 0
  template <class Number, std::enable_if_t<detail::is_state_integer<Number>, int> = 0>
  StateValue(Number value) : integer_(static_cast<std::int64_t>(value)) {  ///< an integer
    if (std::is_unsigned_v<Number> && integer_ < 0) {
      detail::throw_invalid_argument({std::to_string(value), " is too large for a StateValue"});
    }
  }
  template <class Flag, std::enable_if_t<std::is_same_v<Flag, bool>, int> = 0>           // excludes pointers
  StateValue(Flag value) : kind_(Kind::boolean), integer_(value ? 1 : 0) {}              ///< a boolean
  StateValue(float value) : kind_(Kind::real), real_(static_cast<double>(value)) {}      ///< exact
  StateValue(double value) : kind_(Kind::real), real_(value) {}                          ///< a real number
  StateValue(std::string value) : kind_(Kind::text), text_(std::move(value)) {}          ///< a text
  StateValue(std::string_view value) : kind_(Kind::text), text_(value) {}                ///< a text
  StateValue(const char* value) : kind_(Kind::text), text_(value) {}                     ///< a text
  StateValue(std::vector<double> value) : kind_(Kind::list), list_(std::move(value)) {}  ///< a list
  StateValue(std::nullptr_t) = delete;

  [[nodiscard]] bool is_integer() const noexcept { return kind_ == Kind::integer; }  ///< the only kind that `integer` reads
  [[nodiscard]] bool is_real() const noexcept { return kind_ == Kind::real; }        ///< for `real`
  [[nodiscard]] bool is_text() const noexcept { return kind_ == Kind::text; }        ///< for `text`
  [[nodiscard]] bool is_boolean() const noexcept { return kind_ == Kind::boolean; }  ///< for `boolean`
  [[nodiscard]] bool is_list() const noexcept { return kind_ == Kind::list; }        ///< for `list`

  /// The integer. This and the next four throw std::invalid_argument naming the value if it is of another kind.
  [[nodiscard]] std::int64_t integer() const { return expect(Kind::integer, "a whole number"), integer_; }
  /// A reference into this value.
  [[nodiscard]] const double& real() const { return expect(Kind::real, "a real number"), real_; }
  [[nodiscard]] const std::string& text() const { return expect(Kind::text, "a text"), text_; }         ///< see integer
  [[nodiscard]] bool boolean() const { return expect(Kind::boolean, "true or false"), integer_ != 0; }  ///< see integer
  /// A reference into this value.
  [[nodiscard]] const std::vector<double>& list() const { return expect(Kind::list, "a list of numbers"), list_; }

  /// Compares the texts, except that true equals 1. So 1 differs from 1.0, 0.0 from -0.0, and a NaN equals itself.
  friend bool operator==(const StateValue& a, const StateValue& b) { return a.compared() == b.compared(); }
  friend bool operator!=(const StateValue& a, const StateValue& b) { return !(a == b); }

 private:
  // Not a std::variant, whose header takes a third of the time to compile a policy.
  enum class Kind : unsigned char { integer, real, text, boolean, list };

  [[nodiscard]] std::string compared() const { return is_boolean() ? std::to_string(integer_) : detail::to_text(*this); }
  void expect(Kind kind, const char* expected) const {
    if (kind_ == kind) return;
    detail::throw_invalid_argument({"a value of a state is ", detail::to_text(*this), "; it must be ", expected});
  }

  Kind kind_ = Kind::integer;
  std::int64_t integer_ = 0;
  double real_ = 0.0;
  std::string text_;
  std::vector<double> list_;
};

namespace detail {

/// Has a point or an exponent: 500.0 differs from the integer 500. Subnormal numbers may lose digits if the CPU flushes them.
[[nodiscard]] inline std::string real_text(const double& value) {
  std::string text = to_text(value);
  return text.find_first_of(".en") == std::string::npos ? text += ".0" : text;
}
inline std::string to_text(const StateValue& value) {
  if (value.is_integer()) return std::to_string(value.integer());
  if (value.is_real()) return real_text(value.real());
  if (value.is_text()) return detail::quoted(value.text());
  if (value.is_boolean()) return value.boolean() ? "true" : "false";
  std::string text = "[";
  for (const double& number : value.list()) text += concat({text.size() == 1 ? "" : ", ", real_text(number)});
  return text += ']';
}

inline constexpr std::uint64_t first_digest = 0xcbf29ce484222325;
/// FNV-1a over words, with a shift so that high bits affect the low ones.
[[nodiscard]] constexpr std::uint64_t digest_with(std::uint64_t digest, std::uint64_t word) noexcept {
  digest = (digest ^ word) * 0x100000001b3;
  return digest ^ (digest >> 32U);
}
[[nodiscard]] constexpr std::uint64_t digest_with(std::uint64_t digest, std::string_view text) noexcept {
  for (const char c : text) digest = digest_with(digest, static_cast<unsigned char>(c));
  return digest_with(digest, text.size());
}

}  // namespace detail

/// The state of a policy or a scaler: keys and values in the order in which they were added. Iterate over the pairs to write
/// them to a file. state/text.hpp converts it to text, adapters/nlohmann_json.hpp to JSON.
class StateDict {
 public:
  using Entry = std::pair<std::string, StateValue>;  ///< a key and its value

  StateDict() = default;
  /// Throws std::invalid_argument if a key occurs twice.
  StateDict(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) add(entry.first, entry.second);
  }

  /// Adds an entry. Throws std::invalid_argument if the key exists already.
  void add(std::string_view key, StateValue value) {
    if (contains(key)) {
      detail::throw_invalid_argument({"the key '", key, "' is there twice, the second time with ", detail::to_text(value)});
    }
    set(key, std::move(value));
  }
  /// The value of a key. Adds a key that does not exist, with the value 0.
  StateValue& operator[](std::string_view key) {
    const std::size_t i = position(key);
    if (i == size()) entries_.push_back({std::string(key), StateValue()});
    return entries_[i].second;
  }
  void set(std::string_view key, StateValue value) { (*this)[key] = std::move(value); }  ///< changes or adds it
  /// Returns whether the key existed.
  bool erase(std::string_view key) {
    std::size_t i = position(key);
    if (i == size()) return false;
    while (++i < size()) entries_[i - 1] = std::move(entries_[i]);
    entries_.pop_back();
    return true;
  }

  [[nodiscard]] bool contains(std::string_view key) const noexcept { return position(key) < size(); }  ///< if the key exists
  /// Null if there is no such key.
  [[nodiscard]] const StateValue* find(std::string_view key) const noexcept {
    const std::size_t i = position(key);
    return i == size() ? nullptr : &entries_[i].second;
  }
  /// Throws std::invalid_argument naming the key if it does not exist.
  [[nodiscard]] const StateValue& at(std::string_view key) const {
    const StateValue* value = find(key);
    if (value == nullptr) detail::throw_invalid_argument({"the key '", key, "' is missing"});
    return *value;
  }

  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

  /// The same entries in the same order.
  friend bool operator==(const StateDict& a, const StateDict& b) { return a.entries_ == b.entries_; }
  friend bool operator!=(const StateDict& a, const StateDict& b) { return !(a == b); }

 private:
  /// The index of the key; size() if it does not exist.
  [[nodiscard]] std::size_t position(std::string_view key) const noexcept {
    std::size_t i = 0;
    while (i < size() && entries_[i].first != key) ++i;
    return i;
  }

  std::vector<Entry> entries_;
};

/// A hash of keys and values, equal on all machines, not cryptographic. Ranks compare states by it (GradScaler::set_reducer).
[[nodiscard]] inline std::uint64_t digest(const StateDict& state) {
  std::uint64_t result = detail::first_digest;
  for (const StateDict::Entry& entry : state) {
    const StateValue& value = entry.second;
    result = detail::digest_with(result, entry.first);
    result = value.is_real() ? detail::digest_with(result, detail::bit_cast<std::uint64_t>(value.real()))
                             : detail::digest_with(result, detail::to_text(value));
  }
  return result;
}

namespace detail {

template <class Policy>
using state_digest_t = decltype(std::uint64_t{std::declval<const Policy&>().state_digest()});
template <class Policy>
using state_dict_t = decltype(std::declval<const Policy&>().state_dict());
/// The digest by which ranks compare their policies.
template <class Policy>
[[nodiscard]] std::uint64_t state_digest(const Policy& policy) {
  if constexpr (is_detected_v<state_digest_t, Policy>) {
    return policy.state_digest();
  } else if constexpr (is_detected_v<state_dict_t, Policy>) {
    return headroom::digest(policy.state_dict());
  } else {
    return headroom::digest({{"loss_scale", policy.loss_scale()}});
  }
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
