#pragma once

#include <headroom/policy/dynamic.hpp>
#include <headroom/report.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>

// Policies as users write them, from one that is no more than a policy to one with everything.

namespace support {

/// No more than a policy: the scale that takes the largest gradient seen to 1024, by its report; by a flag it halves.
struct FollowsMax {
  float scale = 1024.0F;

  [[nodiscard]] float loss_scale() const { return scale; }
  [[nodiscard]] FollowsMax adjust(bool grads_finite) const { return {grads_finite ? scale : scale / 2.0F}; }
  [[nodiscard]] FollowsMax adjust(const headroom::GradientReport& report) const {
    return {report.finite && report.max_abs > 0.0 ? static_cast<float>(1024.0 / report.max_abs) : scale / 2.0F};
  }
};

/// One with a state, in its own words.
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

/// A growth piece with settings of its own: it has to be patient after each overflow.
struct PatientConfig {
  headroom::LossScaleConfig scale;
  std::int32_t patience = 3;

  template <class Visit>
  static constexpr void fields(Visit&& visit) {
    visit("patience", &PatientConfig::patience, 0, 1000);
  }
};
/// Grows on every `growth_interval`th finite step, but only `patience` steps after the last overflow.
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
