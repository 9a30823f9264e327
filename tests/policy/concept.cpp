#include <headroom/dtype/half.hpp>
#include <headroom/headroom.hpp>
#include <headroom/policy/concept.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/policy/hysteresis.hpp>

#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

using headroom::GradientReport;
using headroom::half;
using headroom::is_loss_scale_v;

namespace {

/// A policy of a user's own: three overflows in all, and the scale is 1 for ever.
class GivesUp : public headroom::LossScaleVerbs<GivesUp> {
 public:
  [[nodiscard]] float loss_scale() const { return overflows_ < 3 ? 1024.0F : 1.0F; }
  [[nodiscard]] GivesUp adjust(bool grads_finite) const {
    GivesUp next = *this;
    next.overflows_ += grads_finite ? 0 : 1;
    return next;
  }
  [[nodiscard]] GivesUp adjust(const GradientReport& report) const { return adjust(report.finite); }

 private:
  int overflows_ = 0;
};

/// The same contract without the verbs.
struct Plain {
  [[nodiscard]] static float loss_scale() { return 1.0F; }
  [[nodiscard]] Plain adjust(bool) const { return *this; }
  [[nodiscard]] Plain adjust(const GradientReport&) const { return *this; }
};

// Near misses, each Plain but for one thing.
struct ScaleIsDouble : Plain {
  [[nodiscard]] static double loss_scale() { return 1.0; }
  [[nodiscard]] ScaleIsDouble adjust(bool) const { return *this; }
  [[nodiscard]] ScaleIsDouble adjust(const GradientReport&) const { return *this; }
};
struct AdjustsItself {
  [[nodiscard]] static float loss_scale() { return 1.0F; }
  void adjust(bool) {}
  void adjust(const GradientReport&) {}
};
struct ReturnsAnother : Plain {};  // adjust gives a Plain
struct TakesOnlyBool {
  [[nodiscard]] static float loss_scale() { return 1.0F; }
  [[nodiscard]] TakesOnlyBool adjust(bool) const { return *this; }
};

static_assert(is_loss_scale_v<headroom::NoOpLossScale> && is_loss_scale_v<headroom::ConstantLossScale>);
static_assert(is_loss_scale_v<headroom::DynamicLossScale> && is_loss_scale_v<headroom::HysteresisScale>);
static_assert(is_loss_scale_v<GivesUp> && is_loss_scale_v<Plain>);

static_assert(!is_loss_scale_v<int> && !is_loss_scale_v<float> && !is_loss_scale_v<void> && !is_loss_scale_v<std::string>);
static_assert(!is_loss_scale_v<headroom::LossScaleConfig> && !is_loss_scale_v<GradientReport>);
static_assert(!is_loss_scale_v<headroom::DynamicLossScale&> && !is_loss_scale_v<const headroom::DynamicLossScale>);
static_assert(!is_loss_scale_v<ScaleIsDouble> && !is_loss_scale_v<AdjustsItself>);
static_assert(!is_loss_scale_v<ReturnsAnother> && !is_loss_scale_v<TakesOnlyBool>);

}  // namespace

TEST_CASE("a policy of a user's own has the verbs of the built-in ones") {
  GivesUp policy;
  const std::vector<half> scaled = {half(1024.0F), half(-512.0F)};
  const auto [grads, report] = policy.unscale<float>(scaled);
  CHECK(grads == std::vector<float>{1.0F, -0.5F});
  CHECK(report.finite);
  CHECK(policy.scale(2.0F) == 2048.0F);
  CHECK(policy.scale(half(2.0F)) == 2048.0F);
  for (int step = 0; step < 3; ++step) policy = policy.adjust(GradientReport{false, 0.0});
  CHECK(policy.scale(2.0F) == 2.0F);
}
