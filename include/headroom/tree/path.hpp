#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/fields.hpp>

#include <cstddef>
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
  NameInList field;
  void append_to(std::string& text) const {
    const Name name = nth_name(field.names, field.index);
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

template <class Key>
struct KeyStep {
  const Key& key;
  void append_to(std::string& text) const {
    if constexpr (std::is_convertible_v<const Key&, std::string_view>) {
      text += "[\"" + std::string(std::string_view(key)) + "\"]";
    } else if constexpr (std::is_enum_v<Key>) {
      text += '[' + std::to_string(static_cast<std::underlying_type_t<Key>>(key)) + ']';
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
