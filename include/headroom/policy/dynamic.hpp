#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/dtype/scale_range.hpp>
#include <headroom/policy/verbs.hpp>
#include <headroom/report.hpp>
#include <headroom/state/fields.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE

namespace detail {
inline constexpr float no_max_scale = std::numeric_limits<float>::max();
}  // namespace detail

/// The settings of a loss scale that adapts: those of eformer's LossScaleConfig, with two factors as in torch.
struct LossScaleConfig {
  float initial_scale = 32768.0F;       ///< 2^15; in [2^-126, 2^126], like the other two scales
  std::int64_t growth_interval = 2000;  ///< finite steps before growth; at least 1
  double growth_factor = 2.0;           ///< 1 or more; 1 switches growth off
  double backoff_factor = 0.5;          ///< in (0, 1)
  float min_scale = 1.0F;               ///< backoff stops here; the next backoff raises a lower scale, such as a lower start
  /// Growth stops here. The largest float, as in the presets of torch, apex and jmp, is no ceiling: growth to Inf keeps the
  /// scale, which stays below 2^126 all the same.
  float max_scale = 0x1p126F;

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    using Config = LossScaleConfig;
    constexpr const char* scale = "in [2^-126, 2^126]";
    visit("initial_scale", &Config::initial_scale, smallest_loss_scale, largest_loss_scale, scale);
    visit("growth_interval", &Config::growth_interval, 1, std::numeric_limits<std::int64_t>::max(), "at least 1");
    visit("growth_factor", &Config::growth_factor, 1.0, detail::largest_double, "at least 1 and finite");
    visit("backoff_factor", &Config::backoff_factor, detail::smallest_double, detail::just_below_1, "above 0 and below 1");
    visit("min_scale", &Config::min_scale, smallest_loss_scale, largest_loss_scale, scale);
    visit("max_scale", &Config::max_scale, smallest_loss_scale, detail::no_max_scale, scale);
  }
};

namespace detail {

inline constexpr std::int64_t largest_counter = std::int64_t{1} << 62;  // counters stop here, so that none overflows
[[nodiscard]] HEADROOM_DETAIL_HD constexpr std::int64_t one_more(std::int64_t counter) noexcept {
  return counter < largest_counter ? counter + 1 : counter;
}

/// A configuration is a LossScaleConfig, or has a member `scale` that is one.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr const LossScaleConfig& loss_scale_config(const LossScaleConfig& config) noexcept {
  return config;
}
[[nodiscard]] HEADROOM_DETAIL_HD constexpr LossScaleConfig& loss_scale_config(LossScaleConfig& c) noexcept { return c; }
template <class Config>
[[nodiscard]] HEADROOM_DETAIL_HD constexpr auto loss_scale_config(Config&& config) noexcept -> decltype((config.scale)) {
  return config.scale;
}
template <class Config, class Found = decltype(detail::loss_scale_config(std::declval<const Config&>()))>
using if_config_t = std::enable_if_t<std::is_same_v<Found, const LossScaleConfig&>>;

/// Throws std::invalid_argument naming both if `value`, which is a number, is above `bound`.
template <class Number>
constexpr void check_order(const char* field, Number value, const char* other, std::common_type_t<Number> bound) {
  if (value <= bound) return;
  throw_invalid_argument({field, " is ", to_text(value), ", above ", other, ", which is ", to_text(bound)});
}

/// Throws std::invalid_argument naming a number of steps or of overflows if it is below 1.
constexpr void check_count(const char* field, std::int64_t value) {
  if (value < 1) throw_bad_value(field, value, "at least 1");
}

/// Calls use(part) for the LossScaleConfig, and for the configuration if it has more settings.
template <class Config, class Use>
constexpr void for_each_part(Config& config, Use use) {
  use(detail::loss_scale_config(config));
  if constexpr (!std::is_same_v<std::remove_const_t<Config>, LossScaleConfig>) use(config);
}

