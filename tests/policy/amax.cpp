#include <headroom/observe/simulate.hpp>
#include <headroom/policy/amax.hpp>
#include <headroom/policy/presets.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

using namespace headroom;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr GradientReport overflow{false, infinity};
constexpr std::int64_t bit = 1 << 20;

static_assert(std::is_trivially_copyable_v<AmaxLossScale> && sizeof(AmaxLossScale) <= 128);
constexpr AmaxLossScale following;
static_assert(noexcept(following.adjust(overflow)) && headroom::is_loss_scale_v<AmaxLossScale>);

// The rule is constexpr. 65504 / 2^6 is just below 2^10; two bits of margin leave 2^7.
static_assert(AmaxLossScale().adjust(GradientReport{true, 64.0}).loss_scale() == 128.0F);
static_assert(AmaxLossScale().adjust(overflow).loss_scale() == 128.0F);
static_assert(AmaxLossScale().adjust(overflow).adjust(overflow).loss_scale() == 1.0F);
static_assert(AmaxConfig().target_skip_rate == 0.0002);

GradientReport report_of(double max_abs, float scale) {
  const bool finite = max_abs < infinity && max_abs * static_cast<double>(scale) <= 65504.0;
  return {finite, finite ? max_abs : infinity};
}
AmaxLossScale repeated(AmaxLossScale policy, const GradientReport& report, int steps = 1) {
  for (int i = 0; i < steps; ++i) policy = policy.adjust(report);
  return policy;
}
std::int64_t number(const AmaxLossScale& policy, const char* key) {
  return policy.state_dict().at(key).integer();
}

/// Made-up magnitudes with a trend, noise, spikes, bursts, jumps, zeros and Infs.
std::vector<double> course(unsigned seed, int steps) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const double noise = 2.0 * uniform(random), spikes = 0.01 * uniform(random),
               zeros = seed % 3 == 0 ? 0.1 : 0.0;
  double trend = -10.0;
  std::vector<double> max_abs;
  for (int i = 0; i < steps; ++i) {
    trend += 0.02 * normal(random) + (uniform(random) < 0.001 ? 10.0 * normal(random) : 0.0);
    trend = std::min(std::max(trend, -100.0), 10.0);
    const double spike = uniform(random) < spikes ? 12.0 * uniform(random) : 0.0;
    max_abs.push_back(uniform(random) < zeros ? 0.0
                                              : std::exp2(trend + noise * normal(random) + spike));
    if (uniform(random) < 0.0005) max_abs.insert(max_abs.end(), 1 + random() % 3, infinity);
  }
  return max_abs;
}

/// The same rule in doubles. It checks the arithmetic in whole numbers, not the rule itself.
struct Reference {
  double peak = 0.0, mean = 0.0, margin = 0.0;
  int since = 0;

  static double log2(double value) {  // linear between powers of two
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return exponent - 1 + (2.0 * fraction - 1.0);
  }
  void step(const GradientReport& report, float scale, const AmaxConfig& config) {
    const double target = config.target_skip_rate;
    if (!report.finite) {
      const bool teaches = margin > 0.0 && since > 0 && scale > config.common.min_scale &&
                           (margin < 12.0 || since <= 64);
      margin += teaches ? 1.0 : 0.0;
      since = 0;
      return;
    }
    ++since;
    if (report.max_abs > 0.0) {
      const double magnitude = log2(report.max_abs);
      if (margin == 0.0) peak = mean = magnitude;
      peak = std::max(magnitude, peak - (peak - magnitude) / 64.0);
      mean += (magnitude - mean) / 64.0;
    } else if (margin > 0.0) {
      peak -= target;
      mean -= target;
    } else {
      return;
    }
    margin = std::max(margin - target, 2.0);
  }
  [[nodiscard]] double spare() const { return log2(65504.0) - std::max(peak + 1.0, mean + margin); }
};

/// A user's magnitude rule: the scale that makes the largest gradient 1.
struct Normalise {
  using Config = LossScaleConfig;
  static constexpr const char* name = "normalise";
  constexpr explicit Normalise(const Config&) noexcept {}
  [[nodiscard]] static constexpr float next_scale(const GradientReport& report, float,
                                                  const Config&) noexcept {
    return report.finite && report.max_abs > 0.0 ? static_cast<float>(1.0 / report.max_abs) : 0.0F;
  }
  template <class Visit>
  static constexpr void fields(Visit&&, const Config&) {}
};
using Normalised = BasicDynamicLossScale<GrowAfterFiniteSteps, BackOffAtOnce, Normalise>;

}  // namespace

