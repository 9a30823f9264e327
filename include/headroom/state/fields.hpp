#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// What a class keeps is listed once, by name, member and, if it has any, bounds. States, checks and equality follow from it:
//
//     template <class Visit>
//     static constexpr void fields(Visit&& visit) {
//       visit("hysteresis", &HysteresisConfig::hysteresis, 1, 1000);
//       visit("rate", &HysteresisConfig::rate, 0x1p-20, 0x1p-3, "in [2^-20, 2^-3]");  // if the message should say it so
//     }
//
// A member is a number, a boolean, or an array or a std::vector of numbers. If bounds depend on something else, a piece's on
// its settings, that is a further argument.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// The version of what state_dict writes; incremented by a change that an older headroom would misread.
inline constexpr std::int64_t state_version = 2;

template <class Field>
[[nodiscard]] constexpr bool same_field(const Field& a, const Field& b) {
  return a == b;
}
template <class Number, std::size_t size>
[[nodiscard]] constexpr bool same_field(const Number (&a)[size], const Number (&b)[size]) {
  bool same = true;
  for (std::size_t i = 0; i < size; ++i) same = same && a[i] == b[i];
  return same;
}
template <class T, class... Args>
[[nodiscard]] constexpr bool same_fields(const T& a, const T& b, const Args&... args) {
  bool same = true;
  T::fields([&](const char*, auto member, const auto&...) { same = same && detail::same_field(a.*member, b.*member); },
            args...);
  return same;
}

/// Throws std::invalid_argument naming the field and its value, or that of one of its numbers, if it is out of bounds.
template <class Field>
constexpr void check_field(const char*, const Field&) {}
template <class Field, class Low, class High>
constexpr void check_field(const char* name, const Field& field, const Low& low, const High& high,
                           const char* expected = nullptr) {
  if constexpr (std::is_arithmetic_v<Field>) {
    using Wide = std::conditional_t<std::is_integral_v<Field>, std::int64_t, Field>;
    check_in(name, static_cast<const Wide&>(field), static_cast<Wide>(low), static_cast<Wide>(high), expected);
  } else {
    for (const auto& number : field) detail::check_field(name, number, low, high, expected);
  }
}
template <class T, class... Args>
constexpr void check_fields(const T& object, const Args&... args) {
  T::fields([&](const char* name, auto member, const auto&... bounds) { detail::check_field(name, object.*member, bounds...); },
            args...);
}

/// Writes the fields of objects to a state.
class StateWriter {
 public:
  StateWriter() = default;
  explicit StateWriter(std::string_view kind) : dict_{{"version", state_version}, {"policy", kind}} {}

  template <class T, class... Args>
  void add(const T& object, const Args&... args) {
    T::fields([&](const char* key, auto member, const auto&...) { (*this)(key, object.*member); }, args...);
  }
  template <class Field, class... Bounds>
  void operator()(const char* key, const Field& field, const Bounds&...) {
    if constexpr (std::is_constructible_v<StateValue, const Field&>) {
      dict_.add(key, field);
    } else {
      std::vector<double> list;
      for (const auto& number : field) list.push_back(static_cast<double>(number));
      dict_.add(key, std::move(list));
    }
  }
  [[nodiscard]] StateDict take() { return std::move(dict_); }

 private:
  StateDict dict_;
};

/// Whether headroom 0.1 wrote a state. It is read if its keys are today's; otherwise the error says so.
[[nodiscard]] inline bool is_of_0_1(const StateDict& state) noexcept {
  const StateValue* version = state.find("version");
  return version != nullptr && *version == StateValue(1);
}
[[nodiscard]] inline const char* hint_for(bool is_old) noexcept {
  return is_old ? "; the state was written by headroom 0.1" : "";
}

/// Reads the fields of objects from a state. Throws std::invalid_argument naming key and value if one is missing, of another
/// type, out of bounds or, at the end, not asked for.
class StateReader {
 public:
  /// Of settings, of which any may be missing.
  explicit StateReader(const StateDict& settings) : rest_(settings) {}
  /// Of a state of this kind. The scale that an AsyncGradScaler had in flight is no policy's, but must be one.
  StateReader(const StateDict& state, std::string_view kind) : rest_(state), is_old_(is_of_0_1(state)) {
    if (rest_.empty())
      throw_invalid_argument({"the key 'version' is missing: the state is empty, as that of a disabled scaler is"});
    float main_scale = 1.0F;
    (*this)("main_scale", main_scale);
    check_loss_scale("main_scale", main_scale);
    all_needed_ = true;
    std::int64_t version = 0;
    (*this)("version", version);
    if (version < 1) throw_bad_value("version", version, "at least 1");
    if (version > state_version) {
      throw_invalid_argument({"version is ", std::to_string(version), ", the state of a newer headroom: this one reads up to ",
                              std::to_string(state_version)});
    }
    const StateValue found = take("policy");
    if (found != StateValue(kind)) bad("policy", found, detail::quoted(kind));
  }

