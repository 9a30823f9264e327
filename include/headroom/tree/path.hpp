#pragma once

#include <headroom/detail/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

/// The position of a walk: a linked list from the leaf back to the root, on the walk's stack. A branch makes one step and
/// updates it for each subtree, so a leaf costs one store. The text is made only if it is asked for.
struct Path {
  const Path* parent = nullptr;
  void (*append)(std::string& text, const Path& step) = nullptr;
  const void* what = nullptr;  // the names or the key that `append` reads
  std::size_t index = 0;       // of the subtree

  /// As in C++: layers[2].weight, ["encoder"], <1>; empty at the root.
  [[nodiscard, gnu::cold, gnu::noinline]] std::string text() const {
    if (parent == nullptr) return {};
    std::string result = parent->text();
    append(result, *this);
    return result;
  }
  /// For messages: the text, or "the tree" for the root.
  [[nodiscard]] std::string name() const {
    std::string result = text();
    return result.empty() ? "the tree" : result;
  }
};

/// The path of the tree itself.
inline constexpr Path root{};

// ---- steps ----

inline void append_index(std::string& text, const Path& step) { text += concat({"[", std::to_string(step.index), "]"}); }
/// An element of a tuple, or a member of a struct that has no names.
inline void append_element(std::string& text, const Path& step) { text += concat({"<", std::to_string(step.index), ">"}); }

/// The end of the name that begins at `text`: a comma outside parentheses, or the end of the list. The preprocessor splits
/// the arguments of HEADROOM_TREE at the same places.
inline const char* end_of_name(const char* text) {
  for (int depth = 0; *text != '\0' && (*text != ',' || depth > 0); ++text) depth += (*text == '(') - (*text == ')');
  return text;
}

inline void append_member(std::string& text, std::string_view name) {
  if (!text.empty()) text += '.';
  text += name;
}
/// A member named in tree_traits<T>::names.
inline void append_name(std::string& text, const Path& step) { append_member(text, static_cast<const char*>(step.what)); }
/// A member named in a list, as in HEADROOM_TREE: "weight, bias".
inline void append_field(std::string& text, const Path& step) {
  const char* names = static_cast<const char*>(step.what);
  for (std::size_t i = step.index; i > 0; --i) names = end_of_name(names) + 1;
  const char* end = end_of_name(names);
  while (*names == ' ') ++names;
  while (end != names && end[-1] == ' ') --end;
  append_member(text, std::string_view(names, static_cast<std::size_t>(end - names)));
}

// ---- keys ----

/// As in a C++ string literal.
inline std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}
template <class Key>
void append_key(std::string& text, const Path& step) {
  const Key& key = *static_cast<const Key*>(step.what);
  if constexpr (std::is_convertible_v<const Key&, std::string_view>) {
    text += concat({"[\"", escaped(std::string_view(key)), "\"]"});
  } else if constexpr (std::is_enum_v<Key>) {
    text += concat({"[", std::to_string(static_cast<std::underlying_type_t<Key>>(key)), "]"});
  } else if constexpr (std::is_arithmetic_v<Key>) {
    text += concat({"[", std::to_string(key), "]"});
  } else {
    text += "[?]";
  }
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