/// Throws std::invalid_argument naming the first field of a configuration that is out of range, and its value.
template <class Config>
constexpr void check(const Config& config) {
  detail::for_each_part(config, [](const auto& part) { detail::check_fields(part); });
  const LossScaleConfig& common = detail::loss_scale_config(config);
  if (common.max_scale != no_max_scale) check_loss_scale("max_scale", common.max_scale);
  check_order("initial_scale", common.initial_scale, "max_scale", common.max_scale);
  check_order("min_scale", common.min_scale, "max_scale", common.max_scale);
}

/// The scale in argument `name`. Throws std::invalid_argument with `expected` if it is out of range.
[[nodiscard]] constexpr float scale_argument(const char* name, const double& value,
                                             const char* expected = "in [2^-126, 2^126]") {
  check_in(name, value, static_cast<double>(smallest_loss_scale), static_cast<double>(largest_loss_scale), expected);
  return rounded_to_float(value);
}
/// The settings of torch.amp.GradScaler's rule, which has no floor. `name` is that of the first argument.
[[nodiscard]] constexpr LossScaleConfig torch_config(const char* name, const double& scale, const double& growth_factor,
                                                     const double& backoff_factor, std::int64_t growth_interval) {
  return {scale_argument(name, scale), growth_interval, growth_factor, backoff_factor, smallest_loss_scale, no_max_scale};
}

[[nodiscard]] HEADROOM_DETAIL_HD constexpr float ceiling(const LossScaleConfig& config) noexcept {
  return config.max_scale < largest_loss_scale ? config.max_scale : largest_loss_scale;
}
/// `scale` times growth_factor, at most the ceiling. The product is formed in double and rounded once.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr float grown(float scale, const LossScaleConfig& config) noexcept {
  // This factor exceeds float from any scale. A larger one is not used, because under -ffast-math no product may exceed double.
  constexpr double enough = rounds_to_infinity / static_cast<double>(smallest_loss_scale);
  const double product = static_cast<double>(scale) * (config.growth_factor < enough ? config.growth_factor : enough);
  if (product < static_cast<double>(ceiling(config))) return rounded_to_float(product);
  return product >= rounds_to_infinity && config.max_scale == no_max_scale ? scale : ceiling(config);
}

/// `scale` times backoff_factor, at least min_scale.
[[nodiscard]] HEADROOM_DETAIL_HD constexpr float backed_off(float scale, const LossScaleConfig& config) noexcept {
  const double product = static_cast<double>(scale) * config.backoff_factor;
  return product > static_cast<double>(config.min_scale) ? rounded_to_float(product) : config.min_scale;
}

/// The base of headroom's growth rules.
class StepCounter {
 public:
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr std::int64_t counter() const noexcept { return counter_; }
  HEADROOM_DETAIL_HD constexpr void back_off(const LossScaleConfig&) noexcept { counter_ = 0; }
  template <class Visit, class Config>
  static constexpr void fields(Visit&& visit, const Config&) {
    visit("counter", &StepCounter::counter_, 0, largest_counter);
  }

 protected:
  std::int64_t counter_ = 0;
};

/// The settings that a rule uses: its Config if it has one.
template <class Rule>
typename Rule::Config settings_of(int);
template <class Rule>
LossScaleConfig settings_of(...);
template <class Rule>
using rule_config_t = decltype(detail::settings_of<Rule>(0));

/// The settings of two rules together: the Config that derives from the other.
template <class A, class B, class OfA = rule_config_t<A>, class OfB = rule_config_t<B>>
struct BothRules {
  static constexpr bool is_of_b = std::is_same_v<OfA, LossScaleConfig> || std::is_base_of_v<OfA, OfB>;
  static_assert(is_of_b || std::is_same_v<OfB, LossScaleConfig> || std::is_base_of_v<OfB, OfA>,
                "headroom: both rules have settings of their own: derive the Config of one from that of the other");
  using Config = std::conditional_t<is_of_b, OfB, OfA>;
};

}  // namespace detail

