#pragma once

#include <headroom/detail/detect.hpp>
#include <headroom/tree/tensor_traits.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// What a branch is made of.
enum class branch_kind {
  product,   ///< a fixed number of parts of different types: a struct, a tuple
  sequence,  ///< begin(), end(), size(): elements of one type
  map,       ///< begin(), end(), size(), find(): keys are left alone, values are trees
  pointer,   ///< one tree or none
  variant,   ///< one of several
  dynamic    ///< one tensor whose dtype is known only at run time
};

/// How to reach the subtrees of a type. A specialisation makes the type a branch. For a struct:
///
///     template <> struct headroom::tree_traits<Model> {
///       template <class Self> static auto children(Self& self) { return std::tie(self.weight, self.bias); }
///       static constexpr std::array<const char*, 2> names = {"weight", "bias"};         // optional: for paths
///       template <class To> using rebind = ...;                                         // optional: for verbs that return
///     };                                                                                // another dtype
///
/// The macro HEADROOM_TREE, or a member or free function `children`, is shorter. children(T&) must return all parts by
/// reference; views may be returned by value. It must not change the struct, because it is called for const structs, too. A
/// derived struct needs its own, because the inherited children() lacks the members that the derived struct adds.
///
/// A verb that returns a new tree copies a struct if its type stays the same. If the dtype changes, or if the struct contains a
/// std::unique_ptr, the new struct is default constructed and its children are assigned; other members keep their defaults.
/// Copies of a struct must not share its children: list a std::shared_ptr itself, not what it points to. If a struct and its
/// copy share elements, the verb throws std::invalid_argument. The _in_place and _into forms make no new tree.
///
/// A walk recurses for each level of the tree. A list of tens of thousands of nodes that own each other by std::unique_ptr
/// overflows the stack, as its destructor does: keep them in a std::vector.
///
/// For a container of your own:
///
///     template <class T> struct headroom::tree_traits<Ring<T>> {
///       static constexpr branch_kind kind = branch_kind::sequence;
///       template <class To> using rebuilt = Ring<To>;        // the container with subtrees of type To; it has push_back
///     };
///
/// The other kinds are those of the standard containers: see tree/std.hpp. For a tensor whose dtype is known only at run time:
///
///     template <> struct headroom::tree_traits<Array> {
///       static constexpr branch_kind kind = branch_kind::dynamic;
///       template <class F> static void with_view(const Array& array, F&& f) {     // calls f once, with a leaf of static dtype
///         if (array.dtype == F32) return f(headroom::span<float>(array.floats(), array.size()));
///         if (array.dtype == F16) return f(headroom::as_half(array.data(), array.size()));
///         f(nullptr);                                              // no floating-point elements: skipped
///       }
///       template <class To> static Array like(const Array&);       // for verbs that return a new tree: an array of the same
///                                                                  // shape with elements of To, or a copy if it is skipped
///       static Array scaled(const Array&, float factor);           // for `scale`, besides `like`: array * factor, recorded
///     };                                                           // by the engine for the backward pass
///
/// To may be same_dtype. Verbs that write need a view whose elements are not const. If no verb has to return a new tree, pass
/// any_tensor views instead: see tree/any_tensor.hpp.
template <class T, class Enable = void>
struct tree_traits {
  using not_specialized = void;
};

