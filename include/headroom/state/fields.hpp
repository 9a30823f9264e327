#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

// A class lists its members once, each by name, member and optional bounds. States, checks and equality use this list:
//
//     template <class Visit>
//     static constexpr void fields(Visit&& visit) {
//       visit("hysteresis", &HysteresisConfig::hysteresis, 1, 1000);
//       visit("rate", &HysteresisConfig::rate, 0x1p-20, 0x1p-3, "in [2^-20, 2^-3]");  // with a text for errors
//     }
//
// A member is a number, a boolean, or a std::vector<double>. `fields` takes further arguments if bounds depend on them, such as
// the settings of a piece.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// The version of the states that state_dict writes. Increment it with a change that an older headroom would misread.
inline constexpr std::int64_t state_version = 2;

template <class T, class... Args>
[[nodiscard]] constexpr bool same_fields(const T& a, const T& b, const Args&... args) {
  bool same = true;
  T::fields([&](const char*, auto member, const auto&...) { same = same && a.*member == b.*member; }, args...);
  return same;
}

/// Throws std::invalid_argument naming the field and its value if a number of it is out of bounds.
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

[[nodiscard]] inline StateDict new_state(std::string_view kind) {
  StateDict state;
  state.set("version", state_version);
  state.set("policy", kind);
  return state;
}
template <class T, class... Args>
void write_fields(StateDict& state, const T& object, const Args&... args) {
  T::fields([&](const char* key, auto member, const auto&...) { state.set(key, object.*member); }, args...);
}

/// Reads the fields of objects from a state. Throws std::invalid_argument naming key and value if one is missing, of another
/// type, out of bounds or, in `finish`, unknown.
class StateReader {
 public:
  /// Reads settings. Any of them may be missing.
  explicit StateReader(StateDict settings) : rest_(std::move(settings)) {}
  /// Reads a state of this kind. Ignores an AsyncGradScaler's "main_scale", which must be a valid scale.
  StateReader(StateDict state, std::string_view kind) : rest_(std::move(state)) {
    if (rest_.empty())
      throw_invalid_argument({"the key 'version' is missing: the state is empty, as that of a disabled scaler is"});
    float main_scale = 1.0F;
    read_scale("main_scale", main_scale);
    all_needed_ = true;
    std::int64_t version = 0;
    (*this)("version", version, 1, std::numeric_limits<std::int64_t>::max(), "at least 1");
    if (version < state_version) {
      throw_invalid_argument({"version is ", to_text(version), "; the state was written by headroom 0.1"});
    }
    if (version > state_version) {
      throw_invalid_argument(
          {"version is ", to_text(version), ", the state of a newer headroom: this one reads up to ", to_text(state_version)});
    }
    const StateValue found = take("policy");
    if (found != StateValue(kind)) bad("policy", found, detail::quoted(kind));
  }

  template <class T, class... Args>
  void read(T& object, const Args&... args) {
    T::fields([&](const char* key, auto member, const auto&... bounds) { (*this)(key, object.*member, bounds...); }, args...);
  }
  void read_scale(const char* key, float& scale) {
    (*this)(key, scale, smallest_loss_scale, largest_loss_scale, "in [2^-126, 2^126]");
  }
  template <class Field, class... Bounds>
  void operator()(const char* key, Field& field, const Bounds&... bounds) {
    if (all_needed_ || rest_.contains(key)) set(key, take(key), field, bounds...);
  }

  /// Call after the last field. Throws if an entry has not been read.
  void finish() const {
    for (const StateDict::Entry& entry : rest_) {
      throw_invalid_argument({"the key '", entry.first, "' is unknown; its value is ", to_text(entry.second)});
    }
  }

 private:
  [[nodiscard]] StateValue take(const char* key) {
    (void)rest_.at(key);  // throws if it is missing
    StateValue taken = std::move(rest_[key]);
    (void)rest_.erase(key);
    return taken;
  }
  [[noreturn]] void bad(const char* key, const StateValue& value, std::string_view expected) const {
    throw_invalid_argument({key, " is ", to_text(value), "; it must be ", expected});
  }

  void set(const char* key, const StateValue& value, bool& field) const {
    field = value == StateValue(true);  // or 1
    if (!field && value != StateValue(false)) bad(key, value, "true or false");
  }
  /// Checks the bounds before it rounds. An integer may also be written as a whole real number, such as 2.0 by a writer of
  /// JSON, or 5e2.
  template <class Number, class... Bounds>
  void set(const char* key, const StateValue& value, Number& field, const Bounds&... bounds) const {
    using Limits = std::numeric_limits<Number>;
    using Wide = std::conditional_t<std::is_integral_v<Number>, std::int64_t, double>;
    Wide number = 0;
    if (value.is_integer()) {
      number = static_cast<Wide>(value.integer());
    } else if (value.is_real() && (!std::is_integral_v<Number> || is_whole(value.real()))) {
      number = static_cast<Wide>(value.real());
    } else {
      bad(key, value, std::is_integral_v<Number> ? "a whole number" : "a number");
    }
    if constexpr (sizeof...(bounds) == 0) {
      detail::check_field(key, number, Limits::lowest(), Limits::max());
    } else {
      detail::check_field(key, number, bounds...);
    }
    field = static_cast<Number>(number);
  }
  template <class... Bounds>
  void set(const char* key, const StateValue& value, std::vector<double>& field, const Bounds&... bounds) const {
    if (!value.is_list()) bad(key, value, "a list of numbers");
    detail::check_field(key, value.list(), bounds...);
    field = value.list();
  }
  [[nodiscard]] static bool is_whole(const double& value) noexcept {
    return is_within(value, -0x1p62, 0x1p62) && static_cast<double>(static_cast<std::int64_t>(value)) == value;
  }

  StateDict rest_;  // entries that have not been read
  bool all_needed_ = false;
};

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
