#pragma once

#include <headroom/config.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class...>
struct types {};

/// What HEADROOM_TREE makes: references to the members of an Owner, and their names as they were written: "weight, bias".
/// Declared are the types the members were declared with; void, where some are no members but reached through them.
template <class Owner, class Declared, class... Members>
struct Fields {
  using owner = Owner;
  using declared = Declared;
  std::tuple<Members&...> members;
  const char* names;
};
template <class Owner, class Declared, class... Members>
constexpr Fields<Owner, Declared, Members...> make_fields(const char* names, Members&... members) {
  return {std::tuple<Members&...>(members...), names};
}

struct Name {
  const char* begin;
  std::size_t length;
};

/// Where the part of a list that begins at `text` ends: at a comma that is in no parentheses and no quotes, as for the
/// preprocessor, or at the end of the list.
constexpr const char* end_of_name(const char* text) {
  int depth = 0;
  char quote = '\0';
  for (; *text != '\0' && (*text != ',' || depth > 0 || quote != '\0'); ++text) {
    if (quote != '\0') {
      if (*text == '\\')
        ++text;
      else if (*text == quote)
        quote = '\0';
    } else if (*text == '"' || *text == '\'') {
      quote = *text;
    } else {
      depth += (*text == '(') - (*text == ')');
    }
  }
  return text;
}
/// The `index`-th name of a list, without the spaces around it.
constexpr Name nth_name(const char* names, std::size_t index) {
  for (; index > 0; --index) names = end_of_name(names) + 1;
  const char* end = end_of_name(names);
  while (*names == ' ') ++names;
  while (end != names && end[-1] == ' ') --end;
  return {names, static_cast<std::size_t>(end - names)};
}
constexpr Name whole_name(const char* name) {
  std::size_t length = 0;
  while (name[length] != '\0') ++length;
  return {name, length};
}

/// The name of a part of a struct: one of a list, or a text of its own, of whatever characters.
struct PartName {
  static constexpr std::size_t whole = ~std::size_t{0};
  const char* text;  // null: it has none
  std::size_t index;

  [[nodiscard]] constexpr Name name() const { return index == whole ? whole_name(text) : nth_name(text, index); }
};

/// Whether a list of names has nothing but names: no `layers[2]`, no `view.weight`.
constexpr bool are_plain_names(const char* names) {
  for (; *names != '\0'; ++names) {
    const char c = *names;
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || (c & 0x80) != 0;
    const bool plain = letter || (c >= '0' && c <= '9') || c == ',' || c == ' ';
    if (!plain) return false;
  }
  return true;
}
template <bool Known, class... Ts>
using types_if = std::conditional_t<Known, types<Ts...>, void>;

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom

