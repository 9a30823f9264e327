#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/fields.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Where a walk stands: a list from the leaf back to the root, on the stack of the walk. A walk that never asks for the text
/// pays for two pointers a branch.
class Path {
 public:
  Path() = default;
  template <class Step>
  Path(const Path& parent, const Step& step) : parent_(&parent), step_(&step), append_(&append<Step>) {}

  /// As in C++: layers[2].weight, ["encoder"], <1>; empty at the root.
  [[nodiscard]] std::string text() const {
    std::string result;
    append_to(result);
    return result;
  }
  /// For messages: the text, or what to say of the root.
  [[nodiscard]] std::string name() const {
    std::string result = text();
    return result.empty() ? "the tree" : result;
  }

 private:
  template <class Step>
  static void append(std::string& text, const void* step) {
    static_cast<const Step*>(step)->append_to(text);
  }
  void append_to(std::string& text) const {
    if (parent_ == nullptr) return;
    parent_->append_to(text);
    append_(text, step_);
  }

  const Path* parent_ = nullptr;
  const void* step_ = nullptr;
  void (*append_)(std::string&, const void*) = nullptr;
};

struct FieldStep {
  PartName field;
  void append_to(std::string& text) const {
    const Name name = field.name();
    if (!text.empty()) text += '.';
    text.append(name.begin, name.length);
  }
};

/// An element of a tuple, or a member of a struct that has no names.
struct ElementStep {
  std::size_t index;
  void append_to(std::string& text) const { text += '<' + std::to_string(index) + '>'; }
};

struct IndexStep {
  std::size_t index;
  void append_to(std::string& text) const { text += '[' + std::to_string(index) + ']'; }
};

/// As between quotes in C++.
inline std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}
/// With as many digits as it takes to get the same number back.
template <class Float>
std::string shortest_text(Float value) {
  char text[48];
  for (int digits = 6; digits <= std::numeric_limits<Float>::max_digits10; ++digits) {
    std::snprintf(text, sizeof text, "%.*Lg", digits, static_cast<long double>(value));
    if (static_cast<Float>(std::strtold(text, nullptr)) == value) break;
  }
  return text;
}

template <class Key>
struct KeyStep {
  const Key& key;
  void append_to(std::string& text) const {
    if constexpr (std::is_convertible_v<const Key&, std::string_view>) {
      text += "[\"" + escaped(std::string_view(key)) + "\"]";
    } else if constexpr (std::is_enum_v<Key>) {
      text += '[' + std::to_string(static_cast<std::underlying_type_t<Key>>(key)) + ']';
    } else if constexpr (std::is_floating_point_v<Key>) {
      text += '[' + shortest_text(key) + ']';
    } else if constexpr (std::is_arithmetic_v<Key>) {
      text += '[' + std::to_string(key) + ']';
    } else {
      text += "[?]";
    }
  }
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