  template <class T, class... Args>
  void read(T& object, const Args&... args) {
    T::fields([&](const char* key, auto member, const auto&... bounds) { (*this)(key, object.*member, bounds...); }, args...);
  }
  /// headroom 0.1 left out flags that were not set.
  template <class Field, class... Bounds>
  void operator()(const char* key, Field& field, const Bounds&... bounds) {
    const bool is_optional = !all_needed_ || (is_old_ && std::is_same_v<Field, bool>);
    if (!rest_.contains(key) && is_optional) return;
    set(key, take(key), field);
    detail::check_field(key, field, bounds...);
  }

  /// Call after the last field: throws if there is an entry that none of them asked for.
  void finish() const {
    if (rest_.empty()) return;
    const auto& [key, value] = *rest_.begin();
    throw_invalid_argument({"the key '", key, "' is unknown; its value is ", to_text(value), hint_for(is_old_)});
  }

 private:
  [[nodiscard]] StateValue take(const char* key) {
    const StateValue* value = rest_.find(key);
    if (value == nullptr) throw_invalid_argument({"the key '", key, "' is missing", hint_for(is_old_)});
    StateValue taken = *value;
    (void)rest_.erase(key);
    return taken;
  }
  [[noreturn]] void bad(const char* key, const StateValue& value, const std::string& expected) const {
    throw_invalid_argument({key, " is ", to_text(value), "; it must be ", expected, hint_for(is_old_)});
  }

  void set(const char* key, const StateValue& value, bool& field) const {
    field = value == StateValue(true);  // or 1, as headroom 0.1 wrote it
    if (!field && value != StateValue(false)) bad(key, value, "true or false");
  }
  /// A whole real number will do: writers of JSON need not distinguish 2 from 2.0, and people write 5e2.
  template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
  void set(const char* key, const StateValue& value, Integer& field) const {
    std::int64_t number = 0;
    if (value.is_integer()) {
      number = value.integer();
    } else if (value.is_real() && is_within(value.real(), -0x1p62, 0x1p62)) {
      number = static_cast<std::int64_t>(value.real());
      if (static_cast<double>(number) != value.real()) bad(key, value, "a whole number");
    } else {
      bad(key, value, "a whole number");
    }
    field = static_cast<Integer>(number);
    const bool is_changed = static_cast<std::int64_t>(field) != number || (std::is_unsigned_v<Integer> && number < 0);
    if (is_changed) bad(key, value, range_text(std::numeric_limits<Integer>::min(), std::numeric_limits<Integer>::max()));
  }
  /// An integer will do.
  void set(const char* key, const StateValue& value, double& field) const {
    if (!value.is_real() && !value.is_integer()) bad(key, value, "a number");
    field = value.is_real() ? value.real() : static_cast<double>(value.integer());
  }
  void set(const char* key, const StateValue& value, float& field) const {
    double number = 0.0;
    set(key, value, number);
    const bool is_small = is_within(number, -largest_float, largest_float);
    const bool is_tiny = !is_zero(number) && is_within(number, -smallest_float / 2.0, smallest_float / 2.0);
    if (!is_small || is_tiny) bad(key, value, "within the range of float");
    field = static_cast<float>(number);
  }
  void set(const char* key, const StateValue& value, std::string& field) const {
    if (!value.is_text()) bad(key, value, "a text");
    field = value.text();
  }
  template <class Number, std::size_t size>
  void set(const char* key, const StateValue& value, Number (&field)[size]) const {
    std::vector<Number> numbers;
    set(key, value, numbers);
    if (numbers.size() != size) bad(key, value, concat({"a list of ", std::to_string(size), " numbers"}));
    for (std::size_t i = 0; i < size; ++i) field[i] = numbers[i];
  }
  template <class Number>
  void set(const char* key, const StateValue& value, std::vector<Number>& field) const {
    if (!value.is_list()) bad(key, value, "a list of numbers");
    field.clear();
    for (const double& number : value.list()) {
      Number read{};
      set(key, number, read);
      field.push_back(read);
    }
  }

  StateDict rest_;  // what has not been read yet
  bool all_needed_ = false, is_old_ = false;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
