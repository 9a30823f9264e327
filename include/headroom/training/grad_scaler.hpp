#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/policy_verbs.hpp>
#include <headroom/ops/scale.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/training/grad_scaler_settings.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/step_result.hpp>
#include <headroom/tree/facts.hpp>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// A tree as `scale` would return it, but unchanged.
template <class Tree>
auto unmodified(Tree&& tree) {
  using Result = decltype(headroom::scale(std::forward<Tree>(tree), 1.0));
  if constexpr (std::is_same_v<Result, bare<Tree>> && (owns_elements_v<Result> || has_dynamic_node_v<Result>)) {
    return Result(std::forward<Tree>(tree));
  } else {
    return headroom::scale(std::forward<Tree>(tree), 1.0);
  }
}

}  // namespace detail

/// Loss scaling around the steps of optimizers, with the interface of torch.amp.GradScaler:
///
///     headroom::GradScaler scaler;
///     for (…) {
///       backward(scaler.scale(loss));                    // scaled gradients
///       const auto result = scaler.step(optimizer);      // unscales, checks, steps unless there was an overflow
///       scaler.update();                                 // adjusts the scale
///     }
///
/// An iteration lasts from one update to the next. In each, an optimizer may be unscaled once and stepped once; anything else
/// is a std::logic_error, and so is a step with gradients of the previous iteration, if a loss was scaled in that one and none
/// since. (If you multiply by get_scale() and never call `scale`, the order is up to you.) All losses of an iteration have the
/// scale of its first `scale`, and its gradients are divided by that, whatever is set in the meantime. Not for two threads at
/// once.
///
/// Within an iteration an optimizer is identified by its address and by where its gradients are. It may move as long as the
/// gradients stay put; change those in place, or before `unscale_`. Another one is mistaken for it if it comes to the address
/// of one that has been stepped, or of one that is gone and had its gradients in the very same memory.
///
/// Two optimizers that share gradients are a std::logic_error. So one that has been unscaled has to keep its gradients until it
/// is stepped, or until `update`. The memory of one that has been stepped may be used again, and counts as shared only where a
/// whole leaf is the same. Gradients that lie in the optimizer itself, in a std::array say, move with it, and only their
/// largest magnitude tells: it is a std::logic_error if it is equal in two optimizers of one type, or grows between `unscale_`
/// and `step`.
///
/// Gradient accumulation: `scale` and backward for each part, then `step` and `update` once. Adding to unscaled gradients is a
/// std::logic_error at the step, if a loss was scaled after that and has made them larger. Clipping: between `unscale_` and
/// `step`, or by unscale_and_clip_.
template <class Policy = DynamicLossScale>
class GradScaler : public GradScalerSettings<Policy> {
  using Settings = GradScalerSettings<Policy>;

 public:
  GradScaler() : GradScaler(Policy()) {}
  /// If not `enabled`, everything passes through: losses are not scaled, steps not checked.
  explicit GradScaler(const Policy& policy, bool enabled = true) : Settings(policy, enabled) {}
  /// The arguments, defaults and rule of torch.amp.GradScaler: no floor, and growth to Inf is refused. For policies that are
  /// configured by a LossScaleConfig. Throws std::invalid_argument if an argument is out of range.
  template <class P = Policy, std::enable_if_t<std::is_constructible_v<P, const LossScaleConfig&>, int> = 0>
  explicit GradScaler(const double& init_scale, const double& growth_factor = 2.0, const double& backoff_factor = 0.5,
                      std::int64_t growth_interval = 2000, bool enabled = true)
      : GradScaler(P(presets::torch(init_scale, growth_factor, backoff_factor, growth_interval).config()), enabled) {}
  /// GradScaler(true) would be a scale of 1; whether the scaler is enabled is the last argument.
  template <class T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  explicit GradScaler(T enabled) = delete;

  /// The outputs (usually the loss; any tree) times the scale: see headroom::scale.
  template <class Tree>
  [[nodiscard]] auto scale(Tree&& outputs) {
    if (!enabled_) return detail::unmodified(std::forward<Tree>(outputs));
    iteration_.loss_was_scaled(gradient_scale());
    return headroom::scale(iteration_.executor, std::forward<Tree>(outputs), static_cast<double>(gradient_scale()));
  }

  /// Unscales and checks the gradients of an optimizer, to be looked at or changed before `step`, which otherwise does it
  /// itself. Gradients without elements count as finite, and so do none at all.
  template <class Optimizer>
  GradientReport unscale_(Optimizer& optimizer) {
    detail::check_is_optimizer<Optimizer>();
    if (!enabled_) return {true, 0.0};
    return iteration().unscale(optimizer, gradient_scale(), nullptr);
  }

