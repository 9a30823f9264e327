#include <headroom/observe/simulate.hpp>
#include <headroom/policy/amax.hpp>
#include <headroom/policy/presets.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

using headroom::AmaxConfig;
using headroom::AmaxLossScale;
using headroom::GradientReport;
using support::message_of;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr GradientReport overflow{false, infinity};

static_assert(std::is_trivially_copyable_v<AmaxLossScale> && sizeof(AmaxLossScale) <= 248);
constexpr AmaxLossScale start;
static_assert(noexcept(start.adjust(overflow)) && headroom::is_loss_scale_v<AmaxLossScale>);

// The rule is constexpr. 65504 / 2^6 is below 2^10, less three bits while nothing is known: 2^6; then closer.
static_assert(AmaxLossScale().adjust(GradientReport{true, 64.0}).loss_scale() == 64.0F);
static_assert(AmaxLossScale().adjust(overflow).loss_scale() == 128.0F);
static_assert(AmaxLossScale().adjust(overflow).adjust(overflow).loss_scale() == 1.0F);

/// The rule as its documentation puts it, with containers, and magnitudes in sixteenths of a bit.
struct Reference {
  std::deque<int> recent;    // the last one first
  std::int64_t reserve = 0;  // in 2^-24 bits
  bool has_overflowed = false;
  int zeros = 0, zeros_in_a_row = 0;
  double scale = 32768.0;

  static int whole(double value) {  // by straight lines between powers of two
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return static_cast<int>(std::floor(16.0 * (exponent - 1 + (2.0 * fraction - 1.0))));
  }
  [[nodiscard]] int typical() const {
    return std::accumulate(recent.begin(), recent.end(), 0) / static_cast<int>(recent.size());
  }
  void step(const GradientReport& report, double target) {
    constexpr std::int64_t bit = 16777216;
    const int most = whole(65504.0);
    if (!report.finite) {
      if (!recent.empty() && !has_overflowed && reserve >= 0) {
        const int wanted = most - whole(scale) - typical() + 16;
        reserve = wanted >= 480 ? -14 * bit : std::max(reserve, wanted * (bit / 16));
      }
      has_overflowed = true;
      scale = std::max(scale / 256.0, 1.0);
      return;
    }
    if (!(report.max_abs > 0.0)) {
      if (++zeros_in_a_row == 64) recent.clear();
      if (++zeros == 2000) {
        zeros = 0;
        scale = std::min(2.0 * scale, 0x1p126);
      }
      return;
    }
    has_overflowed = false;
    zeros_in_a_row = 0;
    recent.push_front(whole(report.max_abs));
    if (recent.size() > 64) recent.pop_back();
    const auto slow = static_cast<std::int64_t>(1.25 * bit * target);
    if (reserve > 14 * bit) {
      reserve -= bit / 64;
      if (reserve <= 14 * bit) reserve = -14 * bit;
    } else {
      reserve = reserve < 0 ? std::min<std::int64_t>(reserve + slow, 0) : std::max<std::int64_t>(reserve - slow, 0);
    }
    const int room = std::max(16, 48 - 4 * (static_cast<int>(recent.size()) - 1));
    const int level = *std::max_element(recent.begin(), recent.end());
    const int needed = std::max(level + room, typical() + static_cast<int>(std::max<std::int64_t>(reserve, 0) / (bit / 16)));
    scale = std::min(std::max(std::exp2(std::floor((most - needed) / 16.0)), 1.0), 0x1p126);
  }
};

/// Magnitudes with a trend, noise, spikes, bursts, jumps and zeros, also many in a row.
std::vector<double> course(unsigned seed, int steps) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const double noise = 2.0 * uniform(random), spikes = 0.01 * uniform(random), zeros = seed % 3 == 0 ? 0.1 : 0.0;
  double trend = -10.0;
  std::vector<double> max_abs;
  for (int i = 0; i < steps; ++i) {
    trend += 0.02 * normal(random) + (uniform(random) < 0.001 ? 10.0 * normal(random) : 0.0);
    trend = std::min(std::max(trend, -100.0), 10.0);
    const double spike = uniform(random) < spikes ? 12.0 * uniform(random) : 0.0;
    max_abs.push_back(uniform(random) < zeros ? 0.0 : std::exp2(trend + noise * normal(random) + spike));
    if (uniform(random) < 0.0005) max_abs.back() = infinity;
    if (seed % 3 == 0 && uniform(random) < 0.001) max_abs.insert(max_abs.end(), 60 + random() % 8, 0.0);
  }
  return max_abs;
}

