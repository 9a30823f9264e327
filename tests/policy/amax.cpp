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
static_assert(AmaxConfig().target_skip_rate == 0.0002);

/// The same rule in bits, in double: checks the whole numbers, not the rule.
struct Reference {
  std::deque<double> recent;  // the last one first
  double reserve = 0.0, excess = 0.0, overflows = 0.0, frequent = 0.0;
  int given_up = 0, zeros_in_a_row = 0, finite_steps = 0;  // the last as DynamicLossScale counts them
  bool last_overflowed = false;
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
  void as_dynamic(bool finite) {
    finite_steps = finite ? finite_steps + 1 : 0;
    if (!finite) scale = std::max(scale / 2.0, 1.0);
    if (finite_steps == 2000) {
      finite_steps = 0;
      scale = std::min(2.0 * scale, 0x1p126);
    }
  }
  void learn(double kept) {
    const double wanted = 1.0 + std::min(std::max(0.0, std::min(kept, 14.0)), std::max(reserve, 3.0));
    given_up = std::max(given_up - 1, 0);
    if (given_up == 0 && wanted > 14.0) given_up = 128;
    reserve = given_up == 0 ? std::max(reserve, wanted) : std::min(wanted, std::max(2.0, excess + 1.0));
  }
  [[nodiscard]] double chosen() const {
    const double room = std::max(1.0, 3.0 - static_cast<double>(recent.size() - 1) / 4.0);
    const double needed = std::max(level() + room, typical() + sixteenths(reserve));
    return std::exp2(std::min(std::max(std::floor(log2(65504.0) - needed), -126.0), 126.0));
  }
  void set(double next) { scale = std::min(std::max(next, 1.0), 0x1p126); }
  void step(const GradientReport& report, double target) {
    const double slow = std::ldexp(std::floor(std::ldexp(target, 24)), -24);
    const bool is_second = last_overflowed;
    last_overflowed = !report.finite;
    if (!report.finite) {
      zeros_in_a_row = 0;
      if (!recent.empty() && !is_second && frequent == 0.0) {
        learn(log2(65504.0) - log2(scale) - typical());
        overflows += 1.0;
        if (overflows >= 8.0) {
          overflows = reserve = 0.0;
          frequent = 16.0;
        }
      }
      return frequent > 0.0 ? as_dynamic(false) : set(scale / 256.0);
    }
    const bool goes_back = is_second && !recent.empty() && frequent == 0.0;
    frequent = std::max(frequent - slow, 0.0);
    if (!(report.max_abs > 0.0)) {
      if (goes_back) set(chosen());
      if (++zeros_in_a_row == 64) recent.clear();
      return goes_back ? void() : as_dynamic(true);
    }
    zeros_in_a_row = 0;
    overflows = std::max(overflows - 1.0 / 8.0, 0.0);
    recent.push_front(log2(report.max_abs));
    if (recent.size() > 64) recent.pop_back();
    reserve = std::max(reserve - slow, 0.0);
    const double above = recent[0] - typical();
    excess = std::max({excess - slow, 0.0, above <= 13.0 ? above : 0.0});
    if (frequent > 0.0 && chosen() > scale / 4.0) return as_dynamic(true);
    frequent = 0.0;
    set(chosen());
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
    int step = 0;
    for (const double max_abs : course(seed, seed == 0 ? 40000 : 3000)) {
      const GradientReport report = report_of(max_abs, policy.loss_scale(), seed % 2 == 0 ? 1.0 : 0x1p16);
      policy = policy.adjust(report);
      reference.step(report, policy.config().target_skip_rate);
      INFO("seed " << seed << ", step " << step++ << ", max_abs " << max_abs);
      REQUIRE(static_cast<double>(policy.loss_scale()) == reference.scale);
    }
    CHECK(policy.state_dict().at("reserve") == headroom::StateValue(static_cast<std::int64_t>(reference.reserve * 0x1p24)));
    CHECK(policy.state_dict().at("excess") == headroom::StateValue(static_cast<std::int64_t>(reference.excess * 0x1p24)));
    CHECK(policy.state_dict().at("given_up") == headroom::StateValue(reference.given_up));
    CHECK(policy.state_dict().at("overflow_eighths") == headroom::StateValue(static_cast<int>(reference.overflows * 8.0)));
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
  const auto reserve = [&policy] { return policy.state_dict().at("reserve").integer(); };
  policy = policy.adjust(overflow);
  CHECK(reserve() == (31 << 20) + (1 << 24));  // 65504 by the line: 31 sixteenths above 2^14
  const std::int64_t learnt = reserve();
  CHECK(policy.adjust(overflow).state_dict().at("reserve") == headroom::StateValue(learnt));
  for (int step = 0; step < 10; ++step) policy = policy.adjust(GradientReport{true, 0x1p-10});
  CHECK(reserve() == learnt - 10 * static_cast<std::int64_t>((1 << 24) * policy.config().target_skip_rate));
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

TEST_CASE("AmaxLossScale sees large steps between small ones, up to 64 steps apart, and frequent ones however much larger") {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  for (const double bits : {3.0, 10.0, 13.0, 20.0, 27.0}) {
    for (const int period : {2, 3, 5, 33, 50, 64}) {
      if (period > 5 && bits > 13.0) continue;
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
    CHECK(amax.second > std::log2(static_cast<double>(ceiling)) - 0.6);
  }
  // What it costs to try again later, where the rule's scale is 2^n times too large.
  for (const int n : {10, 12, 20, 30}) {
    AmaxLossScale policy;
    int skipped = 0, retries = 0;
    for (int i = 0; i < 100000; ++i) {
      const bool finite = policy.loss_scale() <= 4096.0F;
      const bool was_frequent = policy.state_dict().at("frequent_for") != headroom::StateValue(0);
      policy = policy.adjust(GradientReport{finite, finite ? std::ldexp(1.0, 2 - n) : infinity});
      const bool is_frequent = policy.state_dict().at("frequent_for") != headroom::StateValue(0);
      retries += was_frequent && !is_frequent ? 1 : 0;
      skipped += retries == 1 && !finite && i < 82000 ? 1 : 0;  // before DynamicLossScale's next
    }
    INFO(n);
    CHECK(retries == 1);
    CHECK(skipped == 2 * n - 8);
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

TEST_CASE("AmaxLossScale goes on as DynamicLossScale where overflows are frequent, until magnitudes ask for much less") {
  AmaxLossScale policy;
  const auto overflows = [&policy] { return policy.state_dict().at("overflow_eighths").integer(); };
  const auto frequent = [](const AmaxLossScale& of) { return of.state_dict().at("frequent_for").integer(); };
  for (int i = 0; i < 100; ++i) policy = policy.adjust(GradientReport{true, 0x1p-12});
  for (int i = 1; i <= 8; ++i) {
    policy = policy.adjust(GradientReport{true, 0x1p-12}).adjust(overflow);
    CHECK(overflows() == (i < 8 ? 7 * i + 1 : 57));
  }
  CHECK(policy.adjust(overflow).state_dict().at("overflow_eighths") == headroom::StateValue(57));  // right after another
  policy = policy.adjust(GradientReport{true, 0x1p-12});
  const float before = policy.loss_scale();
  policy = policy.adjust(overflow);
  CHECK(overflows() == 0);
  CHECK(frequent(policy) == 16 << 24);
  CHECK(policy.state_dict().at("reserve") == headroom::StateValue(0));  // has not helped
  CHECK(policy.loss_scale() == before / 2.0F);
  headroom::DynamicLossScale dynamic = headroom::DynamicLossScale().with_loss_scale(policy.loss_scale());
  for (int i = 0; i < 10000; ++i) {
    const bool finite = i % 3001 != 10;
    policy = policy.adjust(GradientReport{finite, finite ? 0x1p-12 : infinity});
    dynamic = dynamic.adjust(finite);
    REQUIRE(policy.loss_scale() == dynamic.loss_scale());
  }
  const double scale = static_cast<double>(policy.loss_scale());
  CHECK(policy.adjust(GradientReport{true, 0x1p15 / scale}).loss_scale() == policy.loss_scale());  // half of it would do
  const AmaxLossScale left = policy.adjust(GradientReport{true, 0x1p16 / scale});
  CHECK(static_cast<double>(left.loss_scale()) == scale / 4.0);
  CHECK(frequent(left) == 0);
  // Or until it is tried again, after 16 / target_skip_rate finite steps, with gradients or without.
  const std::int64_t slow = static_cast<std::int64_t>(0x1p24 * policy.config().target_skip_rate);
  CHECK(frequent(policy) == (16 << 24) - (10000 - 4) * slow);
  while (frequent(policy) > slow) {
    policy = policy.adjust(GradientReport{true, 0x1p-12}).adjust(GradientReport{true, 0.0});
    REQUIRE(policy.loss_scale() < 0x1p26F);
    if (frequent(policy) % 97 == 0) policy = policy.adjust(overflow);
  }
  policy = policy.adjust(GradientReport{true, 0x1p-12});
  CHECK(frequent(policy) == 0);
  CHECK(policy.loss_scale() == 0x1p26F);
}

TEST_CASE("AmaxLossScale: a large step now and then does not lead it above a ceiling again and again") {
  for (const int period : {64, 100, 200, 1000}) {
    const auto skipped = [period](auto policy) {
      int count = 0;
      for (int i = 0; i < 20000; ++i) {
        const double max_abs = i % period == 63 ? 1.0 : 0x1p-12;
        const bool finite = policy.loss_scale() <= 32768.0F;
        if (i >= 2000) count += finite ? 0 : 1;
        policy = policy.adjust(GradientReport{finite, finite ? max_abs : infinity});
      }
      return count;
    };
    INFO(period);
    CHECK(skipped(AmaxLossScale()) <= skipped(headroom::presets::torch()) + 5);
  }
}

TEST_CASE("AmaxLossScale is out of every trap soon: what it had given up, a floor it touched, a ceiling near or far") {
  const auto skipped_after = [](AmaxLossScale policy, double max_abs, float ceiling) {
    int skipped = 0;
    for (int i = 0; i < 100000; ++i) {
      const bool finite = policy.loss_scale() <= ceiling && max_abs * static_cast<double>(policy.loss_scale()) <= 65504.0;
      skipped += finite ? 0 : 1;
      policy = policy.adjust(GradientReport{finite, finite ? max_abs : infinity});
    }
    return skipped;
  };
  for (const float ceiling : {0x1.8p29F, 0x1.8p28F, 0x1.8p26F, 0x1.8p20F, 0x1.8p10F}) {
    for (const int period : {2, 3, 10, 100}) {
      AmaxLossScale policy;
      for (int i = 1; i <= 20 * period; ++i) {
        const bool finite = i % period != 0 && policy.loss_scale() <= ceiling;
        policy = policy.adjust(GradientReport{finite, finite ? 0x1p-16 : infinity});
      }
      INFO("ceiling " << ceiling << ", period " << period);
      CHECK(skipped_after(policy, 0x1p-16, ceiling) < 120);
    }
  }
  AmaxConfig config;
  config.scale.min_scale = 1024.0F;
  AmaxLossScale policy(config);
  for (int i = 0; i < 1000; ++i) policy = policy.adjust(i == 500 ? overflow : GradientReport{true, 0x1p5});
  CHECK(skipped_after(policy, 0x1p-16, 0x1.8p29F) < 120);
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

TEST_CASE("AmaxLossScale does not come down for good where one step in twenty is not finite, or every tenth") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform;
  struct Bad {
    double share;
    bool is_regular;
  };
  constexpr Bad all[] = {{0.01, false}, {0.02, false}, {0.05, false}, {1.0 / 10, true}, {1.0 / 20, true}, {1.0 / 60, true}};
  for (const double max_abs : {1.0, 0.01, 1e-4}) {
    for (const auto [share, is_regular] : all) {
      AmaxLossScale policy;
      double bits = 0.0;
      for (int i = 0; i < 60000; ++i) {
        const bool is_bad = is_regular ? std::fmod(i * share, 1.0) < share - 1e-9 : uniform(random) < share;
        policy = policy.adjust(report_of(is_bad ? infinity : max_abs, policy.loss_scale()));
        bits += std::log2(65504.0 / max_abs) - std::log2(static_cast<double>(policy.loss_scale()));
      }
      INFO(max_abs << ", " << share);
      CHECK(bits / 60000.0 < 4.0);
    }
  }
}

TEST_CASE("AmaxLossScale is back after a run of overflows, however long") {
  for (const int length : {1, 7, 8, 9, 16, 100}) {
    AmaxLossScale policy;
    for (int i = 0; i < 100; ++i) policy = policy.adjust(GradientReport{true, 0x1p-9});
    const float before = policy.loss_scale();
    for (int i = 0; i < length; ++i) policy = policy.adjust(overflow);
    for (int i = 0; i < 64; ++i) policy = policy.adjust(GradientReport{true, 0x1p-9});
    CHECK(policy.loss_scale() >= before / 2.0F);
  }
}

TEST_CASE("AmaxLossScale goes back where a run of overflows has brought it down to where everything underflows") {
  AmaxConfig config;
  config.scale.min_scale = 0x1p-126F;
  for (const double max_abs : {0.01, 1e-9}) {
    for (const int length : {1, 4, 5, 8, 30}) {
      AmaxLossScale policy(config);
      int zeros = 0;
      for (int i = 0; i < 3000; ++i) {
        const bool underflows = max_abs * static_cast<double>(policy.loss_scale()) <= 0x1p-25;
        zeros += i >= 1000 + length && underflows ? 1 : 0;
        policy = policy.adjust(i >= 1000 && i < 1000 + length ? overflow
                                                              : report_of(underflows ? 0.0 : max_abs, policy.loss_scale()));
      }
      INFO(max_abs << ", " << length);
      CHECK(zeros <= 1);
    }
  }
  // But not to what overflows once more, step after step, while gradients are zero where it does not.
  AmaxLossScale policy = AmaxLossScale().adjust(GradientReport{true, 0x1p-16});
  int skipped = 0;
  for (int i = 0; i < 10000; ++i) {
    const bool finite = policy.loss_scale() <= 1024.0F;
    skipped += finite ? 0 : 1;
    policy = policy.adjust(finite ? GradientReport{true, 0.0} : overflow);
  }
  CHECK(skipped < 40);
  auto state = policy.state_dict();  // which steps in a row do not lead to
  for (const char* key : {"frequent_for", "overflow_eighths"}) {
    CHECK(AmaxLossScale().state_dict().at(key) == headroom::StateValue(0));
    state.set(key, 0);
  }
  state.set("recent", "1 2");
  state.set("zero_steps", 63);
  state.set("last_overflowed", 1);
  CHECK(AmaxLossScale::from_state_dict(state).adjust(GradientReport{true, 0.0}).loss_scale() > 1.0F);
}

TEST_CASE("AmaxLossScale: steps that are beyond any reserve do not take that from the smaller ones") {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  for (const double beyond : {0x1p14, 0x1p20, infinity}) {
    std::vector<double> max_abs;
    std::size_t bad = 0;
    for (int i = 0; i < 100000; ++i) {
      const bool is_bad = uniform(random) < 0.0005;
      bad += is_bad ? 1U : 0U;
      const double spike = uniform(random) < 0.02 ? 0x1p6 : 1.0;
      max_abs.push_back(std::exp2(-12.0 + 0.35 * normal(random)) * (is_bad ? beyond : spike));
    }
    const auto found = headroom::simulate(AmaxLossScale(), max_abs);
    INFO(beyond << ": " << found.skipped << " of which " << bad << ", " << found.wasted_bits);
    CHECK(found.skipped < bad + 70);
    CHECK(found.wasted_bits < 10.0);
  }
}

TEST_CASE("AmaxLossScale: the room of the first steps is worth its bits where trainings begin") {
  std::mt19937_64 random(10);
  std::normal_distribution<double> normal;
  std::size_t skipped = 0;
  for (int training = 0; training < 200; ++training) {
    std::vector<double> max_abs;
    for (int i = 0; i < 64; ++i) max_abs.push_back(std::exp2(normal(random)));
    skipped += headroom::simulate(AmaxLossScale(), max_abs).skipped;
  }
  CHECK(skipped < 80);
}

TEST_CASE("AmaxLossScale follows the dtype that gradients are computed in") {
  AmaxConfig config;
  config.largest_finite = 448.0F;
  AmaxLossScale policy(config);
  for (int i = 0; i < 100; ++i) policy = policy.adjust(GradientReport{true, 0x1p-10});
  CHECK(policy.loss_scale() == 0x1p17F);
  config = AmaxConfig();
  config.scale.min_scale = 0x1p-40F;
  CHECK(AmaxLossScale(config).adjust(GradientReport{true, 0x1.8p17}).loss_scale() == 0x1p-5F);  // rounded down below 1, too
}

TEST_CASE("AmaxLossScale gives up what does not help also where gradients are noisy") {
  std::mt19937_64 random(8);
  std::normal_distribution<double> normal;
  for (const int period : {20, 100}) {
    AmaxLossScale policy;
    double bits = 0.0;
    for (int i = 0; i < 60000; ++i) {
      const double max_abs = i % period == 7 ? infinity : std::exp2(-10.0 + normal(random));
      policy = policy.adjust(report_of(max_abs, policy.loss_scale()));
      bits += 26.0 - std::log2(static_cast<double>(policy.loss_scale()));
    }
    CHECK(bits / 60000.0 < 7.0);
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
  AmaxLossScale policy(config), reloaded(config);
  int step = 0;
  for (const double max_abs : course(9, 3000)) {
    if (step % 10 == 0) reloaded = AmaxLossScale::from_state_dict(reloaded.state_dict());
    reloaded = reloaded.adjust(report_of(max_abs, policy.loss_scale()));
    policy = policy.adjust(report_of(max_abs, policy.loss_scale()));
    REQUIRE(reloaded.loss_scale() == policy.loss_scale());
    if (++step % 10 == 1) {
      const AmaxLossScale loaded = AmaxLossScale::from_state_dict(policy.state_dict());
      REQUIRE(loaded == policy);
      REQUIRE(loaded.state_dict() == policy.state_dict());
    }
  }
  for (int i = 0; i < 20 * 64; ++i)  // until it is given up
    policy = policy.adjust(i % 64 == 0 ? overflow : GradientReport{true, 0.01});
  policy = policy.adjust(overflow);
  CHECK(policy.state_dict().at("given_up").integer() > 0);
  CHECK(policy.state_dict().at("last_overflowed") == headroom::StateValue(1));
  CHECK(AmaxLossScale::from_state_dict(policy.state_dict()) == policy);
  CHECK(policy.policy_name() == "amax");
  const auto message = [&policy](const char* key, const headroom::StateValue& value) {
    auto state = policy.state_dict();
    state.set(key, value);
    return message_of([&] { (void)AmaxLossScale::from_state_dict(state); });
  };
  CHECK(message("recent", "1 2 x") == "headroom: recent is '1 2 x'; it must be up to 64 whole numbers in [-16368, 16384]");
  CHECK(message("reserve", std::int64_t{1} << 30) == "headroom: reserve is 1073741824; it must be in [0, 234881024]");
  policy = policy.adjust(GradientReport{true, 0.01});
  CHECK(message("zero_steps", 64) == "headroom: zero_steps is 64; it must be below 64 where there are recent magnitudes");
  CHECK(message("overflow_eighths", 64) == "headroom: overflow_eighths is 64; it must be in [0, 63]");
  CHECK(message("frequent_for", 1 << 29) == "headroom: frequent_for is 536870912; it must be in [0, 268435456]");
}

TEST_CASE("AmaxLossScale: the reserve at its bounds, and equality") {
  AmaxConfig config;
  config.scale.min_scale = 0x1p-40F;
  AmaxLossScale policy = AmaxLossScale(config).adjust(GradientReport{true, 1.0});
  constexpr std::int64_t bit = 1 << 24;
  const auto number = [](const AmaxLossScale& of, const char* key) { return of.state_dict().at(key).integer(); };
  // 1 more than it was, or than 3, but not than what was kept: of 15 15/16 all but that of the scale.
  const auto learnt = [&](float scale, std::int64_t reserve, std::int64_t given_up = 0) {
    auto state = policy.state_dict();
    state.set("reserve", reserve);
    state.set("given_up", given_up);
    const AmaxLossScale after = AmaxLossScale::from_state_dict(state).with_loss_scale(scale).adjust(overflow);
    return std::make_pair(number(after, "reserve"), number(after, "given_up"));
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  CHECK(learnt(0x1p3F, 0) == Pair{4 * bit, 0});
  CHECK(learnt(0x1p3F, 5 * bit) == Pair{6 * bit, 0});
  CHECK(learnt(0x1p14F, 0) == Pair{3 * bit - bit / 16, 0});
  CHECK(learnt(0x1p14F, 5 * bit) == Pair{5 * bit, 0});
  CHECK(learnt(0x1p20F, 0) == Pair{bit, 0});
  CHECK(learnt(0x1p-20F, 13 * bit) == Pair{14 * bit, 0});
  CHECK(learnt(0x1p-20F, 13 * bit + 1) == Pair{2 * bit, 128});
  CHECK(learnt(0x1p-39F, 0) == Pair{4 * bit, 0});
  CHECK(learnt(0x1p-20F, 14 * bit, 1) == Pair{2 * bit, 128});
  CHECK(learnt(0x1p-20F, 14 * bit, 2) == Pair{2 * bit, 1});
  auto far = policy.state_dict();
  far.set("recent", "-16368");
  CHECK(number(AmaxLossScale::from_state_dict(far).adjust(overflow), "reserve") == 4 * bit);
  CHECK(learnt(0x1p3F, 0, 128) == Pair{2 * bit, 127});
  CHECK(learnt(0x1p20F, bit / 2, 2) == Pair{bit, 1});
  CHECK(learnt(0x1p3F, 0, 1) == Pair{4 * bit, 0});
  const auto with = [&policy](const char* key, const headroom::StateValue& value) {
    auto state = policy.state_dict();
    state.set(key, value);
    return AmaxLossScale::from_state_dict(state);
  };
  for (const char* key : {"reserve", "excess", "given_up", "overflow_eighths", "frequent_for", "last_overflowed", "zero_steps"})
    CHECK(with(key, 1) != policy);
  CHECK(with("recent", "1") != with("recent", "1 1"));
  CHECK(policy.adjust(GradientReport{true, 1.0}) != policy);
  // What magnitudes were above typical counts while the reserve is given up, up to 13 bits.
  const auto excess = [&](int sixteenths) {
    auto state = policy.state_dict();
    std::string recent = std::to_string(sixteenths);
    for (int i = 0; i < 62; ++i) recent += " 0";
    state.set("recent", recent);
    return number(AmaxLossScale::from_state_dict(state).adjust(GradientReport{true, std::ldexp(1.0, sixteenths / 16)}),
                  "excess");
  };
  CHECK(excess(0) == 0);
  CHECK(excess(6 * 16) == 6 * bit - bit / 16 * (2 * 6 * 16 / 64));
  CHECK(excess(13 * 16) == 13 * bit - bit / 16 * (2 * 13 * 16 / 64));
  CHECK(excess(14 * 16) == 0);
  auto state = policy.state_dict();
  state.set("given_up", 2);
  state.set("excess", 5 * bit);
  state.set("reserve", 10 * bit);
  CHECK(number(AmaxLossScale::from_state_dict(state).with_loss_scale(0x1p-20F).adjust(overflow), "reserve") == 6 * bit);
  state.set("frequent_for", 1);  // where overflows are frequent, they teach nothing
  CHECK(number(AmaxLossScale::from_state_dict(state).adjust(overflow), "given_up") == 2);
}

TEST_CASE("AmaxConfig: what is out of range is named") {
  const auto message = [](auto change) {
    AmaxConfig config;
    change(config);
    return message_of([&] { (void)AmaxLossScale(config); });
  };
  CHECK(message([](AmaxConfig& c) { c.target_skip_rate = 0.5; }) ==
        "headroom: target_skip_rate is 0.5; it must be in [2^-20, 2^-3]");
  CHECK(message([](AmaxConfig& c) { c.target_skip_rate = 0x1p-3; }).empty());
  CHECK(!message([](AmaxConfig& c) { c.target_skip_rate = 0x1.01p-3; }).empty());
  CHECK(message([](AmaxConfig& c) { c.target_skip_rate = 0x1p-20; }).empty());
  CHECK(!message([](AmaxConfig& c) { c.target_skip_rate = 0x1.fp-21; }).empty());
  CHECK(message([](AmaxConfig& c) { c.largest_finite = 0.0F; }) == "headroom: largest_finite is 0; it must be in [1, 2^127]");
  CHECK(message([](AmaxConfig& c) { c.scale.min_scale = -1.0F; }).find("headroom: min_scale is -1") == 0);
}
