#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/all_finite.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/state/fields.hpp>

#include <string>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// No loss scale: for training in float or bfloat16 with the same loop; jmp's NoOpLossScale. Trees pass through untouched, as
/// the very same object where that has a name; the check of the gradients still runs where a report is asked for.
class NoOpLossScale : public LossScaleVerbs<NoOpLossScale> {
 public:
  [[nodiscard]] constexpr float loss_scale() const noexcept { return 1.0F; }
  [[nodiscard]] constexpr float inv_scale() const noexcept { return 1.0F; }
  [[nodiscard]] constexpr NoOpLossScale adjust(bool) const noexcept { return *this; }
  [[nodiscard]] constexpr NoOpLossScale adjust(const GradientReport&) const noexcept { return *this; }

  /// The argument itself: a reference to it where it has a name. A 16-bit loss keeps its dtype, which is float with the other
  /// policies: write static_cast<float>(scaler.scale(loss)) where all of them are to fit.
  template <class Tree>
  [[nodiscard]] constexpr Tree scale(Tree&& tree) const {
    detail::check_has_floats<detail::bare<Tree>>();
    return std::forward<Tree>(tree);
  }
  template <class Executor, class Tree>
  [[nodiscard]] constexpr Tree scale(const Executor&, Tree&& tree) const {
    return scale(std::forward<Tree>(tree));
  }
  template <class Tree>
  void scale_in_place(Tree&&) const {
    detail::check_has_floats<detail::bare<Tree>>();
  }
  template <class Executor, class Tree>
  void scale_in_place(const Executor&, Tree&& tree) const {
    scale_in_place(tree);
  }

  /// The argument itself and its report; with another dtype than the tree's a converted tree.
  template <class To = same_dtype, class Executor, class Tree>
  [[nodiscard]] auto unscale(const Executor& executor, Tree&& tree) const {
    if constexpr (std::is_same_v<To, same_dtype> || detail::every_leaf_is_v<Tree, To>) {
      const GradientReport report = check(executor, tree);
      return Unscaled<Tree>{std::forward<Tree>(tree), report};
    } else {
      return LossScaleVerbs::unscale<To>(executor, std::forward<Tree>(tree));
    }
  }
  template <class To = same_dtype, class Tree>
  [[nodiscard]] auto unscale(Tree&& tree) const {
    return unscale<To>(sequential, std::forward<Tree>(tree));
  }
  template <class Executor, class Tree>
  GradientReport unscale_in_place(const Executor& executor, Tree&& tree) const {
    return check(executor, tree);
  }
  template <class Tree>
  GradientReport unscale_in_place(Tree&& tree) const {
    return check(sequential, tree);
  }

  /// The same: it has no settings. Throws std::invalid_argument where one is given.
  [[nodiscard]] NoOpLossScale with_settings(const StateDict& settings) const {
    detail::StateReader(settings, false).finish();
    return {};
  }

  [[nodiscard]] static std::string policy_name() { return "noop"; }
  [[nodiscard]] StateDict state_dict() const { return detail::StateWriter(policy_name()).take(); }
  /// Throws std::invalid_argument where the state is of something else.
  [[nodiscard]] static NoOpLossScale from_state_dict(const StateDict& dict) {
    detail::StateReader(dict, policy_name()).finish();
    return {};
  }

  friend constexpr bool operator==(NoOpLossScale, NoOpLossScale) noexcept { return true; }
  friend constexpr bool operator!=(NoOpLossScale, NoOpLossScale) noexcept { return false; }

 private:
  template <class Executor, class Tree>
  static GradientReport check(const Executor& executor, const Tree& tree) {
    const std::size_t bytes = detail::check_trees(detail::CheckReadable{}, tree);
    return detail::run_pass(executor, detail::MaxAbs{}, bytes, tree).report();
  }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
