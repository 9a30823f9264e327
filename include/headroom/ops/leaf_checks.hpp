#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/tree/any_tensor.hpp>
#include <headroom/tree/loop_nest.hpp>
#include <headroom/tree/walk.hpp>

#include <initializer_list>
#include <string>
#include <string_view>

// What verbs ask of leaves. Errors name the leaf by its path.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace detail {
/// Names the leaf: "the source", "the source's [2]". If there is only one tree: "the tree", "[2]".
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_bad_leaf(
    const Path& path, const char* which, std::initializer_list<std::string_view> what) {
  const bool is_only_tree = *which == '\0';
  const std::string name = is_only_tree ? path.name() : path.text();
  throw_invalid_argument(
      {which, is_only_tree || name.empty() ? "" : "'s ", name, " ", concat(what)});
}

template <class T>
using obstacle_t = decltype(tensor_traits<T>::obstacle(std::declval<const T&>()));
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_null_leaf(const Path& path,
                                                                   const char* which,
                                                                   std::size_t size) {
  throw_bad_leaf(path, which, {"is null, with a size of ", std::to_string(size)});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_obstacle(const Path& path,
                                                                  const char* which,
                                                                  const char* obstacle,
                                                                  const any_tensor& tensor) {
  throw_bad_leaf(path, which, {obstacle, ": ", tensor.description()});
}
/// `dtype` is its index. Returns the number of elements.
[[nodiscard, gnu::always_inline]] inline std::size_t check_walkable(const Path& path,
                                                                    const char* which,
                                                                    const any_tensor& tensor,
                                                                    int dtype, bool writes) {
  if (tensor.obstacle != nullptr) throw_obstacle(path, which, tensor.obstacle, tensor);
  if (dtype < -1) throw_obstacle(path, which, "has a dtype that is not supported", tensor);
  if (writes && tensor.is_read_only) throw_bad_leaf(path, which, {"is read-only"});
  if (tensor.size != 0 && tensor.data == nullptr) throw_null_leaf(path, which, tensor.size);
  return tensor.size;
}
/// Must be called before the layout of the leaf is asked for.
template <class Leaf>
void check_walkable(const Path& path, const char* which, [[maybe_unused]] const Leaf& leaf,
                    const void* data, std::size_t size, [[maybe_unused]] bool writes) {
  if constexpr (std::is_base_of_v<any_tensor, Leaf>) {
    (void)check_walkable(path, which, leaf, dtype_index(leaf.dtype), writes);
  } else if constexpr (is_detected_v<obstacle_t, Leaf>) {
    const char* const obstacle = tensor_traits<Leaf>::obstacle(leaf);
    if (obstacle != nullptr) throw_bad_leaf(path, which, {obstacle});
  }
  if (size != 0 && data == nullptr) throw_null_leaf(path, which, size);
}

/// A leaf of any type that can be walked.
struct LeafView {
  const char* which;  // as in throw_bad_leaf
  void* data;         // also of a leaf that is only read
  std::size_t size, bytes_each;
  Layout layout;
};
/// Throws if the layout has too many dimensions, or another size than the leaf.
[[nodiscard, gnu::noinline]] inline LeafView checked_view(const Path& path, const char* which,
                                                          const void* data, std::size_t size,
                                                          std::size_t bytes_each,
                                                          const Layout& layout) {
  if (layout.excess() != 0)
    throw_bad_leaf(path, which,
                   {"has ", std::to_string(layout.rank() + layout.excess()),
                    " dimensions, not counting those of one element; there may be ",
                    std::to_string(Layout::max_rank)});
  if (size != static_cast<std::size_t>(layout.size()))
    throw_bad_leaf(
        path, which,
        {"has a size of ", std::to_string(size), ", and a shape of ", layout.shape_text()});
  return {which, const_cast<void*>(data), size, bytes_each, layout};
}
template <class Leaf>
[[nodiscard]] LeafView view_of(const Path& path, const char* which, Leaf& leaf, bool writes) {
  const auto* const data = detail::data_of(leaf);
  const std::size_t size = detail::size_of(leaf);
  detail::check_walkable(path, which, leaf, data, size, writes);
  return detail::checked_view(path, which, data, size, sizeof *data, detail::layout_of(leaf));
}
[[nodiscard]] inline LeafView view_of(const Path& path, const char* which, const any_tensor& tensor,
                                      bool writes) {
  (void)check_walkable(path, which, tensor, dtype_index(tensor.dtype), writes);
  const std::size_t bits = static_cast<std::uint32_t>(tensor.dtype) & 0xFFU;
  return checked_view(path, which, tensor.data, tensor.size, bits / 8, tensor.layout());
}
inline void check_distinct_elements(const Path& path, const LeafView& leaf) {
  if (leaf.size == 0 || !LoopNest(leaf.layout, leaf.layout).may_repeat_elements()) return;
  throw_bad_leaf(
      path, leaf.which,
      {"repeats elements, or has strides as if it did: copy it into a dense tensor first"});
}
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_narrow(const Path& path) {
  throw_logic_error(
      {path.name(),
       ": fp16 and 8-bit gradients that are unscaled in place become 0: make them float (in "
       "libtorch by parameters in float), or unscale_into tensors of float"});
}
template <class Element>
constexpr bool check_is_writable() {
  static_assert(!std::is_const_v<Element>,
                "headroom: this verb writes into the tree, and a leaf of it is const");
  return !std::is_const_v<Element>;
}

/// Of two leaves that have the same shape, or the same size if one is flat and both have no gaps.
inline LoopNest common_nest(const Path& path, const LeafView& source, const LeafView& destination) {
  const Layout &from = source.layout, &to = destination.layout;
  check_distinct_elements(path, destination);
  if (destination.size != 0 && from.same_shape(to)) return {from, to};
  const bool dense = (from.rank() <= 1 || to.rank() <= 1) && LoopNest(from, from).is_contiguous() &&
                     LoopNest(to, to).is_contiguous();
  if (source.size != destination.size || (destination.size != 0 && !dense))
    throw_structure_differs(
        path, {"the source is ", from.shape_text(), ", the destination is ", to.shape_text()});
  return {Layout(), Layout()};
}

template <class A, class B>
using same_structure_t =
    decltype(tensor_traits<A>::same_structure(std::declval<const A&>(), std::declval<const B&>()));
template <class Source, class Destination>
void check_same_structure(const Path& path, const Source& source, const Destination& destination) {
  bool same = true;
  if constexpr (is_detected_v<same_structure_t, Source, Destination>) {
    same = tensor_traits<Source>::same_structure(source, destination);
  } else if constexpr (is_detected_v<same_structure_t, Destination, Source>) {
    same = tensor_traits<Destination>::same_structure(destination, source);
  }
  if (!same)
    throw_structure_differs(path,
                            {"source and destination have their elements in different places"});
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_overlap(const Path& path) {
  throw_invalid_argument(
      {path.name(),
       ": source and destination overlap, so elements of the source would be overwritten (a verb "
       "that returns a new tree copies structs, and a copied pointer still leads to the source)"});
}
[[nodiscard]] inline bool overlap(const void* a, std::size_t bytes_of_a, const void* b,
                                  std::size_t bytes_of_b) noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(a), to = reinterpret_cast<std::uintptr_t>(b);
  return from < to + bytes_of_b && to < from + bytes_of_a;
}
}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