GradientReport report_of(double max_abs, float scale) {
  const bool finite = max_abs < infinity && max_abs * static_cast<double>(scale) <= 65504.0;
  return {finite, finite ? max_abs : infinity};
}

}  // namespace

TEST_CASE("AmaxLossScale follows its rule as a slow reference does") {
  for (unsigned seed = 0; seed < 6; ++seed) {
    AmaxLossScale policy;
    Reference reference;
    bool has_begun = false;
    int step = 0;
    for (const double max_abs : course(seed, seed == 0 ? 40000 : 3000)) {
      const GradientReport report = report_of(max_abs, policy.loss_scale());
      policy = policy.adjust(report);
      has_begun = has_begun || !report.finite || max_abs > 0.0;
      if (has_begun) reference.step(report, policy.config().target_skip_rate);
      INFO("seed " << seed << ", step " << step++ << ", max_abs " << max_abs);
      REQUIRE(static_cast<double>(policy.loss_scale()) == reference.scale);
    }
    CHECK(policy.state_dict().at("reserve") == headroom::StateValue(reference.reserve));
  }
}

TEST_CASE("AmaxLossScale keeps a bit above the largest of 64 steps") {
  AmaxLossScale policy;
  for (const double max_abs : {0x1p-3, 0x1p-10}) {
    for (int step = 0; step < 100; ++step) policy = policy.adjust(GradientReport{true, max_abs});
    CHECK(static_cast<double>(policy.loss_scale()) * max_abs == 0x1p14);  // 65504 is a little less than 2^16
  }
  policy = policy.adjust(GradientReport{true, 0x1p-5});
  for (int step = 1; step < 64; ++step) policy = policy.adjust(GradientReport{true, 0x1p-10});
  CHECK(policy.loss_scale() == 0x1p19F);
  CHECK(policy.adjust(GradientReport{true, 0x1p-10}).loss_scale() == 0x1p24F);
}

TEST_CASE("AmaxLossScale: an overflow teaches it a bit more than was kept, which is forgotten at the target rate") {
  AmaxLossScale policy;
  for (int step = 0; step < 100; ++step) policy = policy.adjust(GradientReport{true, 0x1p-10});
  const float before = policy.loss_scale();
  const auto reserve = [&policy] { return std::get<std::int64_t>(policy.state_dict().at("reserve")); };
  policy = policy.adjust(overflow);
  CHECK(reserve() == (31 << 20) + (1 << 24));  // 65504 by the line: 31 sixteenths above 2^14
  const std::int64_t learnt = reserve();
  CHECK(policy.adjust(overflow).state_dict().at("reserve") == headroom::StateValue(learnt));
  for (int step = 0; step < 10; ++step) policy = policy.adjust(GradientReport{true, 0x1p-10});
  CHECK(reserve() == learnt - 10 * static_cast<std::int64_t>(1.25 * (1 << 24) * policy.config().target_skip_rate));
  CHECK(policy.loss_scale() == before / 2.0F);
  for (int step = 0; step < 8000; ++step) policy = policy.adjust(GradientReport{true, 0x1p-10});
  CHECK(policy.loss_scale() == before);
}

TEST_CASE("AmaxLossScale: the scale is a power of two within its bounds, and leaves room for what was just seen") {
  AmaxConfig config;
  config.scale.initial_scale = 3000.0F;
  config.scale.min_scale = 0.25F;
  config.scale.max_scale = 0x1p40F;
  for (unsigned seed = 10; seed < 14; ++seed) {
    AmaxLossScale policy(config);
    for (const double max_abs : course(seed, 2000)) {
      const GradientReport report = report_of(max_abs, policy.loss_scale());
      policy = policy.adjust(report);
      REQUIRE((policy.loss_scale() >= 0.25F && policy.loss_scale() <= 0x1p40F));
      if (!report.finite || report.max_abs == 0.0) continue;
      int exponent = 0;
      REQUIRE(std::frexp(policy.loss_scale(), &exponent) == 0.5F);
      const bool has_room = report.max_abs * static_cast<double>(policy.loss_scale()) <= 65504.0;
      REQUIRE((has_room || policy.loss_scale() == 0.25F));
    }
  }
}

