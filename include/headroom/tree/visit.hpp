#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/tree/path.hpp>
#include <headroom/tree/std.hpp>
#include <headroom/tree/tree_traits.hpp>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

// Walks one tree, or two of the same structure side by side: source and destination, whose element and container types may
// differ. Calls visit(path, leaf...) for every leaf and skips everything that is not floating-point. Each kind of branch has a
// `branch`:
//
//     template <class T> using subtrees = types<...>;                      // the types below a T
//     template <class Visit, class... Nodes>
//     static void walk(const Path&, Visit&, Nodes&... nodes);              // one node, or two side by side
//     template <class To, class T>
//     static auto make_like(const T& node);                                // see tree/make_like.hpp

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {

// Specialisations of `branch` call these for subtrees. make_like and make_struct_like are defined in tree/make_like.hpp.
template <class Visit, class... Nodes>
void walk(const Path& path, Visit& visit, Nodes&... nodes);
template <class To, class T>
[[nodiscard]] auto make_like(const T& tree);
template <class T, class To>
using rebound_t = decltype(detail::make_like<To>(std::declval<const bare<T>&>()));
template <class To, class T>
[[nodiscard]] auto make_struct_like(const T& tree);

template <branch_kind Kind>
struct branch;

template <class T>
using subtrees_t = typename branch<kind_of_branch<T>()>::template subtrees<T>;

/// Carries a type, which need not be default constructible.
template <class T>
struct type_tag {
  using type = T;
};
/// The type of a container or tuple with each subtree rebound. `Rebuilt` is a template parameter, because an alias template
/// with one parameter takes no pack.
template <class To, template <class...> class Rebuilt, class... Ts>
constexpr auto rebuild(types<Ts...>) {
  return type_tag<Rebuilt<rebound_t<Ts, To>...>>{};
}
template <class T, class To>
using rebuilt_t = typename decltype(detail::rebuild<To, tree_traits<T>::template rebuilt>(subtrees_t<T>{}))::type;

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_structure_differs(const Path& path,
                                                                           std::initializer_list<std::string_view> what) {
  const std::string where = path.text();
  throw_invalid_argument({"the trees differ", where.empty() ? "" : " at ", where, ": ", concat(what)});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_sizes_differ(const Path& path, std::size_t source,
                                                                      std::size_t destination) {
  throw_structure_differs(path,
                          {"source has ", std::to_string(source), " elements, destination has ", std::to_string(destination)});
}
inline void check_same_size(const Path& path, std::size_t source, std::size_t destination) {
  if (source != destination) throw_sizes_differ(path, source, destination);
}

// ---- sequences ----

template <class T>
using fixed_size_t = decltype(std::tuple_size<T>::value);

template <>
struct branch<branch_kind::sequence> {
  template <class T>
  using subtrees = types<decltype(*std::begin(std::declval<T&>()))>;

  template <class Visit, class First, class... Second>
  static void walk(const Path& path, Visit& visit, First& first, Second&... second) {
    (check_same_size(path, std::size(first), std::size(second)), ...);
    walk_elements(path, visit, std::begin(first), std::end(first), std::begin(second)...);
  }
  template <class To, class T>
  static rebuilt_t<T, To> make_like(const T& node) {
    rebuilt_t<T, To> result{};
    if constexpr (is_detected_v<fixed_size_t, rebuilt_t<T, To>>) {
      auto place = std::begin(result);
      for (const auto& element : node) *place++ = detail::make_like<To>(element);
    } else {
      for (const auto& element : node) result.push_back(detail::make_like<To>(element));
    }
    return result;
  }

 private:
  template <class Visit, class At, class End, class... Others>
  static void walk_elements(const Path& path, Visit& visit, At at, const End end, Others... others) {
    Path here{&path, append_index};
    for (std::size_t index = 0; at != end; ++at) {
      here.index = index++;  // a store, which is faster than an increment in memory
      detail::walk(here, visit, *at, *others++...);
    }
  }
};

// ---- maps ----

template <>
struct branch<branch_kind::map> {
  template <class T>
  using subtrees = types<typename T::mapped_type>;

  template <class Visit, class First, class... Second>
  static void walk(const Path& path, Visit& visit, First& first, Second&... second) {
    (check_same_size(path, first.size(), second.size()), ...);
    Path here{&path, append_key<typename First::key_type>};
    for (auto& [key, value] : first) {
      here.what = std::addressof(key);
      detail::walk(here, visit, value, value_at(here, second, key)...);
    }
  }
  template <class To, class T>
  static rebuilt_t<T, To> make_like(const T& node) {
    rebuilt_t<T, To> result;
    for (const auto& [key, value] : node) result.emplace(key, detail::make_like<To>(value));
    return result;
  }

 private:
  template <class Map, class Key>
  static auto& value_at(const Path& path, Map& map, const Key& key) {
    const auto found = map.find(key);
    if (found == map.end()) throw_structure_differs(path, {"the destination does not have this key"});
    return found->second;
  }
};

// ---- pointers ----

template <>
struct branch<branch_kind::pointer> {
  template <class T>
  using subtrees = types<typename tree_traits<T>::element_type>;

  template <class Visit, class First, class... Second>
  static void walk(const Path& path, Visit& visit, First& first, Second&... second) {
    auto* const subtree = pointee(first);
    (check_same_emptiness(path, subtree != nullptr, pointee(second) != nullptr), ...);
    if (subtree != nullptr) detail::walk(path, visit, *subtree, *pointee(second)...);
  }
  template <class To, class T>
  static rebuilt_t<T, To> make_like(const T& node) {
    using Result = rebuilt_t<T, To>;
    using Subtree = rebound_t<typename tree_traits<T>::element_type, To>;
    const auto* subtree = tree_traits<T>::get(node);
    if constexpr (std::is_same_v<Result, Subtree>) {
      return detail::make_like<To>(*subtree);  // a std::reference_wrapper, which is never empty
    } else if constexpr (std::is_constructible_v<Result, Subtree>) {
      return subtree != nullptr ? Result(detail::make_like<To>(*subtree)) : Result();
    } else {
      return Result(subtree != nullptr ? new Subtree(detail::make_like<To>(*subtree)) : nullptr);
    }
  }

 private:
  /// The tree behind a pointer, which may be null, or the node itself if it is no pointer.
  template <class Node>
  static auto* pointee(Node& node) {
    if constexpr (is_branch<Node, branch_kind::pointer>()) {
      return tree_traits<bare<Node>>::get(node);
    } else {
      return std::addressof(node);
    }
  }
  static void check_same_emptiness(const Path& path, bool source, bool destination) {
    if (source != destination) throw_structure_differs(path, {source ? "the destination is empty" : "the source is empty"});
  }
};

// ---- variants ----

template <>
struct branch<branch_kind::variant> {
  template <class T>
  using subtrees = typename tree_traits<T>::subtrees;

  template <class Visit, class First, class... Second>
  static void walk(const Path& path, Visit& visit, First& first, Second&... second) {
    const bool lost = first.valueless_by_exception() || (second.valueless_by_exception() || ...);
    if (lost) throw_invalid_argument({path.name(), " is a variant that has lost its value"});
    (check_same_alternative(path, first.index(), second.index()), ...);
    walk_alternative<0>(path, visit, first, second...);
  }
  template <class To, std::size_t I = 0, class T>
  static rebuilt_t<T, To> make_like(const T& node) {
    if (node.valueless_by_exception()) throw_invalid_argument({"a variant of the tree has lost its value"});
    if constexpr (I + 1 < std::variant_size_v<T>) {
      if (node.index() != I) return make_like<To, I + 1>(node);
    }
    return rebuilt_t<T, To>(std::in_place_index<I>, detail::make_like<To>(std::get<I>(node)));
  }

 private:
  static void check_same_alternative(const Path& path, std::size_t source, std::size_t destination) {
    if (source != destination) {
      throw_structure_differs(
          path, {"source holds alternative ", std::to_string(source), ", destination holds ", std::to_string(destination)});
    }
  }
  template <std::size_t I, class Visit, class First, class... Second>
  static void walk_alternative(const Path& path, Visit& visit, First& first, Second&... second) {
    if constexpr (I + 1 < std::variant_size_v<bare<First>>) {
      if (first.index() != I) return walk_alternative<I + 1>(path, visit, first, second...);
    }
    detail::walk(path, visit, *std::get_if<I>(&first), *std::get_if<I>(&second)...);
  }
};

// ---- tensors of dynamic dtype ----

template <>
struct branch<branch_kind::dynamic> {
  template <class T>
  using subtrees = types<>;

  template <class Visit, class Node>
  static void walk(const Path& path, Visit& visit, Node& node) {
    with_view(node, [&](auto&& view) { detail::walk(path, visit, view); });
  }
  template <class Visit, class First, class Second>
  static void walk(const Path& path, Visit& visit, First& first, Second& second) {
    with_view(first, [&](auto&& source) {
      with_view(second, [&](auto&& destination) {
        if constexpr (node_kind_v<decltype(source)> == node_kind_v<decltype(destination)>) {
          detail::walk(path, visit, source, destination);
        } else {
          throw_structure_differs(path, {"a floating-point tensor faces something else"});
        }
      });
    });
  }
  template <class To, class T>
  static T make_like(const T& node) {
    return tree_traits<T>::template like<To>(node);
  }

 private:
  /// Calls f with the view of a dynamic node, or with any other node itself.
  template <class Node, class F>
  static void with_view(Node& node, F&& f) {
    if constexpr (is_dynamic_node<Node>()) {
      tree_traits<bare<Node>>::with_view(node, std::forward<F>(f));
    } else {
      f(node);
    }
  }
};

// ---- products: structs and tuples ----

template <class T>
using traits_children_t = decltype(tree_traits<T>::children(std::declval<T&>()));
template <class T>
using traits_subtrees_t = typename tree_traits<T>::subtrees;
template <class T>
using names_t = decltype(tree_traits<T>::names[0]);

/// The result of HEADROOM_TREE or of children(T&), as Fields.
template <class T, class Owner, bool Owns, class... Parts>
constexpr auto as_fields(const Fields<Owner, Owns, Parts...>& fields) {
  static_assert(std::is_same_v<T, Owner>,
                "headroom: this struct has the HEADROOM_TREE of its base, which does not know the struct's own members; write "
                "one for it: HEADROOM_TREE(Type, member of the base, ..., member, ...)");
  return fields;
}
template <class T, class... Children>
constexpr auto as_fields(const std::tuple<Children...>& children) {
  static_assert(((std::is_lvalue_reference_v<Children> || is_view_v<bare<Children>>)&&...),
                "headroom: children(T&) returns copies, so nothing done to them would reach the struct; write: return "
                "std::tie(member, ...);  (only views, such as headroom::span, may be returned by value)");
  return Fields<T, false, Children...>{children, nullptr};
}

/// The parts of a struct or tuple by the first route that exists; children(T&) is called once.
template <class T>
constexpr auto fields_of(T& node) {
  if constexpr (is_detected_v<traits_children_t, T>) {
    return detail::as_fields<T>(tree_traits<T>::children(node));
  } else if constexpr (is_detected_v<member_children_t, T>) {
    return detail::as_fields<T>(node.children());
  } else if constexpr (is_detected_v<free_children_t, T>) {
    return detail::as_fields<T>(children(node));
  } else if constexpr (is_detected_v<member_fields_t, T>) {
    return detail::as_fields<T>(node.headroom_tree(node));
  } else {
    return detail::as_fields<T>(headroom_tree(node));
  }
}
template <class T>
using fields_t = decltype(detail::fields_of(std::declval<T&>()));

/// A struct or tuple with its parts. The parts are const if the node is. `fields` has references without const, because
/// children(T&) is called without const.
template <class Node>
struct Product {
  using Owner = std::remove_const_t<Node>;
  fields_t<Owner> fields;

  explicit constexpr Product(Node& node) : fields(detail::fields_of(const_cast<Owner&>(node))) {}
  template <std::size_t I>
  constexpr auto& part() {
    if constexpr (std::is_const_v<Node>) {
      return std::as_const(std::get<I>(fields.parts));
    } else {
      return std::get<I>(fields.parts);
    }
  }
};

template <>
struct branch<branch_kind::product> {
  template <class T>
  using subtrees = typename fields_t<T>::subtrees;

  template <class Visit, class First, class... Second>
  static void walk(const Path& path, Visit& visit, First& first, Second&... second) {
    static_assert(((fields_t<bare<First>>::size == fields_t<bare<Second>>::size) && ...),
                  "headroom: the two trees differ in structure: structs or tuples with different numbers of parts");
    walk_parts(std::make_index_sequence<fields_t<bare<First>>::size>{}, path, visit, Product<First>(first),
               Product<Second>(second)...);
  }
  template <class To, class T>
  static auto make_like(const T& node) {
    if constexpr (is_detected_v<traits_subtrees_t, T>) {
      return std::apply([](const auto&... parts) { return rebuilt_t<T, To>(detail::make_like<To>(parts)...); },
                        tree_traits<T>::children(node));
    } else {
      return detail::make_struct_like<To>(node);
    }
  }

 private:
  template <std::size_t... I, class Visit, class First, class... Second>
  static void walk_parts(std::index_sequence<I...>, const Path& path, [[maybe_unused]] Visit& visit, Product<First> first,
                         [[maybe_unused]] Product<Second>... second) {
    [[maybe_unused]] Path here{&path, first.fields.names == nullptr ? append_element : append_field, first.fields.names};
    (walk_part<I>(here, visit, first, second...), ...);
  }
  template <std::size_t I, class Visit, class First, class... Second>
  static void walk_part(Path& here, Visit& visit, Product<First>& first, Product<Second>&... second) {
    here.index = I;
    if constexpr (is_detected_v<names_t, bare<First>>) {
      constexpr const char* name = tree_traits<bare<First>>::names[I];
      here.append = append_name;
      here.what = name;
    }
    detail::walk(here, visit, first.template part<I>(), second.template part<I>()...);
  }
};

// ---- any node ----

template <class T>
constexpr bool check_is_tree() {
  constexpr bool known = node_kind_v<T> != node_kind::unknown;
  static_assert(known,
                "headroom: this type is neither a leaf nor a branch of a tree. Make it a leaf by specialising "
                "headroom::tensor_traits<T> (for Eigen, xtensor and libtorch include the adapter: "
                "<headroom/adapters/eigen.hpp>, <headroom/adapters/xtensor.hpp>, <headroom/adapters/torch.hpp>), or a "
                "branch by one of three routes: specialise headroom::tree_traits<T>; give it a member or free function "
                "children that returns std::tie(member, ...); or write HEADROOM_TREE(Type, member, ...) after it. Instead of "
                "a pointer write headroom::span<T>(pointer, size). A class derived from a container is not taken for one. A "
                "16-bit float needs headroom::dtype_traits<T>. long double and complex numbers are not supported");
  return known;
}

/// A visitor that takes these nodes, of which at least one is dynamic, themselves, not their views.
template <class Visit, class... Nodes>
using takes_dynamic_t = std::enable_if_t<Visit::template takes_dynamic_nodes<bare<Nodes>...>>;

template <class Visit, class First, class... Second>
void walk_alike(const Path& path, Visit& visit, First& first, Second&... second) {
  constexpr node_kind node = node_kind_v<First>;
  static_assert(((node == node_kind_v<Second>)&&...),
                "headroom: the two trees differ in structure: a leaf faces a branch, or a floating-point leaf an integer");
  if constexpr (node == node_kind::scalar || node == node_kind::tensor) {
    visit(path, first, second...);
  } else if constexpr (node == node_kind::branch) {
    constexpr branch_kind kind = kind_of_branch<bare<First>>();
    branch<kind>::walk(path, visit, first, second...);
  }
}

template <class Visit, class... Nodes>
void walk(const Path& path, Visit& visit, Nodes&... nodes) {
  if constexpr ((check_is_tree<Nodes>() && ...)) {
    if constexpr ((is_branch<Nodes, branch_kind::pointer>() || ...)) {
      branch<branch_kind::pointer>::walk(path, visit, nodes...);
    } else if constexpr (!(is_dynamic_node<Nodes>() || ...)) {
      detail::walk_alike(path, visit, nodes...);
    } else if constexpr (is_detected_v<takes_dynamic_t, Visit, Nodes...>) {
      visit(path, nodes...);
    } else {
      branch<branch_kind::dynamic>::walk(path, visit, nodes...);
    }
  }
}

}  // namespace detail

/// Calls `f(leaf)` for every floating-point leaf of `tree`, depth first, members and elements in order. A leaf is passed as it
/// is: a scalar, a std::vector<float>, an Eigen matrix; const if the tree is const. Integers are skipped.
template <class Tree, class F>
void for_each_leaf(Tree&& tree, F&& f) {
  const auto visit = [&f](const detail::Path&, auto& leaf) { f(leaf); };
  detail::walk(detail::root, visit, tree);
}

/// The same with `f(path, leaf)`. The path is a std::string that reads like C++: layers[2].weight, ["encoder"], <1> for an
/// element of a tuple or an unnamed member; empty if the tree itself is a leaf.
template <class Tree, class F>
void for_each_leaf_with_path(Tree&& tree, F&& f) {
  const auto visit = [&f](const detail::Path& path, auto& leaf) { f(path.text(), leaf); };
  detail::walk(detail::root, visit, tree);
}

/// Number of floating-point leaves.
template <class Tree>
[[nodiscard]] std::size_t leaf_count(const Tree& tree) {
  std::size_t count = 0;
  headroom::for_each_leaf(tree, [&count](const auto&) { ++count; });
  return count;
}

/// Number of floating-point elements over all leaves.
template <class Tree>
[[nodiscard]] std::size_t element_count(const Tree& tree) {
  std::size_t count = 0;
  headroom::for_each_leaf(tree, [&count](const auto& leaf) { count += detail::size_of(leaf); });
  return count;
}

HEADROOM_DETAIL_END_NAMESPACE
