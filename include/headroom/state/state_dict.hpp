#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/scale_range.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {

class StateValue;

namespace detail {

/// A value as shown in error messages.
[[nodiscard]] inline std::string to_text(const StateValue& value);

}  // namespace detail

/// An integer, a real number, a string, or a boolean. A float becomes a double, which is exact. Not a character, which would
/// become a number where a string is meant.
class StateValue {
 public:
  StateValue() = default;  ///< the integer 0
  template <class Number, std::enable_if_t<std::is_integral_v<Number>, int> = 0>
  StateValue(Number value)
      : kind_(std::is_same_v<Number, bool> ? Kind::boolean : Kind::integer), integer_(static_cast<std::int64_t>(value)) {
    static_assert(sizeof(Number) <= sizeof(std::int64_t), "headroom: a StateValue holds integers of up to 64 bits");
    if constexpr (std::is_unsigned_v<Number> && sizeof(Number) >= sizeof(std::int64_t)) {
      if (value > static_cast<Number>(std::numeric_limits<std::int64_t>::max()))
        detail::throw_invalid_argument({std::to_string(value), " is too large for a StateValue"});
    }
  }
  StateValue(std::nullptr_t) = delete;
  StateValue(char) = delete;
  StateValue(wchar_t) = delete;
  StateValue(char16_t) = delete;
  StateValue(char32_t) = delete;
#if defined(__cpp_char8_t)
  StateValue(char8_t) = delete;
#endif
  StateValue(float value) : kind_(Kind::real), real_(static_cast<double>(value)) {}
  StateValue(double value) : kind_(Kind::real), real_(value) {}
  StateValue(std::string value) : kind_(Kind::text), text_(std::move(value)) {}
  StateValue(std::string_view value) : kind_(Kind::text), text_(value) {}
  StateValue(const char* value) : kind_(Kind::text), text_(value) {}

  [[nodiscard]] bool is_integer() const noexcept { return kind_ == Kind::integer; }
  [[nodiscard]] bool is_real() const noexcept { return kind_ == Kind::real; }
  [[nodiscard]] bool is_text() const noexcept { return kind_ == Kind::text; }
  [[nodiscard]] bool is_boolean() const noexcept { return kind_ == Kind::boolean; }

  /// The integer. Throws std::invalid_argument saying what the value is if it is of another kind; so do the others.
  [[nodiscard]] std::int64_t integer() const {
    if (!is_integer()) refuse("a whole number");
    return integer_;
  }
  /// A reference into this value.
  [[nodiscard]] const double& real() const {
    if (!is_real()) refuse("a real number");
    return real_;
  }
  [[nodiscard]] const std::string& text() const {
    if (!is_text()) refuse("a text");
    return text_;
  }
  [[nodiscard]] bool boolean() const {
    if (!is_boolean()) refuse("true or false");
    return integer_ != 0;
  }

  /// Compares kind and bits, integers and booleans being of one kind: true equals 1, 1 differs from 1.0, 0.0 from -0.0, and a
  /// NaN equals itself.
  friend bool operator==(const StateValue& a, const StateValue& b) noexcept {
    const bool are_comparable = a.is_text() == b.is_text() && a.is_real() == b.is_real();
    return are_comparable && a.integer_ == b.integer_ && a.text_ == b.text_ &&
           detail::bit_cast<std::uint64_t>(a.real_) == detail::bit_cast<std::uint64_t>(b.real_);
  }
  friend bool operator!=(const StateValue& a, const StateValue& b) noexcept { return !(a == b); }

 private:
  enum class Kind : unsigned char { integer, real, text, boolean };

  [[noreturn, gnu::cold, gnu::noinline]] void refuse(const char* expected) const {
    const char* const kind = is_integer() ? " as a whole number" : is_real() ? " as a real number" : "";
    detail::throw_invalid_argument({"a value of a state is ", detail::to_text(*this), kind, "; it must be ", expected});
  }

  Kind kind_ = Kind::integer;
  // Those of other kinds keep these values, so that == compares all. A std::variant would take ten times as long to compile.
  std::int64_t integer_ = 0;
  double real_ = 0.0;
  std::string text_;
};

namespace detail {

[[nodiscard]] inline std::string to_text(const StateValue& value) {
  if (value.is_integer()) return std::to_string(value.integer());
  if (value.is_real()) return to_text(value.real());
  if (value.is_boolean()) return value.boolean() ? "true" : "false";
  return concat({"'", value.text(), "'"});
}

}  // namespace detail

/// The state of a policy, to save with a checkpoint: names and values in the order they were added. `policy.state_dict()`
/// returns one and `Policy::from_state_dict` reads it; state/text.hpp turns it into text, adapters/nlohmann_json.hpp into JSON.
class StateDict {
 public:
  struct Entry {
    std::string first;
    StateValue second;
    friend bool operator==(const Entry& a, const Entry& b) noexcept { return a.first == b.first && a.second == b.second; }
  };

  StateDict() = default;
  /// Throws std::invalid_argument if a key occurs twice.
  StateDict(std::initializer_list<Entry> entries) {
    for (const Entry& entry : entries) add(entry.first, entry.second);
  }

  /// Adds an entry. Throws std::invalid_argument if the key exists already.
  void add(std::string key, StateValue value) {
    if (contains(key)) {
      detail::throw_invalid_argument({"the key '", key, "' is there twice, the second time with ", detail::to_text(value)});
    }
    entries_.push_back({std::move(key), std::move(value)});
  }
  /// The value of a key, which is added with the value 0 if it does not exist.
  StateValue& operator[](std::string_view key) {
    const std::size_t i = position(key);
    if (i == size()) entries_.push_back({std::string(key), StateValue()});
    return entries_[i].second;
  }
  void set(std::string_view key, StateValue value) { (*this)[key] = std::move(value); }
  /// Whether there was such a key.
  bool erase(std::string_view key) {
    const std::size_t i = position(key);
    if (i == size()) return false;
    for (std::size_t next = i + 1; next < size(); ++next) entries_[next - 1] = std::move(entries_[next]);
    entries_.pop_back();
    return true;
  }

  [[nodiscard]] bool contains(std::string_view key) const noexcept { return position(key) < size(); }
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
  friend bool operator==(const StateDict& a, const StateDict& b) noexcept { return a.entries_ == b.entries_; }
  friend bool operator!=(const StateDict& a, const StateDict& b) noexcept { return !(a == b); }

 private:
  /// The size if there is no such key.
  [[nodiscard]] std::size_t position(std::string_view key) const noexcept {
    std::size_t i = 0;
    while (i < size() && entries_[i].first != key) ++i;
    return i;
  }

  std::vector<Entry> entries_;
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