TEST_CASE("AmaxLossScale equals a slow reference of its rule") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    AmaxConfig config;
    if (seed >= 6) config = {{3000.0F, 2000, 2.0, 0.5, 0.25F, 0x1p40F}, 0.01};
    const float least = config.common.min_scale, most = config.common.max_scale;
    AmaxLossScale policy(config);
    Reference reference;
    int step = 0;
    for (const double max_abs : course(seed, seed == 0 ? 40000 : 3000)) {
      INFO("seed " << seed << ", step " << step++ << ", max_abs " << max_abs);
      const float before = policy.loss_scale();
      const GradientReport report = report_of(max_abs, before);
      policy = policy.adjust(report);
      reference.step(report, before, config);
      const float scale = policy.loss_scale();
      if (!report.finite) REQUIRE(scale == std::max(before / 256.0F, least));
      if (!report.finite || reference.margin == 0.0) continue;
      // The whole numbers are off by a few hundredths of a bit, so at an edge the scale may differ
      // by a factor of 2.
      const StateDict state = policy.state_dict();
      const auto in_bits = [&state](const char* key) {
        return static_cast<double>(state.at(key).integer()) / bit;
      };
      REQUIRE(std::fabs(in_bits("peak") - reference.peak) < 0.01);
      REQUIRE(std::fabs(in_bits("mean") - reference.mean) < 0.01);
      REQUIRE(std::fabs(in_bits("margin") - reference.margin) < 0.05);
      const double bits = std::log2(static_cast<double>(scale));
      REQUIRE(headroom::detail::is_power_of_two(scale));
      REQUIRE(bits <= std::max(reference.spare(), std::log2(static_cast<double>(least))) + 0.06);
      REQUIRE(bits > std::min(reference.spare(), std::log2(static_cast<double>(most))) - 1.06);
      // It could double
      REQUIRE((report.max_abs * static_cast<double>(scale) <= 32768.0 || scale == least));
    }
  }
}

TEST_CASE("AmaxLossScale leaves one bit above the decaying peak, and the margin above the mean") {
  AmaxLossScale policy = repeated(AmaxLossScale(), {true, 0x1p-10}, 100);
  CHECK(policy.loss_scale() == 0x1p23F);  // 65504 is a little less than 2^16
  policy = policy.adjust(GradientReport{true, 0x1p-3});
  CHECK(policy.loss_scale() == 0x1p17F);
  CHECK(number(policy, "peak") == -3 * bit);
  CHECK(number(policy, "mean") == -10 * bit + 7 * bit / 64);
  CHECK(number(policy.adjust(GradientReport{true, 0x1p-10}), "peak") == -3 * bit - 7 * bit / 64);
  CHECK(repeated(policy, {true, 0x1p-10}, 300).loss_scale() == 0x1p23F);
  AmaxConfig config;
  config.largest_finite = 448.0F;  // its linear logarithm is 8.75
  CHECK(repeated(AmaxLossScale(config), {true, 0x1p-10}).loss_scale() == 0x1p16F);
  config.common.min_scale = 0x1p-40F;
  // Scales below 1 are rounded down too
  CHECK(repeated(AmaxLossScale(config), {true, 0x1p13}).loss_scale() == 0x1p-7F);
}

TEST_CASE("AmaxLossScale: which overflows raise the margin") {
  const AmaxLossScale policy = repeated(AmaxLossScale(), {true, 0x1p-10}, 100);
  const auto margin = [](const AmaxLossScale& of) { return number(of, "margin"); };
  CHECK(margin(policy) == 2 * bit);
  CHECK(margin(policy.adjust(overflow)) == 3 * bit);
  CHECK(policy.adjust(overflow).loss_scale() == policy.loss_scale() / 256.0F);
  // Of traits that do not measure
  CHECK(policy.adjust(GradientReport{false, 0.0}) == policy.adjust(overflow));
  // Not if the step before overflowed
  CHECK(margin(repeated(policy, overflow, 5)) == 3 * bit);
  // Not before the first magnitude
  CHECK(margin(repeated(AmaxLossScale(), overflow)) == 0);
  CHECK(margin(policy.with_loss_scale(1.0F).adjust(overflow)) == 2 * bit);  // not at min_scale
  const auto forgotten = static_cast<std::int64_t>(bit * 0.0002);
  CHECK(margin(repeated(policy.adjust(overflow), {true, 0x1p-10}, 10)) == 3 * bit - 10 * forgotten);
  CHECK(repeated(policy.adjust(overflow), {true, 0x1p-10}).loss_scale() ==
        policy.loss_scale() / 2.0F);
  CHECK(margin(repeated(policy.adjust(overflow), {true, 0x1p-10}, 5100)) == 2 * bit);
  // From a margin of 12 bits on, only an overflow within 64 steps of the last one.
  auto state = policy.state_dict();
  state.set("margin", 12 * bit);
  for (const int since : {1, 64, 65}) {
    state.set("since", since);
    CHECK(margin(AmaxLossScale::from_state_dict(state).adjust(overflow)) ==
          (since <= 64 ? 13 : 12) * bit);
  }
  state.set("margin", 12 * bit - 1);
  CHECK(margin(AmaxLossScale::from_state_dict(state).adjust(overflow)) == 13 * bit - 1);
}