/// Compares the fields that the configurations list.
template <class Config, class = detail::if_config_t<Config>>
[[nodiscard]] constexpr bool operator==(const Config& a, const Config& b) noexcept {
  return detail::same_fields(detail::loss_scale_config(a), detail::loss_scale_config(b)) && detail::same_fields(a, b);
}
template <class Config, class = detail::if_config_t<Config>>
[[nodiscard]] constexpr bool operator!=(const Config& a, const Config& b) noexcept {
  return !(a == b);
}

// BasicDynamicLossScale follows three rules: values with noexcept functions, which are __host__ __device__ in a .cu. All have
//
//     using Config = …;                   // the settings, if a LossScaleConfig is not enough: see below
//     static constexpr const char* name;  // a part of the policy's name in states; "" for the usual rules
//     constexpr explicit Rule(const Config&);
//     template <class Visit> static constexpr void fields(Visit&&, const Config&);  // the members: see state/fields.hpp
//
//     // A growth rule says when the scale grows.
//     constexpr std::int64_t counter() const;                  // the steps it has counted
//     constexpr bool grows(bool grads_finite, const Config&);  // counts a step on which the scale did not back off
//     constexpr void back_off(const Config&);                  // a step on which it did
//
//     // A backoff rule says when it backs off.
//     constexpr bool backs_off(bool grads_finite, std::int64_t counter, const Config&);  // counter: the growth rule's
//     constexpr void grow(const Config&);       // the scale has grown
//     constexpr void configure(const Config&);  // the settings have changed, to valid ones
//
//     // A magnitude rule chooses the scale after a report, to be clamped to [min_scale, max_scale]; 0: as adjust(bool) does.
//     constexpr float next_scale(const GradientReport&, float scale, const Config&);  // `scale`: that of the step
//
//     // The settings of a rule are an aggregate.
//     LossScaleConfig scale;
//     template <class Visit> static constexpr void fields(Visit&&);  // those beside `scale`, with their bounds
//
// If several rules have settings, one Config derives from the others, and its `fields` calls theirs.

/// Grows after `growth_interval` finite steps since the last change or overflow: jmp, torch.amp, Emily, apex and Megatron.
class GrowAfterFiniteSteps : public detail::StepCounter {
 public:
  static constexpr const char* name = "";
  constexpr explicit GrowAfterFiniteSteps(const LossScaleConfig&) noexcept {}
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr bool grows(bool grads_finite, const LossScaleConfig& config) noexcept {
    counter_ = grads_finite ? detail::one_more(counter_) : 0;
    if (counter_ < config.growth_interval) return false;
    counter_ = 0;
    return true;
  }
};

/// Backs off on every overflow, as jmp, torch.amp and Emily do.
struct BackOffAtOnce {
  static constexpr const char* name = "";
  constexpr explicit BackOffAtOnce(const LossScaleConfig&) noexcept {}
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr bool backs_off(bool grads_finite, std::int64_t, const LossScaleConfig&) noexcept {
    return !grads_finite;
  }
  HEADROOM_DETAIL_HD constexpr void grow(const LossScaleConfig&) noexcept {}
  constexpr void configure(const LossScaleConfig&) noexcept {}
  template <class Visit, class Config>
  static constexpr void fields(Visit&&, const Config&) {}
};

/// Only `finite` counts, as in jmp, torch.amp and most others.
struct IgnoreMagnitudes {
  static constexpr const char* name = "";
  constexpr explicit IgnoreMagnitudes(const LossScaleConfig&) noexcept {}
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr float next_scale(const GradientReport&, float, const LossScaleConfig&) noexcept {
    return 0.0F;
  }
  template <class Visit, class Config>
  static constexpr void fields(Visit&&, const Config&) {}
};