namespace detail {

template <class...>
struct types {};

// ---- what there is ----

template <class T>
using not_tree_t = typename tree_traits<T>::not_specialized;
template <class T>
using kind_t = std::enable_if_t<std::is_same_v<decltype(tree_traits<T>::kind), const branch_kind>>;
template <class T>
using only_integers_t = std::enable_if_t<tree_traits<T>::holds_only_integers>;

// The routes to the parts of a struct: a member or free children(), the member or free function that HEADROOM_TREE defines.
template <class T>
using member_children_t = decltype(std::declval<T&>().children());
template <class T>
using free_children_t = decltype(children(std::declval<T&>()));
template <class T>
using member_fields_t = decltype(std::declval<T&>().headroom_tree(std::declval<T&>()));
template <class T>
using free_fields_t = decltype(headroom_tree(std::declval<T&>()));

/// How a walk treats a type. It skips `integers`, which are all types without floating-point elements.
enum class node_kind { scalar, tensor, branch, integers, unknown };

template <class T>
constexpr node_kind kind_of_node() {
  if constexpr (is_dtype_v<T>) {
    return node_kind::scalar;
  } else if constexpr (has_tensor_traits_v<T>) {
    using Element = typename tensor_traits<T>::value_type;
    constexpr bool is_integer = std::is_integral_v<Element> || std::is_enum_v<Element>;
    if (std::is_void_v<Element>) return node_kind::branch;  // an any_tensor
    return is_dtype_v<Element> ? node_kind::tensor : is_integer ? node_kind::integers : node_kind::unknown;
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T> || std::is_null_pointer_v<T>) {
    return node_kind::integers;
  } else if constexpr (!is_detected_v<not_tree_t, T>) {
    return is_detected_v<only_integers_t, T> ? node_kind::integers : node_kind::branch;
  } else {
    constexpr bool has_parts = is_detected_v<member_fields_t, T> || is_detected_v<free_fields_t, T> ||
                               is_detected_v<member_children_t, T> || is_detected_v<free_children_t, T>;
    return has_parts ? node_kind::branch : node_kind::unknown;
  }
}
template <class T>
inline constexpr node_kind node_kind_v = kind_of_node<bare<T>>();

template <class T>
constexpr branch_kind kind_of_branch() {
  if constexpr (is_detected_v<kind_t, T>) {
    return tree_traits<T>::kind;
  } else {
    return branch_kind::product;
  }
}
template <class T, branch_kind Kind>
constexpr bool is_branch() {
  if constexpr (node_kind_v<T> == node_kind::branch) {
    return kind_of_branch<bare<T>>() == Kind;
  } else {
    return false;
  }
}
/// A node of dynamic dtype has no elements of its own, only views: see tree_traits.
template <class T>
constexpr bool is_dynamic_node() {
  return is_branch<T, branch_kind::dynamic>();
}

/// A node of dynamic dtype that tells its dtype: an any_tensor.
template <class T>
constexpr bool is_any_tensor() {
  if constexpr (has_tensor_traits_v<T>) return std::is_void_v<typename tensor_traits<T>::value_type>;
  return false;
}

// ---- HEADROOM_TREE ----

/// Whether HEADROOM_TREE lists only names. An expression such as `net.weight` may belong to another struct.
constexpr bool are_members(const char* names) {
  for (; *names != '\0'; ++names) {
    if (*names == '.' || *names == '>' || *names == '(') return false;
  }
  return true;
}

/// The parts of a product: a tuple of references to its members (or views). `names` is the list passed to HEADROOM_TREE, such
/// as "weight, bias", or null. `Owns`: a copy of the owner is known to have parts of its own.
template <class Owner, bool Owns, class... Parts>
struct Fields {
  static constexpr bool owns = Owns;
  static constexpr std::size_t size = sizeof...(Parts);
  using subtrees = types<Parts...>;
  std::tuple<Parts...> parts;
  const char* names;
};
template <class T>
constexpr T& member(T&& member) noexcept {
  static_assert(std::is_lvalue_reference_v<T>, "headroom: HEADROOM_TREE lists members, not what a function returns by value");
  return member;
}
/// Members that are references arrive as lvalues, all others as rvalues.
template <class Owner, bool AreMembers, class... Members>
constexpr auto make_fields(const char* names, Members&&... members) {
  static_assert(sizeof...(Members) <= 64, "headroom: HEADROOM_TREE takes at most 64 members; put some of them into a struct");
  constexpr bool owns = AreMembers && !(std::is_reference_v<Members> || ...);
  return Fields<Owner, owns, std::remove_reference_t<Members>&...>{{members...}, names};
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE

/// Makes a struct a branch, with its members by name in paths. Write `HEADROOM_TREE(Type, member, member, ...)` with up to 64
/// members in the struct (also in a class template), or after it in its namespace. Members without gradients may be left out:
/// tree_traits says what they are in a new struct. Do not list static members, because each struct would scale them.
#define HEADROOM_TREE(Type, ...)                                                                 \
  [[maybe_unused]] constexpr auto headroom_tree(Type& self) {                                    \
    return ::headroom::detail::make_fields<Type, ::headroom::detail::are_members(#__VA_ARGS__)>( \
        #__VA_ARGS__ HEADROOM_DETAIL_EACH(HEADROOM_DETAIL_MEMBER, __VA_ARGS__));                 \
  }
#define HEADROOM_DETAIL_MEMBER(m) , static_cast<decltype(self.m)&&>(::headroom::detail::member(self.m))

// Expands EACH(f, a, b) to f(a) f(b). A macro does not expand inside itself, so each STEP defers the next one to another scan:
// AGAIN is followed by NOTHING(), and is a call only after that is gone. The macros with numbers make more than 64 scans. The
// list ends with a mark, (): `STOP ()` becomes a comma and NOTHING, which PICK returns in place of NEXT.
#define HEADROOM_DETAIL_EACH(f, ...) \
  HEADROOM_DETAIL_16(HEADROOM_DETAIL_16(HEADROOM_DETAIL_16(HEADROOM_DETAIL_16(HEADROOM_DETAIL_STEP(f, __VA_ARGS__, (), )))))
#define HEADROOM_DETAIL_16(...) HEADROOM_DETAIL_4(HEADROOM_DETAIL_4(HEADROOM_DETAIL_4(HEADROOM_DETAIL_4(__VA_ARGS__))))
#define HEADROOM_DETAIL_4(...) HEADROOM_DETAIL_1(HEADROOM_DETAIL_1(HEADROOM_DETAIL_1(HEADROOM_DETAIL_1(__VA_ARGS__))))
#define HEADROOM_DETAIL_1(...) __VA_ARGS__
#define HEADROOM_DETAIL_STEP(f, m, ...) HEADROOM_DETAIL_PICK(HEADROOM_DETAIL_STOP m, HEADROOM_DETAIL_NEXT, )(f, m, __VA_ARGS__)
#define HEADROOM_DETAIL_NEXT(f, m, ...) f(m) HEADROOM_DETAIL_AGAIN HEADROOM_DETAIL_NOTHING()()(f, __VA_ARGS__)
#define HEADROOM_DETAIL_AGAIN() HEADROOM_DETAIL_STEP
#define HEADROOM_DETAIL_STOP() , HEADROOM_DETAIL_NOTHING
#define HEADROOM_DETAIL_NOTHING(...)
#define HEADROOM_DETAIL_PICK(...) HEADROOM_DETAIL_SECOND(__VA_ARGS__)
#define HEADROOM_DETAIL_SECOND(first, second, ...) second
