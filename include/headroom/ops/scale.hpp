#pragma once

#include <headroom/ops/transform.hpp>

#include <memory>
#include <type_traits>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE

namespace detail {

/// 16-bit scalars become float first, because 1.0 times 65536 is Inf in fp16.
template <class Scalar>
[[nodiscard]] constexpr auto scaled_scalar(const Scalar& value, double factor) noexcept {
  if constexpr (std::is_same_v<Scalar, double>) {
    return value * factor;
  } else {
    return detail::to_float(value) * static_cast<float>(factor);
  }
}

/// Scales a tree with dynamic nodes into a new one. tree_traits<T>::scaled makes the new nodes, so that their library can
/// record the operation for the backward pass.
template <class Executor>
struct ScaleNodes {
  const Executor& executor;
  double factor;

  template <class Old, class New>
  void operator()(const Path& path, const Old& old_leaf, New& new_leaf) const {
    check_is_new(path, &old_leaf, &new_leaf);
    (void)detail::plan_and_run<ScaleOps, Access::into>(executor, Pass{0, factor}, old_leaf, new_leaf);
  }
  template <class Node>
  void visit_dynamic(const Path& path, const Node& old_node, Node& new_node) const {
    check_is_new(path, &old_node, &new_node);
    new_node = tree_traits<Node>::scaled(old_node, static_cast<float>(factor));
  }

 private:
  static void check_is_new(const Path& path, const void* old_node, const void* new_node) {
    if (old_node == new_node) throw_overlap(path);
  }
};

/// What NoOpLossScale returns as the scaled tree: the tree itself.
template <class Tree>
constexpr Tree pass_through(Tree&& tree) {
  check_has_floats<bare<Tree>>();
  return std::forward<Tree>(tree);
}
template <class Executor, class Tree>
constexpr Tree pass_through(const Executor&, Tree&& tree) {
  check_is_executor<Executor>();
  return detail::pass_through(std::forward<Tree>(tree));
}

}  // namespace detail

/// Returns a copy of the tree, multiplied by the factor. Dtypes are kept, except that a 16-bit scalar, usually a loss, becomes
/// float. A temporary that owns its elements (containers, tensors, structs with HEADROOM_TREE) is scaled in place and returned.
/// The factor is rounded to float for elements that are computed in float, and for tensors whose dtype is known only at run
/// time. Throws std::invalid_argument if the factor is NaN or beyond float.
template <class Executor, class Tree>
[[nodiscard]] auto scale(const Executor& executor, Tree&& tree, const double& factor) {
  detail::check_factor(factor);
  detail::check_is_executor<Executor>();
  if constexpr (is_dtype_v<detail::bare<Tree>>) {
    return detail::scaled_scalar(tree, factor);
  } else if constexpr (detail::has_dynamic_node_v<Tree>) {
    auto scaled = detail::make_like<same_dtype>(std::as_const(tree));
    const detail::ScaleNodes<Executor> visit{executor, factor};
    detail::walk(detail::root, visit, std::as_const(tree), scaled);
    return scaled;
  } else {
    return detail::transform<same_dtype, detail::ScaleOps>(executor, detail::Pass{0, factor}, std::forward<Tree>(tree)).grads;
  }
}
template <class Tree>
[[nodiscard]] auto scale(Tree&& tree, const double& factor) {
  return headroom::scale(sequential, std::forward<Tree>(tree), factor);
}

/// Multiplies the tree by the factor in place. Each element keeps its dtype, also a 16-bit scalar. Throws std::invalid_argument
/// if the factor is NaN or beyond float, or if two views or shared pointers lead to one address.
template <class Executor, class Tree>
void scale_in_place(const Executor& executor, Tree&& tree, const double& factor) {
  detail::check_factor(factor);
  (void)detail::plan_and_run<detail::ScaleOps, detail::Access::in_place>(executor, detail::Pass{0, factor}, tree);
}
template <class Tree>
void scale_in_place(Tree&& tree, const double& factor) {
  headroom::scale_in_place(sequential, tree, factor);
}

HEADROOM_DETAIL_END_NAMESPACE
