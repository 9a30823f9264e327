#include <headroom/observe/simulate.hpp>
#include <headroom/policy/amax.hpp>
#include <headroom/policy/presets.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <sstream>
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

// The rule is constexpr. 65504 / 2^6 is below 2^10, less two bits while nothing is known: 2^7; then closer.
static_assert(AmaxLossScale().adjust(GradientReport{true, 64.0}).loss_scale() == 128.0F);
static_assert(AmaxLossScale().adjust(overflow).loss_scale() == 128.0F);
static_assert(AmaxLossScale().adjust(overflow).adjust(overflow).loss_scale() == 1.0F);

/// The rule as its documentation puts it, with containers and sorting, and magnitudes in sixteenths of a bit.
struct Reference {
  std::vector<int> recent;  // the last one first
  std::map<int, std::int64_t> excesses;
  std::int64_t steps = 0, credit = 0;
  int spread = 205;
  int since = 33;  // finite steps since the last overflow
  int held = 0, zeros = 0;
  double scale = 32768.0;

  static int whole(double value, bool up) {  // by straight lines between powers of two
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    const double sixteenths = 16.0 * (exponent - 1 + (2.0 * fraction - 1.0));
    return static_cast<int>(up ? std::ceil(sixteenths) : std::floor(sixteenths));
  }
  [[nodiscard]] int level() const {
    std::vector<int> sorted = recent;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    return sorted.size() < 2 ? sorted.front() : std::max(sorted[1], recent.front());
  }
  void count(int excess) {
    if (excess > 0) ++excesses[std::min(27, (excess - 1) / 8)];
    if (++steps < 32768) return;
    steps /= 2;
    std::map<int, std::int64_t> tails;
    for (int i = 0; i < 28; ++i) {
      for (int j = i; j < 28; ++j) tails[i] += excesses[j];
    }
    for (int i = 0; i < 28; ++i) excesses[i] = tails[i] / 2 - tails[i + 1] / 2;
  }
  [[nodiscard]] int excess_of_all_but(std::int64_t allowed) {
    for (int i = 27; i >= 0; --i) {
      if (256 * excesses[i] > allowed) return 8 * (i + 1) - static_cast<int>(8 * allowed / (256 * excesses[i]));
      allowed -= 256 * excesses[i];
    }
    return 0;
  }
  [[nodiscard]] std::string excesses_text() {
    std::string text = std::to_string(excesses[0]);
    for (int i = 1; i < 28; ++i) text += " " + std::to_string(excesses[i]);
    return text;
  }
  [[nodiscard]] std::int64_t allowed(std::int64_t rate) const { return 3 * std::max<std::int64_t>(steps, 2000) * rate / 65536; }
  [[nodiscard]] bool is_beyond(std::int64_t count) { return 256 * excesses[27] > count; }
  void step(const GradientReport& report, double target) {
    const int most = whole(65504.0, false);
    const auto rate = static_cast<std::int64_t>(target * 16777216.0);
    if (!report.finite) {
      double lowest = 0.0;
      if (!recent.empty() && since > 0) {
        count(is_beyond(allowed(rate)) ? 224 : std::max(0, most - level() - whole(scale, true)) + 16);
        credit = std::max<std::int64_t>(credit - 16777216, -4 * 16777216);
        if (credit == -4 * 16777216 && since <= 32) held = 32;
        lowest = std::min(scale, std::exp2(std::floor((most - level() - 480) / 16.0)));
      }
      since = 0;
      scale = std::max({scale / 256.0, lowest, 1.0});
      return;
    }
    ++since;
    credit = std::min<std::int64_t>(credit + rate, 2 * 16777216);
    if (!(report.max_abs > 0.0)) {
      if (++zeros == 2000) {
        zeros = 0;
        scale = std::min(2.0 * scale, 0x1p126);
      }
      return;
    }
    {
      const int magnitude = whole(report.max_abs, true);
      if (!recent.empty()) {
        const int excess = magnitude - level();
        spread = std::min(std::max(spread + (excess * 64 > spread ? 63 : -1), 0), 224 * 64);
        count(excess);
      }
      recent.insert(recent.begin(), magnitude);
      if (recent.size() > 32) recent.pop_back();
    }
    const std::int64_t all = allowed(rate);
    const auto octave = static_cast<int>(std::floor(static_cast<double>(credit) / 16777216.0));
    const double line = 1.0 + static_cast<double>(credit - std::int64_t{octave} * 16777216) / 16777216.0;
    const double paid = std::floor(std::ldexp(std::floor(std::ldexp(static_cast<double>(all) * line, octave + 4)), -4));
    int margin = 4 + 7 * spread / 128;
    if (!is_beyond(all)) {
      margin = std::min(margin, excess_of_all_but(all) + 4);
      margin = std::max(margin, excess_of_all_but(static_cast<std::int64_t>(paid)));
    }
    if (steps < 64) margin = std::max(margin, 32 - static_cast<int>(steps) / 2);
    margin = std::min(margin, 224);
    double proposed = std::exp2(std::floor((most - level() - margin) / 16.0));
    if (held > 0) {
      --held;
      proposed = std::min(proposed, scale);
    }
    scale = std::min(std::max(proposed, 1.0), 0x1p126);
  }
};

