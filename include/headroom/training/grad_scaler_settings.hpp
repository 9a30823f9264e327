#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/policy/concept.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/policy/spike_guard.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/state/state_dict.hpp>
#include <headroom/training/iteration.hpp>
#include <headroom/training/reducer.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

template <class Policy>
using common_config_t = std::enable_if_t<
    std::is_same_v<std::decay_t<decltype(detail::loss_scale_config(std::declval<const Policy&>().config()))>, LossScaleConfig>>;
template <class Policy>
using has_config_t = decltype(std::declval<const Policy&>().has_config());

/// The settings that all policies that adapt have in common.
template <class Policy>
[[nodiscard]] LossScaleConfig config_of(const Policy& policy) {
  static_assert(is_detected_v<common_config_t, Policy>, "headroom: the policy of this scaler has no settings");
  const auto config = policy.config();
  return detail::loss_scale_config(config);
}
/// An std::uint64_t and nothing that it could be converted to.
struct ExactDigest {
  template <class T, std::enable_if_t<std::is_same_v<T, std::uint64_t>, int> = 0>
  operator T() const;
};
/// Whether a reducer takes a digest. One that could do without it may have another second parameter, with a default.
template <class Reducer>
constexpr bool takes_digest() {
  if constexpr (!std::is_invocable_r_v<GradientSums, Reducer&, const GradientSums&, const std::uint64_t&>) {
    return false;
  } else if constexpr (std::is_invocable_v<Reducer&, const GradientSums&>) {
    return std::is_invocable_v<Reducer&, const GradientSums&, ExactDigest>;
  } else {
    return true;
  }
}

/// The floor, below which a scale cannot fall; 0 for a policy that does not tell.
template <class Policy>
[[nodiscard]] float floor_of(const Policy& policy) {
  if constexpr (!is_detected_v<common_config_t, Policy>) {
    return 0.0F;
  } else if constexpr (is_detected_v<has_config_t, Policy>) {
    return policy.has_config() ? detail::config_of(policy).min_scale : 0.0F;
  } else {
    return detail::config_of(policy).min_scale;
  }
}

}  // namespace detail

/// The settings of a GradScaler, which may change between two iterations or, by AsyncGradScaler::configure, in another thread.
template <class Policy>
class GradScalerSettings {
  static_assert(is_loss_scale_v<Policy>, "headroom: a GradScaler needs a loss scale (see is_loss_scale_v)");

 public:
  /// The policy's scale, which losses of the next iteration get, and those of this one if none has been scaled yet; 1 if
  /// disabled.
  [[nodiscard]] float get_scale() const { return enabled_ ? policy_.loss_scale() : 1.0F; }
  [[nodiscard]] bool is_enabled() const noexcept { return enabled_; }
  [[nodiscard]] const Policy& policy() const noexcept { return policy_; }

  // For policies that have them; the setters throw std::invalid_argument if the value is out of range.
  [[nodiscard]] double get_growth_factor() const { return detail::config_of(policy_).growth_factor; }
  [[nodiscard]] double get_backoff_factor() const { return detail::config_of(policy_).backoff_factor; }
  [[nodiscard]] std::int64_t get_growth_interval() const { return detail::config_of(policy_).growth_interval; }
  void set_growth_factor(const double& factor) { set(&LossScaleConfig::growth_factor, factor); }
  void set_backoff_factor(const double& factor) { set(&LossScaleConfig::backoff_factor, factor); }
  void set_growth_interval(std::int64_t interval) { set(&LossScaleConfig::growth_interval, interval); }

  /// Sets the scale of the next iteration. Throws std::invalid_argument if the policy cannot have it.
  void update(const float& new_scale) {
    if (enabled_) policy_ = policy_.with_loss_scale(new_scale);
  }
  /// The policy's state, and those of the SpikeGuards behind it, if there are any; empty if disabled. Save it after `update`:
  /// it has nothing of an iteration in progress.
  [[nodiscard]] StateDict state_dict() const {
    if (!enabled_) return StateDict();
    StateDict state = policy_.state_dict();
    iteration_.guards().add_to(state);
    return state;
  }
  /// Continues with the policy of this state, and with its SpikeGuards; a state without them empties the window of the one that
  /// is set. Each window goes to the optimizers that have its place: see set_spike_guard. Does nothing if disabled. Throws
  /// std::invalid_argument as Policy::from_state_dict and SpikeGuard::from_state_dict do, and then changes nothing.
  void load_state_dict(StateDict dict) {
    if (!enabled_) return;
    detail::SpikeGuards guards = detail::SpikeGuards::take_from(dict);
    policy_ = Policy::from_state_dict(dict);
    if (guards.empty() && !iteration_.guards().empty()) guards = detail::SpikeGuards(iteration_.guards()[0].emptied());
    iteration_.set_guards(std::move(guards));
  }

