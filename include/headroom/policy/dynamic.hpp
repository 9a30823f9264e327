#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/backoff.hpp>
#include <headroom/policy/growth.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/policy/verbs.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// A loss scale that adapts. DynamicLossScale is that of jmp.DynamicLossScale and torch.amp.GradScaler:
///
///     adjust(true):   counter += 1
///                     if counter >= growth_interval:  scale = min(scale * growth_factor, max_scale);  counter = 0
///     adjust(false):  counter = 0;  scale = max(scale * backoff_factor, min_scale)
///
/// An immutable value: adjust returns the next one. `Growth` says when to grow, `Backoff` when an overflow makes the scale back
/// off: growth.hpp and backoff.hpp have the rules of other systems, and say what a piece of your own needs.
template <class Growth = GrowAfterFiniteSteps, class Backoff = BackOffAtOnce>
class BasicDynamicLossScale : public LossScaleVerbs<BasicDynamicLossScale<Growth, Backoff>> {
 public:
  /// LossScaleConfig, or a struct with one in it, where the rule has more to set.
  using Config = typename Backoff::Config;

  /// With the default configuration; not explicit, for a policy to be a member of an aggregate that is initialised by {}.
  constexpr BasicDynamicLossScale() : BasicDynamicLossScale(Config()) {}
  /// Throws std::invalid_argument naming the field and its value where the configuration is out of range.
  constexpr explicit BasicDynamicLossScale(const Config& config)
      : config_(config), scale_(common().initial_scale), backoff_(config_), growth_(common()) {
    detail::check(config_);
  }

  [[nodiscard]] constexpr float loss_scale() const noexcept { return scale_; }
  [[nodiscard]] constexpr float inv_scale() const noexcept { return 1.0F / scale_; }
  [[nodiscard]] constexpr const Config& config() const noexcept { return config_; }
  /// Steps towards the next growth: with the usual rule, the finite ones since the last change of the scale (or overflow).
  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return growth_.counter(); }
  /// With hysteresis: overflows still to be tolerated, the one that backs off among them; 0 after it, until the refill.
  template <class B = Backoff>
  [[nodiscard]] constexpr auto hysteresis_left() const noexcept -> decltype(std::declval<const B&>().hysteresis_left()) {
    return backoff_.hysteresis_left();
  }
  [[nodiscard]] constexpr const Growth& growth() const noexcept { return growth_; }
  [[nodiscard]] constexpr const Backoff& backoff() const noexcept { return backoff_; }

  [[nodiscard]] constexpr BasicDynamicLossScale adjust(bool grads_finite) const noexcept {
    BasicDynamicLossScale next = *this;
    if (next.backoff_.backs_off(grads_finite, growth_.counter(), config_)) {
      next.growth_.back_off(common());
      next.scale_ = detail::backed_off(scale_, common());
    } else if (next.growth_.grows(grads_finite, common())) {
      next.backoff_.grow(config_);
      next.scale_ = detail::grown(scale_, common());
    }
    return next;
  }
  [[nodiscard]] constexpr BasicDynamicLossScale adjust(const GradientReport& report) const noexcept {
    return adjust(report.finite);
  }

  /// The same policy with another scale; counters stay. Throws std::invalid_argument where `scale` is not in
  /// [2^-126, max_scale]; it may be below min_scale, to which the next backoff brings it.
  [[nodiscard]] constexpr BasicDynamicLossScale with_loss_scale(const float& scale) const {
    detail::check_loss_scale("loss_scale", scale);
    if (scale > common().max_scale) detail::throw_bad_order("loss_scale", scale, "max_scale", common().max_scale);
    BasicDynamicLossScale next = *this;
    next.scale_ = scale;
    return next;
  }

  /// The same policy with other settings. Scale and counters stay; a hysteresis in progress is cut down to the new one. Throws
  /// std::invalid_argument naming the field and its value where one is out of range, or the scale is above the new max_scale.
  [[nodiscard]] constexpr BasicDynamicLossScale with_config(const Config& config) const {
    detail::check(config);
    BasicDynamicLossScale next = *this;
    next.config_ = config;
    next.backoff_.configure(config);
    return next.with_loss_scale(scale_);
  }

  /// What the states of this kind of policy say of themselves, "dynamic" say.
  [[nodiscard]] static std::string policy_name() {
    return (*Growth::name == '\0' ? std::string() : std::string(Growth::name) + "_") + Backoff::name;
  }
  /// Configuration, scale and counters: all that a later step depends on.
  [[nodiscard]] StateDict state_dict() const {
    detail::StateWriter write(policy_name());
    visit_fields(*this, write);
    return write.take();
  }
  /// The policy that went on as the one whose state this is; the scale that an AsyncGradScaler's state has besides is left out.
  /// Throws std::invalid_argument that names key and value where one is
  /// missing, unknown, of another type or out of range.
  [[nodiscard]] static BasicDynamicLossScale from_state_dict(const StateDict& dict) {
    detail::StateReader read(dict, policy_name());
    return from_fields(read);
  }

  friend constexpr bool operator==(const BasicDynamicLossScale& a, const BasicDynamicLossScale& b) noexcept {
    return a.config_ == b.config_ && a.scale_ == b.scale_ && a.growth_ == b.growth_ && a.backoff_ == b.backoff_;
  }
  friend constexpr bool operator!=(const BasicDynamicLossScale& a, const BasicDynamicLossScale& b) noexcept {
    return !(a == b);
  }

 private:
  [[nodiscard]] constexpr const LossScaleConfig& common() const noexcept { return detail::loss_scale_config(config_); }

  template <class Self, class Visit>
  static void visit_state(Self& self, Visit& visit) {
    visit("loss_scale", self.scale_);
    Growth::visit_fields(self.growth_, visit);
    Backoff::visit_fields(self.backoff_, visit, detail::most_overflows(self.growth_));
  }
  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    detail::visit_config(self.config_, visit);
    visit_state(self, visit);
  }
  template <class Reader>
  [[nodiscard]] static BasicDynamicLossScale from_fields(Reader& read) {
    Config config;
    detail::visit_config(config, read);
    BasicDynamicLossScale loaded(config);
    visit_state(loaded, read);
    read.finish();
    return loaded.with_loss_scale(loaded.scale_);
  }

  Config config_;
  float scale_;
  Backoff backoff_;
  Growth growth_;
};

using DynamicLossScale = BasicDynamicLossScale<>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
