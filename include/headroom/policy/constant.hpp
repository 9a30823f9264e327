#pragma once

#include <headroom/policy/verbs.hpp>
#include <headroom/state/fields.hpp>

#include <string>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// No loss scale: jmp's NoOpLossScale, for float or bfloat16 in the same loop. Verbs that return a report check gradients.
/// `scale(tree)` returns an lvalue by reference and moves an rvalue; so does `unscale(tree)` of floats and doubles. Others
/// return a new tree. `scale` keeps the dtype of a 16-bit loss, which is float with other policies.
class NoOpLossScale : public LossScaleVerbs<NoOpLossScale> {
 public:
  [[nodiscard]] constexpr float loss_scale() const noexcept { return 1.0F; }
  [[nodiscard]] constexpr NoOpLossScale adjust(bool) const noexcept { return *this; }
  [[nodiscard]] constexpr NoOpLossScale adjust(const GradientReport&) const noexcept { return *this; }

  template <class Tree>
  [[nodiscard]] constexpr Tree scale(Tree&& tree, const Executor& = sequential) const {
    return Scale<Tree>::pass_through(std::forward<Tree>(tree));
  }
  template <class To = at_least_float, class Tree>
  [[nodiscard]] auto unscale(Tree&& tree, const Executor& executor = sequential) const {
    return Unscale<Tree>::template unscale_by_1<To>(std::forward<Tree>(tree), executor);
  }
  template <class Tree>
  void scale_in_place(Tree&& tree, const Executor& = sequential) const {
    (void)Scale<Tree&>::pass_through(tree);  // writes nothing
  }
  template <class Allowed = void, class Tree>
  [[nodiscard]] GradientReport unscale_in_place(Tree&& tree, const Executor& executor = sequential) const {
    return Unscale<Tree>::measure(tree, executor);
  }

  /// Returns the same policy, which has no settings. Throws std::invalid_argument if one is given.
  [[nodiscard]] NoOpLossScale with_settings(const StateDict& settings) const {
    detail::StateReader(settings).finish();
    return {};
  }

  [[nodiscard]] static std::string policy_name() { return "noop"; }
  [[nodiscard]] StateDict state_dict() const { return detail::new_state(policy_name()); }
  /// Throws std::invalid_argument if the state is of something else.
  [[nodiscard]] static NoOpLossScale from_state_dict(const StateDict& dict) {
    detail::StateReader(dict, policy_name()).finish();
    return {};
  }

  friend constexpr bool operator==(NoOpLossScale, NoOpLossScale) noexcept { return true; }
  friend constexpr bool operator!=(NoOpLossScale, NoOpLossScale) noexcept { return false; }
};

/// A loss scale that never changes; jmp's StaticLossScale. The caller still skips the step on overflow.
class ConstantLossScale : public LossScaleVerbs<ConstantLossScale> {
 public:
  /// Throws std::invalid_argument if `scale` is not in [2^-126, 2^126].
  constexpr explicit ConstantLossScale(const float& scale) : scale_(scale) { detail::check_loss_scale("scale", scale_); }

  [[nodiscard]] constexpr float loss_scale() const noexcept { return scale_; }
  [[nodiscard]] constexpr ConstantLossScale adjust(bool) const noexcept { return *this; }
  [[nodiscard]] constexpr ConstantLossScale adjust(const GradientReport&) const noexcept { return *this; }

  /// The same kind of policy with another scale. Throws std::invalid_argument if it is not in [2^-126, 2^126].
  [[nodiscard]] constexpr ConstantLossScale with_loss_scale(const float& scale) const { return ConstantLossScale(scale); }

  /// The same with the "scale" of these settings, if they have one.
  [[nodiscard]] ConstantLossScale with_settings(const StateDict& settings) const {
    return read_from(detail::StateReader(settings), "scale", scale_);
  }

  [[nodiscard]] static std::string policy_name() { return "constant"; }
  [[nodiscard]] StateDict state_dict() const {
    StateDict state = detail::new_state(policy_name());
    state.add("loss_scale", scale_);
    return state;
  }
  /// Throws std::invalid_argument naming key and value if one is missing, unknown, of another type or out of range.
  [[nodiscard]] static ConstantLossScale from_state_dict(const StateDict& dict) {
    return read_from(detail::StateReader(dict, policy_name()), "loss_scale", 1.0F);
  }

  friend constexpr bool operator==(const ConstantLossScale& a, const ConstantLossScale& b) noexcept {
    return a.scale_ == b.scale_;
  }
  friend constexpr bool operator!=(const ConstantLossScale& a, const ConstantLossScale& b) noexcept { return !(a == b); }

 private:
  [[nodiscard]] static ConstantLossScale read_from(detail::StateReader read, const char* key, float scale) {
    read.read_scale(key, scale);
    read.finish();
    return ConstantLossScale(scale);
  }

  float scale_;
};

HEADROOM_DETAIL_END_NAMESPACE
