#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/ops/transform.hpp>

#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// A tree of unscaled gradients and what the pass over it found: `auto [grads, report] = policy.unscale(tree);`
template <class Tree>
struct [[nodiscard]] Unscaled {
  Tree grads;
  GradientReport report;
};

namespace detail {

/// A scalar times the scale. 16-bit scalars become float first: 1.0 times 65536 is already Inf in fp16.
template <class Scalar>
[[nodiscard]] constexpr auto scaled_scalar(const Scalar& value, float factor) noexcept {
  if constexpr (std::is_same_v<Scalar, double>) {
    return value * static_cast<double>(factor);
  } else {
    return to_float(value) * factor;
  }
}

/// Scales a copy of a tree where there are nodes of dynamic dtype: those are replaced, for their libraries record who has been
/// made of whom.
template <class Executor, class Policy>
struct ScaleNodes {
  static constexpr bool takes_dynamic_nodes = true;
  const Executor& executor;
  const Policy& policy;

  template <class Node>
  void operator()(const Path&, Node& node) const {
    if constexpr (is_dynamic_node<Node>()) {
      node = tree_traits<Node>::scaled(node, policy.loss_scale());
    } else {
      policy.scale_in_place(executor, node);
    }
  }
};

}  // namespace detail

/// The verbs of a policy, for a class to inherit that has `loss_scale()`: `class MyPolicy : public LossScaleVerbs<MyPolicy>`.
/// They change no policy. Each takes an executor as an optional first argument; see ops/executor.hpp. Those that write throw
/// std::invalid_argument, naming the path, where a leaf cannot be written or two trees do not match, before writing anything.
template <class Policy>
class LossScaleVerbs {
 public:
  /// A copy of the tree times the scale, in the dtypes of the tree; the loss, as a rule, where a 16-bit scalar becomes float. A
  /// temporary that is known to own its elements (containers, tensors, structs by HEADROOM_TREE) is scaled itself and returned.
  template <class Executor, class Tree>
  [[nodiscard]] auto scale(const Executor& executor, Tree&& tree) const {
    if constexpr (is_dtype_v<detail::bare<Tree>>) {
      return detail::scaled_scalar(tree, self().loss_scale());
    } else if constexpr (detail::has_dynamic_node_v<Tree>) {
      static_assert(detail::may_own_elements_v<Tree, true>,
                    "headroom: a copy of this tree shares parts with it (references, shared pointers, views), so scaling the "
                    "copy would change the tree: give it tensors by value");
      constexpr bool owns = detail::owns_elements_v<Tree, true>;
      detail::bare<Tree> scaled(static_cast<std::conditional_t<owns, Tree&&, const Tree&>>(tree));
      if constexpr (!owns) {
        const detail::CheckNodesApart check{};
        detail::walk(detail::Path(), check, std::as_const(tree), scaled);
      }
      detail::ScaleNodes<Executor, Policy> visit{executor, self()};
      detail::walk(detail::Path(), visit, scaled);
      return scaled;
    } else {
      return detail::transform<same_dtype>(executor, multiply(), std::forward<Tree>(tree)).tree;
    }
  }
  template <class Tree>
  [[nodiscard]] auto scale(Tree&& tree) const {
    return scale(sequential, std::forward<Tree>(tree));
  }

  template <class Executor, class Tree>
  void scale_in_place(const Executor& executor, Tree&& tree) const {
    (void)detail::transform_in_place(executor, multiply(), tree);
  }
  template <class Tree>
  void scale_in_place(Tree&& tree) const {
    scale_in_place(sequential, tree);
  }

  /// New gradients divided by the scale, in one pass: widened, unscaled, checked, measured. `unscale<float>` gives float
  /// gradients whatever comes in, which is what 16-bit gradients want: in fp16 a true gradient below 2^-25 is 0 again.
  template <class To = same_dtype, class Executor, class Tree>
  [[nodiscard]] auto unscale(const Executor& executor, Tree&& tree) const {
    auto result = detail::transform<detail::checked_dtype_t<To>>(executor, divide(), std::forward<Tree>(tree));
    return Unscaled<decltype(result.tree)>{std::move(result.tree), result.report};
  }
  template <class To = same_dtype, class Tree>
  [[nodiscard]] auto unscale(Tree&& tree) const {
    return unscale<To>(sequential, std::forward<Tree>(tree));
  }

  /// The same where they lie. 16-bit gradients are rounded, and may underflow, in their own dtype.
  template <class Executor, class Tree>
  GradientReport unscale_in_place(const Executor& executor, Tree&& tree) const {
    return detail::transform_in_place(executor, divide(), tree);
  }
  template <class Tree>
  GradientReport unscale_in_place(Tree&& tree) const {
    return unscale_in_place(sequential, tree);
  }

  /// The same into a tree of the same structure and shapes, of any floating-point dtypes, without a new tree. As in cast_into,
  /// a leaf may be its own destination where its elements keep their size, other overlap is std::invalid_argument, and a flat
  /// leaf stands for a tensor without gaps, with its elements in the order in which they lie in memory.
  template <class Executor, class Source, class Destination>
  GradientReport unscale_into(const Executor& executor, const Source& source, Destination&& destination) const {
    return detail::transform_into(executor, divide(), source, destination);
  }
  template <class Source, class Destination>
  GradientReport unscale_into(const Source& source, Destination&& destination) const {
    return unscale_into(sequential, source, destination);
  }

  /// Unscales in place and clips the unscaled gradients to an L2 norm of at most `max_norm`. Two passes: one reads, the other
  /// multiplies by inverse scale times clip factor. Returns finite, max_abs and norm of the unscaled gradients before clipping.
  /// Non-finite gradients are unscaled, not clipped. Throws std::invalid_argument where max_norm is negative or NaN.
  template <class Executor, class Tree>
  GradientNorm unscale_and_clip_in_place(const Executor& executor, Tree&& tree, const double& max_norm) const {
    return detail::unscale_and_clip(executor, tree, self().loss_scale(), max_norm).norm;
  }
  template <class Tree>
  GradientNorm unscale_and_clip_in_place(Tree&& tree, const double& max_norm) const {
    return unscale_and_clip_in_place(sequential, tree, max_norm);
  }

 private:
  [[nodiscard]] constexpr const Policy& self() const noexcept { return static_cast<const Policy&>(*this); }
  [[nodiscard]] double scale_as_double() const noexcept { return static_cast<double>(self().loss_scale()); }
  [[nodiscard]] detail::Multiply multiply() const noexcept { return {scale_as_double()}; }
  [[nodiscard]] detail::Unscale divide() const noexcept { return {kernel::unchecked::unscaling_by(self().loss_scale())}; }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
