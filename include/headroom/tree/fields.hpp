#pragma once

#include <headroom/config.hpp>

#include <tuple>
#include <type_traits>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class...>
struct types {};

/// The parts of an Owner: references to its members (or views), and their names as passed to HEADROOM_TREE, "weight, bias";
/// null if there are none. Declared are the `types` the members were declared with; void if unknown.
template <class Owner, class Declared, class Members>
struct Fields {
  Members members;
  const char* names;
};
template <class Owner, class Declared, class... Members>
constexpr Fields<Owner, Declared, std::tuple<Members&...>> make_fields(const char* names, Members&... members) {
  return {std::tuple<Members&...>(members...), names};
}

/// Whether a list consists of plain names: no `layers[2]`, no `view.weight`.
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

/// Makes a struct a branch whose members appear by name in paths: `HEADROOM_TREE(Type, member, member, ...)` with up to 64
/// members, in the body of the struct (also of a class template) or after it in its namespace. Members without gradients need
/// not be named; what they are in a new struct is said at tree_traits. Do not name static members: each struct would count
/// them as its own and scale them again.
#define HEADROOM_TREE(Type, ...)                                                                                        \
  [[maybe_unused]] constexpr auto headroom_tree(Type& self) {                                                           \
    using HeadroomDeclared = ::headroom::detail::types_if<::headroom::detail::are_plain_names(#__VA_ARGS__)             \
                                                              HEADROOM_DETAIL_EACH(HEADROOM_DETAIL_TYPE, __VA_ARGS__)>; \
    return ::headroom::detail::make_fields<Type, HeadroomDeclared>(                                                     \
        #__VA_ARGS__ HEADROOM_DETAIL_EACH(HEADROOM_DETAIL_MEMBER, __VA_ARGS__));                                        \
  }

#define HEADROOM_DETAIL_TYPE(m) , decltype(self.m)
#define HEADROOM_DETAIL_MEMBER(m) , self.m

// "f(a) f(b)" from "a, b": each of 64 slots has a member or (), of which nothing is left, since it makes STOP a comma and so
// NOTHING the second argument of PICK.
// clang-format off
#define HEADROOM_DETAIL_EACH(f, ...)                                                                                          \
  HEADROOM_DETAIL_SLOTS(f, __VA_ARGS__, (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (),   \
  (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (), (),     \
  (), (), (), (), (), (), (), (), (), (), (), (), (), (), )
#define HEADROOM_DETAIL_SLOTS(f, m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19,    \
  m20, m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39, m40, m41, m42, m43,     \
  m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58, m59, m60, m61, m62, m63, more, ...)              \
  HEADROOM_DETAIL_8(f, m0, m1, m2, m3, m4, m5, m6, m7) HEADROOM_DETAIL_8(f, m8, m9, m10, m11, m12, m13, m14, m15)             \
  HEADROOM_DETAIL_8(f, m16, m17, m18, m19, m20, m21, m22, m23) HEADROOM_DETAIL_8(f, m24, m25, m26, m27, m28, m29, m30, m31)   \
  HEADROOM_DETAIL_8(f, m32, m33, m34, m35, m36, m37, m38, m39) HEADROOM_DETAIL_8(f, m40, m41, m42, m43, m44, m45, m46, m47)   \
  HEADROOM_DETAIL_8(f, m48, m49, m50, m51, m52, m53, m54, m55) HEADROOM_DETAIL_8(f, m56, m57, m58, m59, m60, m61, m62, m63)   \
  HEADROOM_DETAIL_PICK(HEADROOM_DETAIL_STOP more, headroom_tree_takes_at_most_64_members, )()
#define HEADROOM_DETAIL_8(f, a, b, c, d, e, g, h, i)                                                                          \
  HEADROOM_DETAIL_SLOT(f, a) HEADROOM_DETAIL_SLOT(f, b) HEADROOM_DETAIL_SLOT(f, c) HEADROOM_DETAIL_SLOT(f, d)                 \
  HEADROOM_DETAIL_SLOT(f, e) HEADROOM_DETAIL_SLOT(f, g) HEADROOM_DETAIL_SLOT(f, h) HEADROOM_DETAIL_SLOT(f, i)
// clang-format on
#define HEADROOM_DETAIL_SLOT(f, m) HEADROOM_DETAIL_PICK(HEADROOM_DETAIL_STOP m, f, )(m)
#define HEADROOM_DETAIL_STOP() , HEADROOM_DETAIL_NOTHING
#define HEADROOM_DETAIL_NOTHING(...)
#define HEADROOM_DETAIL_PICK(...) HEADROOM_DETAIL_SECOND(__VA_ARGS__)
#define HEADROOM_DETAIL_SECOND(first, second, ...) second
