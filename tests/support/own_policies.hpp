#pragma once

#include <headroom/policy/dynamic.hpp>
#include <headroom/report.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>

// Policies of a user's own, from the least a policy needs to one with settings and counters.

namespace support {

/// The least a policy needs. A report sets the scale that makes its largest gradient 1024; an overflow halves the scale.
struct FollowsMax {
  float scale = 1024.0F;

  [[nodiscard]] float loss_scale() const { return scale; }
  [[nodiscard]] FollowsMax adjust(bool grads_finite) const { return {grads_finite ? scale : scale / 2.0F}; }
  [[nodiscard]] FollowsMax adjust(const headroom::GradientReport& report) const {
    return {report.finite && report.max_abs > 0.0 ? static_cast<float>(1024.0 / report.max_abs) : scale / 2.0F};
  }
};

/// A policy with a state dictionary of its own.
struct Stairs {
  double height = 2.0;
  std::int64_t stair = 10;

  [[nodiscard]] float loss_scale() const {
    double scale = 1.0;
    for (std::int64_t i = 0; i < stair; ++i) scale *= height;
    return static_cast<float>(scale);
  }
  [[nodiscard]] Stairs adjust(bool grads_finite) const { return {height, grads_finite || stair == 0 ? stair : stair - 1}; }
  [[nodiscard]] Stairs adjust(const headroom::GradientReport& report) const { return adjust(report.finite); }
  friend bool operator==(const Stairs& a, const Stairs& b) { return a.height == b.height && a.stair == b.stair; }

  [[nodiscard]] headroom::StateDict state_dict() const { return {{"height", height}, {"stair", stair}}; }
  [[nodiscard]] static Stairs from_state_dict(const headroom::StateDict& dict) {
    if (dict.size() != 2) throw std::invalid_argument("not the two entries of Stairs");
    return {dict.at("height").real(), dict.at("stair").integer()};
  }
};

/// The settings of a growth rule that waits after each overflow.
struct PatientConfig {
  headroom::LossScaleConfig scale;
  std::int32_t patience = 3;

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("patience", &PatientConfig::patience, 0, 1000);
  }
};
/// Grows on every `growth_interval`th step. It does not count the first `patience` steps of all and after a backoff.
class GrowPatiently {
 public:
  using Config = PatientConfig;
  static constexpr const char* name = "patient";
  constexpr explicit GrowPatiently(const Config& config) noexcept : wait_(config.patience) {}

  [[nodiscard]] constexpr std::int64_t counter() const noexcept { return counter_; }
  [[nodiscard]] constexpr bool grows(bool, const Config& config) noexcept {
    if (wait_ > 0) return --wait_, false;
    counter_ = counter_ + 1 == config.scale.growth_interval ? 0 : counter_ + 1;
    return counter_ == 0;
  }
  constexpr void back_off(const Config& config) noexcept { wait_ = config.patience; }
  template <class Visit>
  static constexpr void fields(Visit&& visit, const Config& config) {
    visit("counter", &GrowPatiently::counter_, 0, std::int64_t{1} << 62);
    visit("wait", &GrowPatiently::wait_, 0, config.patience);
  }

 private:
  std::int64_t counter_ = 0;
  std::int32_t wait_;
};
using PatientLossScale = headroom::BasicDynamicLossScale<GrowPatiently>;

}  // namespace support