TEST_CASE("AmaxLossScale: an overflow costs one step, or few where magnitudes have jumped") {
  std::vector<double> max_abs(2000, 0.01);
  for (std::size_t i = 1000; i < 2000; ++i) max_abs[i] = 10.0;  // ten bits up
  const auto jump = headroom::simulate(AmaxLossScale(), max_abs);
  CHECK(jump.skipped <= 2);
  CHECK((jump.scales[1100] >= 512.0F && jump.scales[1100] <= 4096.0F));  // up to 40960 of 65504

  AmaxLossScale policy;
  for (int i = 0; i < 100; ++i) policy = policy.adjust(GradientReport{true, 0.01});
  const float before = policy.loss_scale();
  policy = policy.adjust(overflow);
  CHECK(policy.loss_scale() == before / 256.0F);
  CHECK(policy.adjust(GradientReport{true, 0.01}).loss_scale() >= before / 2.0F);
  for (int i = 0; i < 100; ++i) policy = policy.adjust(overflow);
  CHECK(policy.loss_scale() == 1.0F);
}

TEST_CASE(
    "AmaxLossScale skips at most a tenth of what torch's scale does where gradients are calm or shift, and wastes less than "
    "two bits") {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> calm, shift;
  for (int i = 0; i < 100000; ++i) {
    calm.push_back(std::exp2(-8.0 - i / 25000.0 + 0.35 * normal(random)));
    shift.push_back(std::exp2(-8.0 - i / 25000.0 + 0.35 * normal(random)) / (i > 25000 && i < 75000 ? 1000.0 : 1.0));
  }
  for (const auto& max_abs : {calm, shift}) {
    const auto torch = headroom::simulate(headroom::presets::torch(), max_abs);
    const auto amax = headroom::simulate(AmaxLossScale(), max_abs);
    CHECK(10 * amax.skipped <= torch.skipped);
    CHECK(amax.wasted_bits < 2.0);
  }
}

TEST_CASE("AmaxLossScale skips at its target rate where skipping is worth it") {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<double> spikes;
  for (int i = 0; i < 60000; ++i)
    spikes.push_back(std::exp2(0.35 * normal(random) + (uniform(random) < 1.0 / 300.0 ? 7.0 : 0.0)));
  for (const double target : {0.0001, 0.001}) {
    AmaxConfig config;
    config.target_skip_rate = target;
    const auto found = headroom::simulate(AmaxLossScale(config), spikes);
    CHECK(static_cast<double>(found.skipped) < 60000.0 * target + 7.0);  // one for each bit that it has to learn
    CHECK(static_cast<double>(found.skipped) > 60000.0 * target / 3.0);
  }
}

TEST_CASE("AmaxLossScale gets away from a scale at which everything underflows") {
  AmaxLossScale policy;
  policy = policy.adjust(GradientReport{true, 1.0});
  int zeros = 0;
  for (int step = 0; step < 60000; ++step) {
    const bool underflows = 1e-12 * static_cast<double>(policy.loss_scale()) < 0x1p-25;
    policy = policy.adjust(GradientReport{true, underflows ? 0.0 : 1e-12});
    zeros += underflows ? 1 : 0;
  }
  CHECK(zeros < 10 * 2000);
  CHECK(policy.loss_scale() >= 0x1p50F);
}

TEST_CASE("AmaxLossScale sees large steps between small ones, however far apart") {
  for (const double large : {8.0, 1e3}) {
    for (const int period : {2, 3, 8}) {
      std::vector<double> max_abs;
      for (int step = 0; step < 10000; ++step) max_abs.push_back(step % period == 0 ? large : 1e-5);
      CHECK(headroom::simulate(AmaxLossScale(), max_abs).skipped < 30);
    }
  }
}

TEST_CASE("AmaxLossScale makes no room for what no scale would hold") {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  for (const double beyond : {infinity, 0x1p20}) {
    std::vector<double> max_abs;
    std::size_t bad = 0;
    for (int i = 0; i < 40000; ++i) {
      const bool is_bad = uniform(random) < 0.01;
      bad += is_bad ? 1U : 0U;
      max_abs.push_back(std::exp2(-8.0 + 0.35 * normal(random)) * (is_bad ? beyond : 1.0));
    }
    const auto found = headroom::simulate(AmaxLossScale(), max_abs);
    CHECK(found.skipped <= bad + bad / 20 + 5);
    CHECK(found.wasted_bits < 3.0);
  }
}

TEST_CASE("AmaxLossScale: what it is told by adjust(bool) is dynamic; gradients that are all zero count as that") {
  AmaxLossScale policy;
  headroom::DynamicLossScale dynamic;
  for (int i = 0; i < 5000; ++i) {
    const bool finite = i % 1234 != 1000;
    policy = policy.adjust(finite);
    dynamic = dynamic.adjust(finite);
    REQUIRE(policy.loss_scale() == dynamic.loss_scale());
    REQUIRE(policy.counter() == dynamic.counter());
  }
  CHECK(AmaxLossScale().adjust(GradientReport{true, 0.0}).counter() == 1);
  policy = AmaxLossScale().adjust(GradientReport{true, 0.5});
  CHECK(policy.adjust(GradientReport{true, 0.0}).loss_scale() == policy.loss_scale());
}