TEST_CASE("AmaxLossScale skips few steps, and rare Infs do not keep its scale low") {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> calm, shift, with_inf;
  for (int i = 0; i < 100000; ++i) {
    calm.push_back(std::exp2(-8.0 - i / 25000.0 + 0.35 * normal(random)));
    shift.push_back(calm.back() / (i > 25000 && i < 75000 ? 1000.0 : 1.0));
    with_inf.push_back(i % 5000 == 0 ? infinity : calm.back());
  }
  for (const auto& max_abs : {calm, shift}) {
    const auto torch = headroom::simulate(presets::torch(), max_abs);
    const auto amax = headroom::simulate(AmaxLossScale(), max_abs);
    CHECK(10 * amax.skipped <= torch.skipped);
    CHECK(amax.wasted_bits < 3.0);
  }
  const auto found = headroom::simulate(AmaxLossScale(), with_inf);
  CHECK(found.skipped == 20);
  CHECK(found.wasted_bits < 6.0);
}

TEST_CASE("AmaxLossScale: when all gradients are zero, peak and mean fall at the target rate") {
  AmaxConfig config;
  config.target_skip_rate = 0.125;
  const AmaxLossScale policy = repeated(AmaxLossScale(config), {true, 1.0});
  CHECK(repeated(policy, {true, 0.0}, 800).loss_scale() == policy.loss_scale() * 0x1p100F);
  CHECK(number(repeated(policy, {true, 0.0}, 8), "peak") == -bit);
  CHECK(number(repeated(policy, {true, 0.0}, 8), "mean") == -bit);
  // Before the first magnitude: as adjust(true)
  CHECK(AmaxLossScale().adjust(GradientReport{true, 0.0}).counter() == 1);
}

TEST_CASE("AmaxLossScale: adjust(bool) follows the rule of DynamicLossScale") {
  AmaxLossScale policy(AmaxConfig{{32768.0F, 3}});
  DynamicLossScale dynamic(policy.config().common);
  for (int i = 0; i < 20; ++i) {
    policy = policy.adjust(i % 7 != 5);
    dynamic = dynamic.adjust(i % 7 != 5);
    REQUIRE(policy.loss_scale() == dynamic.loss_scale());
    REQUIRE(policy.counter() == dynamic.counter());
  }
}

TEST_CASE("AmaxLossScale: settings and states out of range are refused by name and value") {
  const auto message = [](double rate, float largest) {
    return support::message_of([&] { (void)AmaxLossScale({{}, rate, largest}); });
  };
  CHECK(message(0.5, 1.0F) == "headroom: target_skip_rate is 0.5; it must be in [2^-20, 2^-3]");
  CHECK(message(0x1p-3, 0.0F) == "headroom: largest_finite is 0; it must be in [1, 2^127]");
  CHECK((message(0x1p-3, 1.0F) + message(0x1p-20, 0x1p127F)).empty());
  StateDict state = AmaxLossScale().state_dict();
  state.set("since", 65);
  CHECK(AmaxLossScale::from_state_dict(state).state_dict() == state);
  state.set("since", 66);
  CHECK(support::message_of([&] { (void)AmaxLossScale::from_state_dict(state); }) ==
        "headroom: since is 66; it must be in [0, 65]");
}

TEST_CASE("a user's magnitude rule sets the scale within bounds; without a magnitude: dynamic") {
  Normalised policy;
  CHECK(policy.adjust({true, 0.25}).loss_scale() == 4.0F);
  CHECK(policy.adjust({true, 8.0}).loss_scale() == 1.0F);  // min_scale
  CHECK(policy.adjust({true, 0.0}).counter() == 1);
  CHECK(policy.adjust({false, 0.0}).loss_scale() == 16384.0F);
  CHECK(policy.adjust(false).loss_scale() == 16384.0F);
  CHECK(Normalised::from_state_dict(policy.adjust({true, 0.25}).state_dict()).loss_scale() == 4.0F);
  CHECK(policy.policy_name() == "normalise");
}

TEST_CASE("log2_below never exceeds the logarithm") {
  using namespace headroom::detail;
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-1020.0, 1023.0);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::exp2(exponent(random)), log = std::log2(value);
    REQUIRE(log2_below(value) <= 0x1p20 * log);
    REQUIRE(log2_below(value) > 0x1p20 * (log - 0.0861));
  }
  static_assert(log2_below(65504.0) == (16 << 20) - (1 << 10) && log2_below(4.0) == 2 << 20);
  static_assert(power_of_two(-200) == 0x1p-126F && power_of_two(3) == 8.0F &&
                power_of_two(200) == 0x1p126F);
}
