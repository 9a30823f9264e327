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
#include <utility>
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

/// The rule as its documentation puts it, in bits.
struct Reference {
  std::deque<double> recent;  // the last one first
  double reserve = 0.0, given_up = 0.0, hidden = 0.0;
  int since_overflow = 64, at_once = 0, zeros = 0, zeros_in_a_row = 0;
  double scale = 32768.0;

  static double sixteenths(double value) { return std::floor(16.0 * value) / 16.0; }
  static double log2(double value) {  // by straight lines between powers of two
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    return sixteenths(exponent - 1 + (2.0 * fraction - 1.0));
  }
  [[nodiscard]] double level() const { return *std::max_element(recent.begin(), recent.end()); }
  [[nodiscard]] double typical() const {
    const double sum = std::accumulate(recent.begin(), recent.end(), 0.0);
    return std::trunc(16.0 * sum / static_cast<double>(recent.size())) / 16.0;
  }
  void halve(int times) { scale = std::max(std::ldexp(scale, -times), 1.0); }
  void step(const GradientReport& report, double target) {
    const double most = log2(65504.0);
    const double slow = std::ldexp(std::floor(std::ldexp(target, 23)), -23);
    const double slower = std::ldexp(std::floor(std::ldexp(slow / 2.0, 23)), -23);
    if (!report.finite) {
      zeros_in_a_row = 0;
      const int since = std::exchange(since_overflow, 0);
      at_once = since == 1 || (since == 0 && at_once > 0) ? at_once + 1 : 0;
      if (recent.empty()) return halve(8);
      if (since > 0 || at_once > 0) {
        const double kept = std::min(std::max(most - log2(scale) - typical(), 0.0), 125.0), of_level = level() - typical();
        if (at_once > 1) {
          hidden = 1.0 + std::min(kept, std::max(hidden, of_level + 2.0));
          reserve = std::max(reserve, hidden);
          given_up = 0.0;
        } else if (given_up == 0.0) {
          const double wanted = 1.0 + std::min(kept, std::max({reserve, hidden, 3.0}));
          const bool is_beyond = wanted - std::max(of_level, hidden) > (since < 16 ? 30.0 : 14.0) || scale == 1.0;
          reserve = is_beyond ? 0.0 : std::max(reserve, wanted);
          given_up = is_beyond ? 14.0 : 0.0;
        }
      }
      return halve(at_once > 0 ? 1 : 8);
    }
    if (!(report.max_abs > 0.0)) {
      if (++zeros_in_a_row == 64) recent.clear();
      if (++zeros == 2000) {
        zeros = 0;
        scale = std::min(2.0 * scale, 0x1p126);
      }
      return;
    }
    zeros_in_a_row = at_once = 0;
    since_overflow = std::min(since_overflow + 1, 64);
    recent.push_front(log2(report.max_abs));
    if (recent.size() > 64) recent.pop_back();
    reserve = std::max(reserve - (reserve > hidden + 14.0 ? 1.0 / 64.0 : slow), 0.0);
    given_up = std::max(given_up - slow, 0.0);
    hidden = std::max(hidden - slower, 0.0);
    if (level() + 3.0 >= typical() + sixteenths(hidden)) hidden = 0.0;
    const double room = std::max(1.0, 3.0 - static_cast<double>(recent.size() - 1) / 4.0);
    const double needed = std::max(level() + room, typical() + sixteenths(std::max(reserve, hidden)));
    scale = std::min(std::max(std::exp2(std::floor(most - needed)), 1.0), 0x1p126);
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

/// `hidden`: how many times larger something is that is not in the report.
GradientReport report_of(double max_abs, float scale, double hidden = 1.0) {
  const bool finite = max_abs < infinity && max_abs * hidden * static_cast<double>(scale) <= 65504.0;
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
      const GradientReport report = report_of(max_abs, policy.loss_scale(), seed % 2 == 0 ? 1.0 : 0x1p16);
      policy = policy.adjust(report);
      has_begun = has_begun || !report.finite || max_abs > 0.0;
      if (has_begun) reference.step(report, policy.config().target_skip_rate);
      INFO("seed " << seed << ", step " << step++ << ", max_abs " << max_abs);
      REQUIRE(static_cast<double>(policy.loss_scale()) == reference.scale);
    }
    CHECK(policy.state_dict().at("reserve") == headroom::StateValue(static_cast<std::int64_t>(reference.reserve * 0x1p23)));
    CHECK(policy.state_dict().at("given_up") == headroom::StateValue(static_cast<std::int64_t>(reference.given_up * 0x1p23)));
    CHECK(policy.state_dict().at("hidden") == headroom::StateValue(static_cast<std::int64_t>(reference.hidden * 0x1p23)));
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
  CHECK(reserve() == (31 << 19) + (1 << 23));  // 65504 by the line: 31 sixteenths above 2^14
  const std::int64_t learnt = reserve();
  CHECK(policy.adjust(overflow).state_dict().at("reserve") == headroom::StateValue(learnt));
  CHECK(policy.adjust(overflow).state_dict().at("hidden") == headroom::StateValue(0));
  for (int step = 0; step < 10; ++step) policy = policy.adjust(GradientReport{true, 0x1p-10});
  CHECK(reserve() == learnt - 10 * static_cast<std::int64_t>((1 << 23) * policy.config().target_skip_rate));
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

TEST_CASE("AmaxLossScale sees large steps between small ones, up to 64 steps apart, and often ones however much larger") {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (const double bits : {3.0, 10.0, 13.0, 20.0, 27.0}) {
    for (const int period : {2, 3, 8, 15, 33, 50, 64}) {
      if (period > 15 && bits > 13.0) continue;
      std::vector<double> max_abs;
      for (int i = 0; i < 20000; ++i)
        max_abs.push_back(std::exp2(-16.0 + 0.35 * normal(random) + (i % period == 0 ? bits : 0.0)));
      INFO("every " << period << " steps " << bits << " bits");
      CHECK(headroom::simulate(AmaxLossScale(), max_abs).skipped < 64);
    }
  }
}

TEST_CASE("AmaxLossScale finds what overflows before the gradients do, and skips about as seldom as torch's scale") {
  std::mt19937_64 random(6);
  std::normal_distribution<double> normal;
  const auto count = [&](auto policy, auto is_finite) {
    int skipped = 0;
    double bits = 0.0;
    for (int i = 0; i < 50000; ++i) {
      const double max_abs = std::exp2(-13.0 - i / 25000.0 + 0.35 * normal(random));
      const bool finite =
          max_abs * static_cast<double>(policy.loss_scale()) <= 65504.0 && is_finite(max_abs, policy.loss_scale());
      skipped += finite ? 0 : 1;
      bits += std::log2(static_cast<double>(policy.loss_scale()));
      policy = policy.adjust(GradientReport{finite, finite ? max_abs : infinity});
    }
    return std::make_pair(skipped, bits / 50000.0);
  };
  for (const float ceiling : {32768.0F, 8192.0F, 256.0F}) {  // as a loss of 1, 4 or 128 in half
    const auto is_finite = [&](double, float scale) { return scale <= ceiling; };
    const auto amax = count(AmaxLossScale(), is_finite);
    const auto torch = count(headroom::presets::torch(), is_finite);
    INFO("ceiling " << ceiling << ": " << amax.first << " and " << torch.first << " skipped");
    CHECK(amax.first < torch.first + 30);
    CHECK(amax.second > std::log2(static_cast<double>(ceiling)) - 0.2);
  }
  for (const double larger : {0x1p6, 0x1p12, 0x1p16}) {  // gradients on the way
    const auto is_finite = [&](double max_abs, float scale) {
      return max_abs * larger * static_cast<double>(scale) <= 65504.0;
    };
    const auto amax = count(AmaxLossScale(), is_finite);
    const auto torch = count(headroom::presets::torch(), is_finite);
    INFO(larger << " times larger: " << amax.first << " and " << torch.first << " skipped");
    CHECK(amax.first < torch.first + 30);
    CHECK(amax.second > torch.second - 1.0);
  }
}

TEST_CASE("AmaxLossScale forgets what was hidden where the gradients themselves grow as large") {
  AmaxLossScale policy;
  const auto hidden = [&policy] { return std::get<std::int64_t>(policy.state_dict().at("hidden")); };
  for (int i = 0; i < 100; ++i) policy = policy.adjust(GradientReport{true, 0x1p-12});
  policy = policy.adjust(overflow).adjust(GradientReport{true, 0x1p-12});
  const float back = policy.loss_scale();
  for (int i = 1; i <= 6; ++i) {
    policy = policy.adjust(overflow);
    CHECK(policy.loss_scale() == std::ldexp(back, -i));  // as DynamicLossScale
    CHECK((hidden() == 0) == (i == 1));
  }
  policy = policy.adjust(GradientReport{true, 0x1p-12});
  CHECK(policy.loss_scale() == 0x1p21F);  // nearly 7 bits below 65504 / 2^-12
  CHECK(hidden() == 7 * (1 << 23) - static_cast<int>((1 << 23) * policy.config().target_skip_rate) / 2);
  CHECK(policy.adjust(GradientReport{true, 0x1p-9}).state_dict().at("hidden") != headroom::StateValue(0));
  policy = policy.adjust(GradientReport{true, 0x1p-8});
  CHECK(hidden() == 0);
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

TEST_CASE("AmaxLossScale does not come down for good where steps are not finite every now and then, or regularly") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform;
  for (const double max_abs : {1.0, 0.01, 1e-4}) {
    for (const double share : {0.01, 0.02, 0.05, 1.0 / 2, 1.0 / 3, 1.0 / 8, 1.0 / 20, 1.0 / 60}) {
      const bool is_regular = share > 0.05 || share == 1.0 / 20 || share == 1.0 / 60;
      AmaxLossScale policy;
      double bits = 0.0;
      for (int i = 0; i < 60000; ++i) {
        const bool is_bad = is_regular ? std::fmod(i * share, 1.0) < share - 1e-9 : uniform(random) < share;
        policy = policy.adjust(report_of(is_bad ? infinity : max_abs, policy.loss_scale()));
        bits += std::log2(65504.0 / max_abs) - std::log2(static_cast<double>(policy.loss_scale()));
      }
      INFO(max_abs << ", " << share);
      CHECK(bits / 60000.0 < 5.0);
    }
  }
}

TEST_CASE("AmaxLossScale: one overflow soon after a large step, or under a scale that was set, costs few bits for long") {
  for (const int drop : {0, 4, 8, 10}) {
    AmaxLossScale policy;
    const double max_abs = std::ldexp(1.0, -drop);
    for (int i = 0; i < 300; ++i) policy = policy.adjust(GradientReport{true, 1.0});
    for (int i = 0; i < 60; ++i) policy = policy.adjust(GradientReport{true, max_abs});
    if (drop == 0) policy = policy.with_loss_scale(16.0F);
    policy = policy.adjust(overflow);
    for (int i = 0; i < 64; ++i) policy = policy.adjust(GradientReport{true, max_abs});
    CHECK(max_abs * static_cast<double>(policy.loss_scale()) >= 0x1p11);
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
  for (int i = 0; i < 40; ++i) policy = policy.adjust(GradientReport{true, 0.0});
  policy = policy.adjust(overflow);
  for (int i = 0; i < 63; ++i) policy = policy.adjust(GradientReport{true, 0.0});
  CHECK(policy.state_dict().at("recent") != headroom::StateValue(""));  // not 64 in a row
  policy = policy.adjust(GradientReport{true, 0.5});
  for (int i = 0; i < 64; ++i) policy = policy.adjust(GradientReport{true, 0.0});
  CHECK(policy.state_dict().at("recent") == headroom::StateValue(""));
  CHECK(policy.adjust(overflow).loss_scale() == policy.loss_scale() / 256.0F);  // it has not come back to anything
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
  for (int i = 0; i < 20 * 64; ++i)  // until it is given up
    policy = policy.adjust(i % 64 == 0 ? overflow : GradientReport{true, 0.01});
  policy = policy.adjust(overflow);
  CHECK(std::get<std::int64_t>(policy.state_dict().at("given_up")) > 0);
  CHECK(policy.state_dict().at("since_overflow") == headroom::StateValue(0));
  CHECK(AmaxLossScale::from_state_dict(policy.state_dict()) == policy);
  CHECK(policy.policy_name() == "amax");
  const auto message = [&policy](const char* key, const headroom::StateValue& value) {
    auto state = policy.state_dict();
    state.set(key, value);
    return message_of([&] { (void)AmaxLossScale::from_state_dict(state); });
  };
  CHECK(message("recent", "1 2 x") == "headroom: recent is '1 2 x'; it must be up to 64 whole numbers in [-32768, 32767]");
  CHECK(message("reserve", std::int64_t{1} << 30) == "headroom: reserve is 1073741824; it must be in [0, 1056964608]");
  policy = policy.adjust(GradientReport{true, 0.01});
  CHECK(message("zero_steps", 64) == "headroom: zero_steps is 64; it must be below 64 where there are recent magnitudes");
  CHECK(message("since_overflow", 65) == "headroom: since_overflow is 65; it must be in [0, 64]");
}

TEST_CASE("AmaxLossScale: the reserve at its bounds, and equality") {
  AmaxConfig config;
  config.scale.min_scale = 0x1p-40F;
  AmaxLossScale policy = AmaxLossScale(config).adjust(GradientReport{true, 1.0});
  constexpr std::int64_t bit = 1 << 23;
  const auto slow = static_cast<std::int64_t>(bit * config.target_skip_rate);
  const auto with = [&policy](const char* key, std::int64_t value) {
    auto state = policy.state_dict();
    state.set(key, value);
    return AmaxLossScale::from_state_dict(state);
  };
  const auto number = [](const AmaxLossScale& of, const char* key) { return std::get<std::int64_t>(of.state_dict().at(key)); };
  const auto reserve_of = [&number](const AmaxLossScale& of) {  // -1: it was given up
    return number(of, "given_up") == 14 * bit ? -1 - number(of, "reserve") : number(of, "reserve");
  };
  CHECK(reserve_of(with("reserve", 14 * bit).adjust(GradientReport{true, 1.0})) == 14 * bit - slow);
  CHECK(reserve_of(with("reserve", 14 * bit + 1).adjust(GradientReport{true, 1.0})) == 14 * bit + 1 - bit / 64);
  CHECK(reserve_of(with("given_up", 1).adjust(overflow)) == 0);
  CHECK(number(with("given_up", 14 * bit).adjust(GradientReport{true, 1.0}), "given_up") == 14 * bit - slow);
  CHECK(reserve_of(with("reserve", 0).adjust(overflow)) > 0);
  // 1 more than it was, than hidden, or than 3, but not than what was kept: of 15 15/16 all but that of the scale.
  const auto learnt = [&](float scale, std::int64_t reserve, std::int64_t hidden, std::int64_t since,
                          std::int64_t at_once = 0) {
    auto state = policy.state_dict();
    state.set("reserve", reserve);
    state.set("hidden", hidden);
    state.set("since_overflow", since);
    state.set("at_once", at_once);
    return AmaxLossScale::from_state_dict(state).with_loss_scale(scale).adjust(overflow);
  };
  CHECK(reserve_of(learnt(0x1p3F, 0, 0, 64)) == 4 * bit);
  CHECK(reserve_of(learnt(0x1p3F, 5 * bit, 0, 64)) == 6 * bit);
  CHECK(reserve_of(learnt(0x1p3F, 5 * bit, 7 * bit, 64)) == 8 * bit);
  CHECK(reserve_of(learnt(0x1p14F, 0, 0, 64)) == 3 * bit - bit / 16);
  CHECK(reserve_of(learnt(0x1p14F, 5 * bit, 0, 64)) == 5 * bit);
  CHECK(reserve_of(learnt(0x1p20F, 0, 0, 64)) == bit);
  CHECK(reserve_of(learnt(0x1p-20F, 13 * bit, 0, 64)) == 14 * bit);
  CHECK(reserve_of(learnt(0x1p-20F, 13 * bit + 1, 0, 64)) == -1);
  CHECK(reserve_of(learnt(0x1p-20F, 13 * bit + 1, 0, 16)) == -1);
  CHECK(reserve_of(learnt(0x1p-20F, 13 * bit + 1, 0, 15)) == 14 * bit + 1);
  CHECK(reserve_of(learnt(0x1p-20F, 29 * bit, 0, 15)) == 30 * bit);
  CHECK(reserve_of(learnt(0x1p-20F, 29 * bit + 1, 0, 15)) == -1);
  CHECK(reserve_of(learnt(0x1p-20F, 15 * bit, 2 * bit, 64)) == 16 * bit);
  CHECK(reserve_of(learnt(0x1p-20F, 15 * bit + 1, 2 * bit, 64)) == -1);
  CHECK(reserve_of(learnt(0x1p-39F, 0, 0, 64)) == 4 * bit);
  CHECK(reserve_of(learnt(0x1p-40F, 0, 0, 64)) == -1);  // min_scale
  const auto hidden_of = [&number](const AmaxLossScale& of) { return number(of, "hidden"); };
  CHECK(hidden_of(learnt(0x1p3F, 0, 0, 0, 1)) == 3 * bit);
  CHECK(reserve_of(learnt(0x1p3F, 0, 0, 0, 1)) == 3 * bit);
  CHECK(number(with("given_up", 1).adjust(overflow).adjust(GradientReport{true, 1.0}).adjust(overflow).adjust(overflow),
               "given_up") == 0);
  CHECK(reserve_of(learnt(0x1p3F, 7 * bit, 0, 0, 1)) == 7 * bit);
  CHECK(hidden_of(learnt(0x1p3F, 0, 5 * bit, 0, 1)) == 6 * bit);
  CHECK(hidden_of(learnt(0x1p14F, 0, 5 * bit, 0, 1)) == 3 * bit - bit / 16);
  CHECK(hidden_of(learnt(0x1p3F, 0, 5 * bit, 0, 0)) == 5 * bit);
  CHECK(with("reserve", 1) != policy);
  CHECK(with("zero_steps", 1) != policy);
  CHECK(with("since_overflow", 1) != policy);
  CHECK(with("hidden", 1) != policy);
  CHECK(with("at_once", 1) != policy);
  CHECK(with("given_up", 1) != policy);
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