TEST_CASE("AmaxLossScale goes on from its state as the saved one would have") {
  AmaxConfig config;
  config.target_skip_rate = 0.001;
  config.largest_finite = 57344.0F;
  config.scale.min_scale = 0x1p-40F;
  AmaxLossScale policy(config);
  int step = 0;
  for (const double max_abs : course(9, 3000)) {
    policy = policy.adjust(report_of(max_abs, policy.loss_scale()));
    if (++step % 10 == 1) {
      const AmaxLossScale loaded = AmaxLossScale::from_state_dict(policy.state_dict());
      REQUIRE(loaded == policy);
      REQUIRE(loaded.state_dict() == policy.state_dict());
    }
  }
  for (int i = 0; i < 40; ++i) policy = policy.adjust(overflow).adjust(GradientReport{true, 0.01});  // until it is given up
  policy = policy.adjust(overflow);
  CHECK(std::get<std::int64_t>(policy.state_dict().at("reserve")) < 0);
  CHECK(policy.state_dict().at("has_overflowed") == headroom::StateValue(1));
  CHECK(AmaxLossScale::from_state_dict(policy.state_dict()) == policy);
  CHECK(policy.policy_name() == "amax");
  const auto message = [&policy](const char* key, const headroom::StateValue& value) {
    auto state = policy.state_dict();
    state.set(key, value);
    return message_of([&] { (void)AmaxLossScale::from_state_dict(state); });
  };
  CHECK(message("recent", "1 2 x") == "headroom: recent is '1 2 x'; it must be up to 64 whole numbers in [-32768, 32767]");
  CHECK(message("reserve", std::int64_t{1} << 29) == "headroom: reserve is 536870912; it must be in [-234881024, 503316480]");
  CHECK(message("has_overflowed", 2) == "headroom: has_overflowed is 2; it must be in [0, 1]");
}

TEST_CASE("AmaxLossScale: the reserve at its bounds, and equality") {
  AmaxConfig config;
  config.scale.min_scale = 0x1p-40F;
  AmaxLossScale policy = AmaxLossScale(config).adjust(GradientReport{true, 1.0});
  constexpr std::int64_t bit = 1 << 24;
  const auto slow = static_cast<std::int64_t>(1.25 * bit * config.target_skip_rate);
  const auto with = [&policy](const char* key, std::int64_t value) {
    auto state = policy.state_dict();
    state.set(key, value);
    return AmaxLossScale::from_state_dict(state);
  };
  const auto reserve_of = [](const AmaxLossScale& of) { return std::get<std::int64_t>(of.state_dict().at("reserve")); };
  CHECK(reserve_of(with("reserve", 14 * bit).adjust(GradientReport{true, 1.0})) == 14 * bit - slow);
  CHECK(reserve_of(with("reserve", 14 * bit + 1).adjust(GradientReport{true, 1.0})) == -14 * bit);
  CHECK(reserve_of(with("reserve", -1).adjust(overflow)) == -1);
  CHECK(reserve_of(with("reserve", 0).adjust(overflow)) > 0);
  // 2^-13 keeps 28 and 15/16 bits above 1, with a bit more not yet 30; 0x1.Fp-14 one sixteenth more.
  CHECK(reserve_of(policy.with_loss_scale(0x1p-13F).adjust(overflow)) == 30 * bit - bit / 16);
  CHECK(reserve_of(policy.with_loss_scale(0x1.Fp-14F).adjust(overflow)) == -14 * bit);
  CHECK(with("reserve", 1) != policy);
  CHECK(with("zero_steps", 1) != policy);
  CHECK(with("has_overflowed", 1) != policy);
  CHECK(policy.adjust(GradientReport{true, 1.0}) != policy);
}

TEST_CASE("AmaxConfig: what is out of range is named") {
  const auto message = [](auto change) {
    AmaxConfig config;
    change(config);
    return message_of([&] { (void)AmaxLossScale(config); });
  };
  CHECK(message([](AmaxConfig& c) { c.target_skip_rate = 0.5; }) ==
        "headroom: target_skip_rate is 0.5; it must be in [2^-20, 2^-3]");
  CHECK(message([](AmaxConfig& c) { c.largest_finite = 0.0F; }) == "headroom: largest_finite is 0; it must be in [1, 2^127]");
  CHECK(message([](AmaxConfig& c) { c.scale.min_scale = -1.0F; }).find("headroom: min_scale is -1") == 0);
}