  /// The reducer is called with what was found in the unscaled gradients of each optimizer, before anything is decided, on
  /// ranks without gradients too, and by a disabled scaler to clip. It returns the combination over all ranks, which have to
  /// unscale, clip or step the same optimizers in the same order. A sum of squares beyond double is an overflow. If the reducer
  /// throws, the step of those gradients is skipped as by an overflow, or they have not been clipped and you can try again.
  void set_reducer(std::function<GradientSums(const GradientSums&)> reducer) {
    iteration_.reducer = nullptr;
    if (reducer) iteration_.reducer = [reducer = std::move(reducer)](const GradientSums& here, auto) { return reducer(here); };
  }
  /// A reducer that takes a second argument gets a digest of what the decision depends on besides the gradients, which is equal
  /// on ranks that are in step: the states of the policy and of SpikeGuards, the scale of the losses, max_norm and the places
  /// of the optimizer in the iteration and among the guards.
  template <class Reducer, std::enable_if_t<detail::takes_digest<Reducer>(), int> = 0>
  void set_reducer(Reducer reducer) {
    iteration_.reducer = std::move(reducer);
  }
  /// `on_floor` is called at the end of `update` after an overflow at the policy's min_scale: the scale cannot fall further, so
  /// something else is wrong. It may throw. Without it training goes on, as in torch.
  void set_on_floor(std::function<void(const Policy&)> on_floor) {
    static_assert(detail::is_detected_v<detail::common_config_t, Policy>, "headroom: this policy has no min_scale");
    on_floor_ = std::move(on_floor);
  }
  /// Skips the steps of an optimizer whose gradients are finite but have an L2 norm, over all ranks, that the guard takes for a
  /// spike (SkipReason::spike). The policy is adjusted as by any finite step; `update` shows the guard the norm, which takes
  /// one more pass that reads unless gradients are clipped or deferred. Judges what is unscaled after this call. Where ranks
  /// reduce, all need the same guard. std::nullopt: none.
  ///
  /// The first optimizer that is unscaled in an iteration has window 0, the second window 1, …, in a resumed run too. One at
  /// another's place, or one that has moved together with its gradients, is a std::logic_error unless use_spike_guard says
  /// which window is meant. docs/troubleshooting.md says what cannot be noticed.
  void set_spike_guard(const std::optional<SpikeGuard>& guard) {
    iteration_.set_guards(guard ? detail::SpikeGuards(*guard) : detail::SpikeGuards());
  }
  /// The next optimizer of this iteration is judged by window `place`, whoever had it before, and those behind it by the next
  /// ones: for a GAN, in every iteration, use_spike_guard(is_generators_turn ? 1 : 0). Does nothing if there is no guard.
  /// Throws std::invalid_argument if `place` is not below 1024. One window for two optimizers in an iteration is a
  /// std::logic_error when the second is unscaled.
  void use_spike_guard(std::size_t place) {
    if (place >= 1024) {  // those before it get a window, too
      detail::throw_invalid_argument({"use_spike_guard: place is ", std::to_string(place), "; it must be below 1024"});
    }
    iteration_.use_guard(place);
  }
  /// The guard with window `place`; empty if there is none, or none so far.
  [[nodiscard]] std::optional<SpikeGuard> get_spike_guard(std::size_t place = 0) const {
    if (place >= iteration_.guards().size()) return std::nullopt;
    return iteration_.guards()[place];
  }
  /// In deferred mode gradients are only measured and stay scaled. The optimizer multiplies them, in the loop it has anyway, by
  /// the GradientFactor that its step takes. What is an overflow is decided by that product as for_each_block computes it, in
  /// float, but of doubles in double, so an optimizer of doubles has to multiply them itself. An optimizer that takes no factor
  /// is then a std::logic_error, and so is a change of mode once an optimizer has been unscaled.
  void set_deferred(bool deferred) {
    if (iteration_.has_optimizers()) {
      detail::throw_logic_error({"set_deferred: an optimizer has been unscaled already; call update first"});
    }
    iteration_.is_deferred = deferred;
  }
  /// The executor of all passes over gradients: `parallel(n)`.
  void set_executor(const ParallelExecutor& executor) { iteration_.executor = executor; }

 protected:
  GradScalerSettings(const Policy& policy, bool enabled) : policy_(policy), enabled_(enabled) {}
  GradScalerSettings(const GradScalerSettings&) = default;
  GradScalerSettings& operator=(const GradScalerSettings&) = default;
  ~GradScalerSettings() = default;

  Policy policy_;
  bool enabled_;
  detail::Iteration iteration_;
  std::function<void(const Policy&)> on_floor_;

 private:
  template <class Value>
  void set(Value LossScaleConfig::*field, const Value& value) {
    static_assert(detail::is_detected_v<detail::common_config_t, Policy>, "headroom: this policy has no settings");
    auto config = policy_.config();
    detail::loss_scale_config(config).*field = value;
    policy_ = policy_.with_config(config);
  }
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