/// A loss scale that adapts. DynamicLossScale follows the rule of jmp.DynamicLossScale and torch.amp.GradScaler:
///
///     adjust(true):   counter += 1
///                     if counter >= growth_interval:  scale = min(scale * growth_factor, max_scale);  counter = 0
///     adjust(false):  counter = 0;  scale = max(scale * backoff_factor, min_scale)
///
/// An immutable value: `adjust` returns the next one. For rules of your own see above.
template <class Growth = GrowAfterFiniteSteps, class Backoff = BackOffAtOnce, class Magnitude = IgnoreMagnitudes>
class BasicDynamicLossScale : public LossScaleVerbs<BasicDynamicLossScale<Growth, Backoff, Magnitude>> {
 public:
  /// LossScaleConfig, or a struct with one in it if a rule has more settings.
  using Config = typename detail::BothRules<detail::BothRules<Growth, Backoff>, Magnitude>::Config;

  /// Not explicit, so that `{}` initialises an aggregate that has a policy.
  constexpr BasicDynamicLossScale() : BasicDynamicLossScale(Config()) {}
  /// Throws std::invalid_argument naming the field and its value if the configuration is out of range.
  constexpr explicit BasicDynamicLossScale(const Config& config)
      : config_(config),
        scale_(common().initial_scale),
        backoff_(config_for<Backoff>()),
        magnitude_(config_for<Magnitude>()),
        growth_(config_for<Growth>()) {
    detail::check(config_);
  }

  [[nodiscard]] HEADROOM_DETAIL_HD constexpr float loss_scale() const noexcept { return scale_; }
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr const Config& config() const noexcept { return config_; }  ///< the settings
  /// Steps towards the next growth: with the usual rule, finite steps since the scale last changed or a step overflowed.
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr std::int64_t counter() const noexcept { return growth_.counter(); }
  /// With hysteresis: the overflows left, including the one that backs off. Then 0 until the refill; by DeepSpeed's rule 1.
  template <class B = Backoff>
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr auto hysteresis_left() const noexcept
      -> decltype(std::declval<const B&>().hysteresis_left()) {
    return backoff_.hysteresis_left();
  }

  [[nodiscard]] HEADROOM_DETAIL_HD constexpr BasicDynamicLossScale adjust(bool grads_finite) const noexcept {
    BasicDynamicLossScale next = *this;
    if (next.backoff_.backs_off(grads_finite, growth_.counter(), config_for<Backoff>())) {
      next.growth_.back_off(config_for<Growth>());
      next.scale_ = detail::backed_off(scale_, common());
    } else if (next.growth_.grows(grads_finite, config_for<Growth>())) {
      next.backoff_.grow(config_for<Backoff>());
      next.scale_ = detail::grown(scale_, common());
    }
    return next;
  }
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr BasicDynamicLossScale adjust(const GradientReport& report) const noexcept {
    BasicDynamicLossScale next = *this;
    const float proposed = next.magnitude_.next_scale(report, scale_, config_for<Magnitude>());
    if (!(proposed > 0.0F)) return next.adjust(report.finite);
    const float least = common().min_scale, most = detail::ceiling(common());
    next.scale_ = proposed < least ? least : proposed > most ? most : proposed;
    return next;
  }

