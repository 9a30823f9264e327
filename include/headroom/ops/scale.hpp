#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/transform.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// 16-bit scalars become float first: 1.0 times 65536 is already Inf in fp16.
template <class Scalar>
[[nodiscard]] constexpr auto scaled_scalar(const Scalar& value, double factor) noexcept {
  if constexpr (std::is_same_v<Scalar, double>) {
    return value * factor;
  } else {
    return detail::to_float(value) * static_cast<float>(factor);
  }
}

/// Replaces nodes of dynamic dtype, because their libraries record what was computed from what.
template <class Executor>
struct ScaleNodes {
  static constexpr bool takes_dynamic_nodes = true;
  const Executor& executor;
  double factor;

  template <class Node>
  void operator()(const Path&, Node& node) const {
    if constexpr (is_dynamic_node<Node>()) {
      node = tree_traits<Node>::scaled(node, static_cast<float>(factor));
    } else {
      (void)detail::transform_in_place<ScaleOps>(executor, Pass{0, factor}, node);
    }
  }
};

/// A tree and its copy, whose nodes of dynamic dtype share their elements and are to be replaced.
struct CheckNodesApart {
  static constexpr bool takes_dynamic_nodes = true;
  template <class Node>
  void operator()(const Path& path, const Node& old_node, Node& new_node) const {
    const void *before = std::addressof(old_node), *now = std::addressof(new_node);
    if constexpr (!is_dynamic_node<Node>()) {
      if (detail::size_of(old_node) == 0) return;
      before = detail::data_of(old_node);
      now = detail::data_of(new_node);
    }
    check_not_shared(path, before, now);
  }
};

template <class Executor, class Tree>
auto scale_dynamic(const Executor& executor, Tree&& tree, double factor) {
  static_assert(may_own_elements_v<Tree, true>,
                "headroom: a copy of this tree shares parts with it (references, shared pointers, views), so scaling the copy "
                "would change the tree: give it tensors by value");
  constexpr bool owns = owns_elements_v<Tree, true>;
  bare<Tree> scaled(static_cast<std::conditional_t<owns, Tree&&, const Tree&>>(tree));
  if constexpr (!owns) {
    const CheckNodesApart check{};
    detail::walk(root, check, std::as_const(tree), scaled);
  }
  ScaleNodes<Executor> visit{executor, factor};
  detail::walk(root, visit, scaled);
  return scaled;
}

}  // namespace detail

/// A copy of the tree times the factor. Dtypes are kept, except that a 16-bit scalar, usually a loss, becomes float. A
/// temporary that is known to own its elements (containers, tensors, structs by HEADROOM_TREE) is scaled in place and returned.
/// The factor is rounded to float for elements that are computed in float. Throws std::invalid_argument if it is beyond float.
template <class Executor, class Tree>
[[nodiscard]] auto scale(const Executor& executor, Tree&& tree, const double& factor) {
  detail::check_factor(factor);
  if constexpr (is_dtype_v<detail::bare<Tree>>) {
    return detail::scaled_scalar(tree, factor);
  } else if constexpr (detail::has_dynamic_node_v<Tree>) {
    return detail::scale_dynamic(executor, std::forward<Tree>(tree), factor);
  } else {
    return detail::transform<same_dtype, detail::ScaleOps>(executor, detail::Pass{0, factor}, std::forward<Tree>(tree)).grads;
  }
}
template <class Tree>
[[nodiscard]] auto scale(Tree&& tree, const double& factor) {
  return headroom::scale(sequential, std::forward<Tree>(tree), factor);
}

/// Scales the tree itself; each element is rounded to its own dtype, which 16-bit scalars keep, too.
template <class Executor, class Tree>
void scale_in_place(const Executor& executor, Tree&& tree, const double& factor) {
  detail::check_factor(factor);
  (void)detail::transform_in_place<detail::ScaleOps>(executor, detail::Pass{0, factor}, tree);
}
template <class Tree>
void scale_in_place(Tree&& tree, const double& factor) {
  headroom::scale_in_place(sequential, tree, factor);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