/// Magnitudes with a trend, noise, spikes, bursts, jumps and zeros.
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
    CHECK(policy.state_dict().at("excesses") == headroom::StateValue(reference.excesses_text()));
    CHECK(policy.state_dict().at("spread") == headroom::StateValue(reference.spread));
  }
}

TEST_CASE("AmaxLossScale: without noise the spread falls to 0; an overflow without room counts as one bit") {
  AmaxLossScale policy;
  for (int step = 0; step < 210; ++step) {
    policy = policy.adjust(GradientReport{true, 1.9375});  // 15 sixteenths, as many as 65504 has above 2^15
    REQUIRE(policy.state_dict().at("spread") == headroom::StateValue(std::max(205 - step, 0)));
  }
  policy = policy.with_loss_scale(0x1p15F).adjust(overflow);
  Reference none;
  none.excesses[1] = 1;  // (1/2, 1] bits
  CHECK(policy.state_dict().at("excesses") == headroom::StateValue(none.excesses_text()));
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

TEST_CASE("AmaxLossScale skips at most a tenth of what torch's scale does where gradients are calm or shift, and wastes less") {
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
    CHECK(amax.wasted_bits < torch.wasted_bits);
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
    CHECK(static_cast<double>(found.skipped) < 60000.0 * target + 6.0);
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
  AmaxLossScale policy(config);
  int step = 0;
  for (const double max_abs : course(7, 3000)) {
    policy = policy.adjust(report_of(max_abs, policy.loss_scale()));
    if (++step % 500 == 1) {
      const AmaxLossScale loaded = AmaxLossScale::from_state_dict(policy.state_dict());
      REQUIRE(loaded == policy);
      REQUIRE(loaded.state_dict() == policy.state_dict());
    }
  }
  for (int i = 0; i < 8; ++i) policy = policy.adjust(overflow).adjust(GradientReport{true, 0.01});  // until it is held
  CHECK(policy.state_dict().at("held") != headroom::StateValue(0));
  CHECK(AmaxLossScale::from_state_dict(policy.state_dict()) == policy);
  CHECK(policy.policy_name() == "amax");
  auto state = policy.state_dict();
  state.set("recent", "1 2 x");
  CHECK(message_of([&] { (void)AmaxLossScale::from_state_dict(state); }) ==
        "headroom: recent is '1 2 x'; it must be up to 32 whole numbers in [-32768, 32767]");
  state = policy.state_dict();
  state.set("credit", std::int64_t{1} << 30);
  CHECK(message_of([&] { (void)AmaxLossScale::from_state_dict(state); }).find("headroom: credit is 1073741824") == 0);
}

TEST_CASE("AmaxLossScale refuses states at odds with themselves by key and value, and goes on from all others") {
  std::mt19937 random(4);
  const auto text_of = [](const std::vector<int>& numbers) {
    std::string text;
    for (const int each : numbers) text += (text.empty() ? "" : " ") + std::to_string(each);
    return text;
  };
  const auto sum_and_count = [](const headroom::StateDict& state) {
    std::istringstream text(std::get<std::string>(state.at("excesses")));
    std::int64_t sum = 0;
    for (std::int64_t each = 0; text >> each;) sum += each;
    return std::make_pair(sum, std::get<std::int64_t>(state.at("counted")));
  };
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::vector<int> recent(random() % 3 == 0 ? random() % 3 : random() % 33), excesses(random() % 16 == 0 ? 27 : 28, 0);
    for (int& each : recent) each = static_cast<int>(random() % 400) - 200;
    const int counted = static_cast<int>(random() % 2 == 0 ? random() % 40 : 32768 - random() % 3);
    const int all = random() % 4 == 0 ? counted + 1 : counted - (counted > 0 ? static_cast<int>(random() % 2) : 0);
    excesses[random() % 27] = all / 3;
    excesses.back() += all - all / 3;
    headroom::StateDict state = AmaxLossScale().state_dict();
    state.set("recent", text_of(recent));
    state.set("excesses", text_of(excesses));
    state.set("counted", counted);
    const int least = recent.empty() ? 0 : static_cast<int>(recent.size()) - 1;
    const bool bad_excesses = excesses.size() != 28 || all > counted;
    const bool bad_counted = counted == 32768 || counted < least || (recent.empty() && counted > 0);
    const std::string message = message_of([&] { (void)AmaxLossScale::from_state_dict(state); });
    INFO(text_of(recent) << "; " << text_of(excesses) << "; " << counted << ": " << message);
    REQUIRE(message.empty() == !(bad_excesses || bad_counted));
    if (!message.empty()) {
      const bool names_excesses = message.find("headroom: excesses is '" + text_of(excesses) + "'; it must be ") == 0;
      const bool names_counted = message.find("headroom: counted is " + std::to_string(counted) + "; it must be ") == 0;
      REQUIRE(((names_excesses && bad_excesses) || (names_counted && bad_counted)));
      ++refused;
      continue;
    }
    AmaxLossScale policy = AmaxLossScale::from_state_dict(state);
    REQUIRE(policy.state_dict() == state);
    for (int step = 0; step < 4; ++step) {
      policy = policy.adjust(GradientReport{true, std::ldexp(1.0, 100 * step)});
      const auto [sum, count] = sum_and_count(policy.state_dict());
      REQUIRE(sum <= count);
      REQUIRE(count < 32768);
    }
  }
  CHECK((refused > 100 && refused < 300));
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