  /// The same, and clips the gradients to an L2 norm of `max_norm` if they are finite. Returns the norm before clipping. Throws
  /// std::invalid_argument if max_norm is negative or NaN.
  template <class Optimizer>
  GradientNorm unscale_and_clip_(Optimizer& optimizer, const double& max_norm) {
    detail::check_is_optimizer<Optimizer>();
    detail::check_max_norm(max_norm);
    if (!enabled_) return iteration_.clip(optimizer, max_norm);
    return iteration().unscale(optimizer, gradient_scale(), &max_norm);
  }

  /// Unscales the gradients if that has not been done, and calls the optimizer's step with `args` unless there is a SkipReason
  /// not to. What the optimizer throws is passed on and counts as its step. An optimizer without a leaf in its tree is skipped
  /// and leaves the policy alone; but with a reducer it steps where all do, since nobody knows what the other ranks have.
  template <class Optimizer, class... Args>
  auto step(Optimizer& optimizer, Args&&... args) {
    detail::check_is_optimizer<Optimizer>();
    constexpr bool takes_factor = detail::step_takes_factor<Optimizer, Args&&...>();
    GradientFactor factor;
    const auto call = [&]() -> decltype(auto) {
      if constexpr (takes_factor) {
        return detail::CallStep()(optimizer, GradientFactor(factor), std::forward<Args>(args)...);
      } else {
        return detail::CallStep()(optimizer, std::forward<Args>(args)...);
      }
    };
    using Value = std::decay_t<decltype(call())>;
    StepResult<Value> result;
    if (enabled_) {
      result.loss_scale = gradient_scale();
      factor = iteration().step(optimizer, result.loss_scale, takes_factor, result);
    }
    if (result.skipped) return result;
    if constexpr (std::is_void_v<Value>) {
      call();
    } else {
      result.value = call();
    }
    return result;
  }

  /// Ends the iteration: adjusts the policy once, by what was found in the gradients of all optimizers together, unless none of
  /// them had any. Throws std::logic_error if none has been unscaled or stepped.
  void update() {
    if (!enabled_) return;
    if (!iteration_.has_optimizers()) {
      detail::throw_logic_error(
          {"update: no optimizer has been unscaled or stepped since the last update; call step(optimizer) first"});
    }
    const GradientReport all = iteration_.report();
    const float used = gradient_scale(), now = policy_.loss_scale();
    const bool at_floor = !all.finite && (used > now ? used : now) <= detail::floor_of(policy_);
    const bool is_answered = backs_off_once_ && !all.finite && used > now;
    if (!is_answered && iteration_.has_gradients()) policy_ = policy_.adjust(all);
    iteration_.adjust_guards();
    iteration_.keep_guards();
    iteration_.end();
    if (!at_floor || !on_floor_) return;
    const auto called = on_floor_;  // it may set another
    called(policy_);
  }
  /// Sets the scale instead of adjusting it, and ends the iteration if an optimizer has been unscaled in it; else it goes on
  /// with the scale of its first loss. Throws std::invalid_argument if `new_scale` is not in [2^-126, 2^126] or above
  /// max_scale. A spike guard does not see the norms of an iteration that ends like this.
  void update(const float& new_scale) {
    Settings::update(new_scale);
    iteration_.keep_guards();
    if (iteration_.has_optimizers()) iteration_.end();
  }
  /// As that of the settings, and begins an iteration.
  void load_state_dict(const StateDict& dict) {
    Settings::load_state_dict(dict);
    iteration_.end();
  }

 protected:
  using Settings::enabled_;
  using Settings::iteration_;
  using Settings::on_floor_;
  using Settings::policy_;
  bool backs_off_once_ = false;  // an overflow of a scale that the policy has lowered since lowers it no further

 private:
  /// As it has to be where a reducer may be called.
  detail::Iteration& iteration() {
    if (iteration_.reducer) iteration_.state_digest = detail::state_digest(policy_);
    return iteration_;
  }
  /// What gradients are divided by at the moment.
  [[nodiscard]] float gradient_scale() const { return iteration_.loss_scale_or(policy_.loss_scale()); }
};

template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
explicit GradScaler(T init_scale, double growth_factor = 2.0, double backoff_factor = 0.5, std::int64_t growth_interval = 2000,
                    bool enabled = true) -> GradScaler<>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