/// Makes a struct a branch and gives its members names in paths: `HEADROOM_TREE(Type, member, member, ...)`, up to 32 members,
/// in the body of the struct (of a class template too) or after it in its namespace. Members that hold no gradients need not be
/// named.
#define HEADROOM_TREE(Type, ...)                                                                      \
  [[maybe_unused]] constexpr auto headroom_tree(Type& self) {                                         \
    return ::headroom::detail::make_fields<                                                           \
        Type, ::headroom::detail::types_if<::headroom::detail::are_plain_names(#__VA_ARGS__),         \
                                           HEADROOM_DETAIL_EACH(HEADROOM_DETAIL_TYPE, __VA_ARGS__)>>( \
        #__VA_ARGS__, HEADROOM_DETAIL_EACH(HEADROOM_DETAIL_MEMBER, __VA_ARGS__));                     \
  }

#define HEADROOM_DETAIL_MEMBER(m) self.m
#define HEADROOM_DETAIL_TYPE(m) decltype(self.m)

// "f(a), f(b)" from "a, b". C++17 has no way but to count.
#define HEADROOM_DETAIL_PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20, _21, \
                             _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32, name, ...)                               \
  name
#define HEADROOM_DETAIL_EACH(f, ...)                                                                                          \
  HEADROOM_DETAIL_PICK(__VA_ARGS__, HEADROOM_DETAIL_M32, HEADROOM_DETAIL_M31, HEADROOM_DETAIL_M30, HEADROOM_DETAIL_M29,       \
                       HEADROOM_DETAIL_M28, HEADROOM_DETAIL_M27, HEADROOM_DETAIL_M26, HEADROOM_DETAIL_M25,                    \
                       HEADROOM_DETAIL_M24, HEADROOM_DETAIL_M23, HEADROOM_DETAIL_M22, HEADROOM_DETAIL_M21,                    \
                       HEADROOM_DETAIL_M20, HEADROOM_DETAIL_M19, HEADROOM_DETAIL_M18, HEADROOM_DETAIL_M17,                    \
                       HEADROOM_DETAIL_M16, HEADROOM_DETAIL_M15, HEADROOM_DETAIL_M14, HEADROOM_DETAIL_M13,                    \
                       HEADROOM_DETAIL_M12, HEADROOM_DETAIL_M11, HEADROOM_DETAIL_M10, HEADROOM_DETAIL_M9, HEADROOM_DETAIL_M8, \
                       HEADROOM_DETAIL_M7, HEADROOM_DETAIL_M6, HEADROOM_DETAIL_M5, HEADROOM_DETAIL_M4, HEADROOM_DETAIL_M3,    \
                       HEADROOM_DETAIL_M2, HEADROOM_DETAIL_M1, )                                                              \
  (f, __VA_ARGS__)
#define HEADROOM_DETAIL_M1(f, m) f(m)
#define HEADROOM_DETAIL_M2(f, m, ...) f(m), HEADROOM_DETAIL_M1(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M3(f, m, ...) f(m), HEADROOM_DETAIL_M2(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M4(f, m, ...) f(m), HEADROOM_DETAIL_M3(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M5(f, m, ...) f(m), HEADROOM_DETAIL_M4(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M6(f, m, ...) f(m), HEADROOM_DETAIL_M5(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M7(f, m, ...) f(m), HEADROOM_DETAIL_M6(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M8(f, m, ...) f(m), HEADROOM_DETAIL_M7(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M9(f, m, ...) f(m), HEADROOM_DETAIL_M8(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M10(f, m, ...) f(m), HEADROOM_DETAIL_M9(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M11(f, m, ...) f(m), HEADROOM_DETAIL_M10(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M12(f, m, ...) f(m), HEADROOM_DETAIL_M11(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M13(f, m, ...) f(m), HEADROOM_DETAIL_M12(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M14(f, m, ...) f(m), HEADROOM_DETAIL_M13(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M15(f, m, ...) f(m), HEADROOM_DETAIL_M14(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M16(f, m, ...) f(m), HEADROOM_DETAIL_M15(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M17(f, m, ...) f(m), HEADROOM_DETAIL_M16(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M18(f, m, ...) f(m), HEADROOM_DETAIL_M17(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M19(f, m, ...) f(m), HEADROOM_DETAIL_M18(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M20(f, m, ...) f(m), HEADROOM_DETAIL_M19(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M21(f, m, ...) f(m), HEADROOM_DETAIL_M20(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M22(f, m, ...) f(m), HEADROOM_DETAIL_M21(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M23(f, m, ...) f(m), HEADROOM_DETAIL_M22(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M24(f, m, ...) f(m), HEADROOM_DETAIL_M23(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M25(f, m, ...) f(m), HEADROOM_DETAIL_M24(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M26(f, m, ...) f(m), HEADROOM_DETAIL_M25(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M27(f, m, ...) f(m), HEADROOM_DETAIL_M26(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M28(f, m, ...) f(m), HEADROOM_DETAIL_M27(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M29(f, m, ...) f(m), HEADROOM_DETAIL_M28(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M30(f, m, ...) f(m), HEADROOM_DETAIL_M29(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M31(f, m, ...) f(m), HEADROOM_DETAIL_M30(f, __VA_ARGS__)
#define HEADROOM_DETAIL_M32(f, m, ...) f(m), HEADROOM_DETAIL_M31(f, __VA_ARGS__)
