#pragma once

#include <headroom/config.hpp>

#include <cstddef>
#include <tuple>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// What HEADROOM_TREE makes: references to the members of an Owner, and their names as they were written: "weight, bias".
template <class Owner, class... Members>
struct Fields {
  using owner = Owner;
  std::tuple<Members&...> members;
  const char* names;
};
template <class Owner, class... Members>
constexpr Fields<Owner, Members...> make_fields(const char* names, Members&... members) {
  return {std::tuple<Members&...>(members...), names};
}

/// The `index`-th name of a list, or none where the list is null.
struct NameInList {
  const char* names;
  std::size_t index;
};
struct Name {
  const char* begin;
  std::size_t length;
};
/// The `index`-th of names separated by commas and spaces.
constexpr Name nth_name(const char* names, std::size_t index) {
  for (; index > 0; --index) {
    while (*names != ',') ++names;
    ++names;
  }
  while (*names == ' ') ++names;
  std::size_t length = 0;
  while (names[length] != '\0' && names[length] != ',' && names[length] != ' ') ++length;
  return {names, length};
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom

/// Makes a struct a branch and gives its members names in paths: `HEADROOM_TREE(Type, member, member, ...)`, up to 32 members,
/// in the body of the struct (of a class template too) or after it in its namespace. Members that hold no gradients need not be
/// named.
#define HEADROOM_TREE(Type, ...)                                                                      \
  [[maybe_unused]] constexpr auto headroom_tree(Type& self) {                                         \
    return ::headroom::detail::make_fields<Type>(#__VA_ARGS__, HEADROOM_DETAIL_MEMBERS(__VA_ARGS__)); \
  }

// "self.a, self.b" from "a, b". C++17 has no way but to count.
#define HEADROOM_DETAIL_PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20, _21, \
                             _22, _23, _24, _25, _26, _27, _28, _29, _30, _31, _32, name, ...)                               \
  name
#define HEADROOM_DETAIL_MEMBERS(...)                                                                                          \
  HEADROOM_DETAIL_PICK(__VA_ARGS__, HEADROOM_DETAIL_M32, HEADROOM_DETAIL_M31, HEADROOM_DETAIL_M30, HEADROOM_DETAIL_M29,       \
                       HEADROOM_DETAIL_M28, HEADROOM_DETAIL_M27, HEADROOM_DETAIL_M26, HEADROOM_DETAIL_M25,                    \
                       HEADROOM_DETAIL_M24, HEADROOM_DETAIL_M23, HEADROOM_DETAIL_M22, HEADROOM_DETAIL_M21,                    \
                       HEADROOM_DETAIL_M20, HEADROOM_DETAIL_M19, HEADROOM_DETAIL_M18, HEADROOM_DETAIL_M17,                    \
                       HEADROOM_DETAIL_M16, HEADROOM_DETAIL_M15, HEADROOM_DETAIL_M14, HEADROOM_DETAIL_M13,                    \
                       HEADROOM_DETAIL_M12, HEADROOM_DETAIL_M11, HEADROOM_DETAIL_M10, HEADROOM_DETAIL_M9, HEADROOM_DETAIL_M8, \
                       HEADROOM_DETAIL_M7, HEADROOM_DETAIL_M6, HEADROOM_DETAIL_M5, HEADROOM_DETAIL_M4, HEADROOM_DETAIL_M3,    \
                       HEADROOM_DETAIL_M2, HEADROOM_DETAIL_M1, )                                                              \
  (__VA_ARGS__)
#define HEADROOM_DETAIL_M1(m) self.m
#define HEADROOM_DETAIL_M2(m, ...) self.m, HEADROOM_DETAIL_M1(__VA_ARGS__)
#define HEADROOM_DETAIL_M3(m, ...) self.m, HEADROOM_DETAIL_M2(__VA_ARGS__)
#define HEADROOM_DETAIL_M4(m, ...) self.m, HEADROOM_DETAIL_M3(__VA_ARGS__)
#define HEADROOM_DETAIL_M5(m, ...) self.m, HEADROOM_DETAIL_M4(__VA_ARGS__)
#define HEADROOM_DETAIL_M6(m, ...) self.m, HEADROOM_DETAIL_M5(__VA_ARGS__)
#define HEADROOM_DETAIL_M7(m, ...) self.m, HEADROOM_DETAIL_M6(__VA_ARGS__)
#define HEADROOM_DETAIL_M8(m, ...) self.m, HEADROOM_DETAIL_M7(__VA_ARGS__)
#define HEADROOM_DETAIL_M9(m, ...) self.m, HEADROOM_DETAIL_M8(__VA_ARGS__)
#define HEADROOM_DETAIL_M10(m, ...) self.m, HEADROOM_DETAIL_M9(__VA_ARGS__)
#define HEADROOM_DETAIL_M11(m, ...) self.m, HEADROOM_DETAIL_M10(__VA_ARGS__)
#define HEADROOM_DETAIL_M12(m, ...) self.m, HEADROOM_DETAIL_M11(__VA_ARGS__)
#define HEADROOM_DETAIL_M13(m, ...) self.m, HEADROOM_DETAIL_M12(__VA_ARGS__)
#define HEADROOM_DETAIL_M14(m, ...) self.m, HEADROOM_DETAIL_M13(__VA_ARGS__)
#define HEADROOM_DETAIL_M15(m, ...) self.m, HEADROOM_DETAIL_M14(__VA_ARGS__)
#define HEADROOM_DETAIL_M16(m, ...) self.m, HEADROOM_DETAIL_M15(__VA_ARGS__)
#define HEADROOM_DETAIL_M17(m, ...) self.m, HEADROOM_DETAIL_M16(__VA_ARGS__)
#define HEADROOM_DETAIL_M18(m, ...) self.m, HEADROOM_DETAIL_M17(__VA_ARGS__)
#define HEADROOM_DETAIL_M19(m, ...) self.m, HEADROOM_DETAIL_M18(__VA_ARGS__)
#define HEADROOM_DETAIL_M20(m, ...) self.m, HEADROOM_DETAIL_M19(__VA_ARGS__)
#define HEADROOM_DETAIL_M21(m, ...) self.m, HEADROOM_DETAIL_M20(__VA_ARGS__)
#define HEADROOM_DETAIL_M22(m, ...) self.m, HEADROOM_DETAIL_M21(__VA_ARGS__)
#define HEADROOM_DETAIL_M23(m, ...) self.m, HEADROOM_DETAIL_M22(__VA_ARGS__)
#define HEADROOM_DETAIL_M24(m, ...) self.m, HEADROOM_DETAIL_M23(__VA_ARGS__)
#define HEADROOM_DETAIL_M25(m, ...) self.m, HEADROOM_DETAIL_M24(__VA_ARGS__)
#define HEADROOM_DETAIL_M26(m, ...) self.m, HEADROOM_DETAIL_M25(__VA_ARGS__)
#define HEADROOM_DETAIL_M27(m, ...) self.m, HEADROOM_DETAIL_M26(__VA_ARGS__)
#define HEADROOM_DETAIL_M28(m, ...) self.m, HEADROOM_DETAIL_M27(__VA_ARGS__)
#define HEADROOM_DETAIL_M29(m, ...) self.m, HEADROOM_DETAIL_M28(__VA_ARGS__)
#define HEADROOM_DETAIL_M30(m, ...) self.m, HEADROOM_DETAIL_M29(__VA_ARGS__)
#define HEADROOM_DETAIL_M31(m, ...) self.m, HEADROOM_DETAIL_M30(__VA_ARGS__)
#define HEADROOM_DETAIL_M32(m, ...) self.m, HEADROOM_DETAIL_M31(__VA_ARGS__)