  /// The same policy with another scale; counters stay. Throws std::invalid_argument if `scale` is not in [2^-126, max_scale].
  [[nodiscard]] constexpr BasicDynamicLossScale with_loss_scale(const float& scale) const {
    detail::check_loss_scale("loss_scale", scale);
    detail::check_order("loss_scale", scale, "max_scale", common().max_scale);
    BasicDynamicLossScale next = *this;
    next.scale_ = scale;
    return next;
  }
  /// The same policy with other settings. Scale and counters stay; hysteresis_left() is at most the new hysteresis. Throws
  /// std::invalid_argument naming the field and its value if one is out of range, or the scale is above the new max_scale.
  [[nodiscard]] constexpr BasicDynamicLossScale with_config(const Config& config) const {
    detail::check(config);
    BasicDynamicLossScale next = *this;
    next.config_ = config;
    next.backoff_.configure(next.template config_for<Backoff>());
    return next.with_loss_scale(scale_);
  }
  /// A new policy with settings changed by name, as {{"growth_interval", 500}}. Throws std::invalid_argument for a wrong one.
  [[nodiscard]] BasicDynamicLossScale with_settings(const StateDict& settings) const {
    Config config = config_;
    detail::StateReader read(settings);
    detail::for_each_part(config, [&](auto& part) { read.read(part); });
    read.finish();
    return BasicDynamicLossScale(config);
  }

  /// The name in states of this kind of policy: the names of its rules, or "dynamic".
  [[nodiscard]] static std::string policy_name() {
    std::string name;
    for (const char* rule : {Growth::name, Backoff::name, Magnitude::name}) {
      if (*rule != '\0') name += detail::concat({name.empty() ? "" : "_", rule});
    }
    return name.empty() ? "dynamic" : name;
  }
  /// Configuration, scale and counters.
  [[nodiscard]] StateDict state_dict() const {
    StateDict state = detail::new_state(policy_name());
    detail::for_each_part(config_, [&](const auto& part) { detail::write_fields(state, part); });
    state.add("loss_scale", scale_);
    detail::write_fields(state, growth_, config_for<Growth>());
    detail::write_fields(state, backoff_, config_for<Backoff>());
    detail::write_fields(state, magnitude_, config_for<Magnitude>());
    return state;
  }
  /// Continues like the policy that was saved. Throws std::invalid_argument naming key and value if one is missing or wrong.
  [[nodiscard]] static BasicDynamicLossScale from_state_dict(const StateDict& dict) {
    detail::StateReader read(dict, policy_name());
    Config config;
    detail::for_each_part(config, [&](auto& part) { read.read(part); });
    BasicDynamicLossScale loaded(config);
    read.read_scale("loss_scale", loaded.scale_);
    read.read(loaded.growth_, loaded.template config_for<Growth>());
    read.read(loaded.backoff_, loaded.template config_for<Backoff>());
    read.read(loaded.magnitude_, loaded.template config_for<Magnitude>());
    read.finish();
    return loaded.with_loss_scale(loaded.scale_);
  }

  friend constexpr bool operator==(const BasicDynamicLossScale& a, const BasicDynamicLossScale& b) noexcept {
    return a.config_ == b.config_ && a.scale_ == b.scale_ &&
           detail::same_fields(a.growth_, b.growth_, a.template config_for<Growth>()) &&
           detail::same_fields(a.backoff_, b.backoff_, a.template config_for<Backoff>()) &&
           detail::same_fields(a.magnitude_, b.magnitude_, a.template config_for<Magnitude>());
  }
  friend constexpr bool operator!=(const BasicDynamicLossScale& a, const BasicDynamicLossScale& b) noexcept {
    return !(a == b);
  }

 private:
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr const LossScaleConfig& common() const noexcept {
    return detail::loss_scale_config(config_);
  }
  /// The settings in the type that `Rule` takes.
  template <class Rule>
  [[nodiscard]] HEADROOM_DETAIL_HD constexpr const detail::rule_config_t<Rule>& config_for() const noexcept {
    if constexpr (std::is_base_of_v<detail::rule_config_t<Rule>, Config>) {
      return config_;
    } else {
      return config_.scale;
    }
  }

  Config config_;
  float scale_;
  Backoff backoff_;
  Magnitude magnitude_;  // one without members fits into the padding
  Growth growth_;
};

using DynamicLossScale = BasicDynamicLossScale<>;  ///< the rule of torch.amp and jmp

HEADROOM_DETAIL_END_NAMESPACE
