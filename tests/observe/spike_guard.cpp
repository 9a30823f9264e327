#include <headroom/observe/spike_guard.hpp>
#include <headroom/state/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace headroom;
using support::with_bits;

namespace {

const std::uint64_t not_numbers[] = {
    headroom::binary64::infinity_bits, headroom::binary64::quiet_nan_bits,
    headroom::binary64::infinity_bits | headroom::binary64::sign_mask};

/// The two rules as their systems define them, in long double over all values so far. If the result
/// is above 0, the value is a spike. The distance from 0 says how far the value is from the
/// threshold.
long double excess(const std::vector<double>& before, double value, const SpikeGuard& guard) {
  const auto window = static_cast<std::size_t>(guard.window());
  const bool is_llm_c = guard.rule() == SpikeRule::llm_c;
  if (before.size() < (is_llm_c ? window : std::max<std::size_t>(2, window / 2) - 1)) return -1.0L;
  std::vector<double> sample(
      before.end() - static_cast<std::ptrdiff_t>(std::min(window, before.size())), before.end());
  if (is_llm_c) {
    sample.erase(sample.begin());
    sample.push_back(value);
  }
  long double mean = 0.0L, squares = 0.0L;
  for (const double each : sample)
    mean += static_cast<long double>(each) / static_cast<long double>(sample.size());
  for (const double each : sample)
    squares += (static_cast<long double>(each) - mean) * (static_cast<long double>(each) - mean);
  const long double std =
      std::sqrt(squares / static_cast<long double>(sample.size() - (is_llm_c ? 0 : 1)));
  return (static_cast<long double>(value) - mean - static_cast<long double>(guard.sigmas()) * std) /
         std::fabs(static_cast<long double>(value));
}

}  // namespace

TEST_CASE("each rule skips the same steps as its system") {
  // Computed with Python's statistics.stdev and pstdev over the systems' windows.
  const std::vector<std::pair<SpikeGuard, std::vector<int>>> cases = {
      {SpikeGuard(128, 6.0),
       {264, 317, 370, 529, 582, 635, 688, 741, 953, 1059, 1112, 1324, 1377, 1430, 1483}},
      {SpikeGuard(128, 3.0), {105, 158, 211,  264,  317,  370,  529,  582,  635,  688, 741,
                              900, 953, 1006, 1059, 1112, 1271, 1324, 1377, 1430, 1483}},
      {SpikeGuard(20, 4.0), {158, 264, 317,  370,  529,  582,  635,  688,  741,  847,
                             900, 953, 1006, 1059, 1112, 1271, 1324, 1377, 1430, 1483}},
      {SpikeGuard(128, 7.0, SpikeRule::llm_c), {370, 741, 1377}},
      {SpikeGuard(128, 3.0, SpikeRule::llm_c),
       {158, 211, 264,  317,  370,  529,  582,  635,  688,  741,
        900, 953, 1006, 1059, 1112, 1271, 1324, 1377, 1430, 1483}},
      {SpikeGuard(20, 4.0, SpikeRule::llm_c),
       {264, 317, 370, 635, 688, 741, 953, 1059, 1112, 1324, 1377, 1430, 1483}}};
  for (auto [guard, expected] : cases) {
    std::vector<int> skipped;
    std::uint32_t x = 1;
    for (int i = 0; i < 1500; ++i) {
      x = (1103515245U * x + 12345U) % (1U << 31U);
      double value = 1.0 + (x >> 16U) % 1024U / 4096.0;
      if (i % 53 == 52) value *= 1.0 + i / 53 % 7 / 4.0;
      if (i % 200 >= 190) value -= 0.5;
      if (guard.is_spike(value)) skipped.push_back(i);
      guard = guard.adjust(value);
    }
    CHECK(skipped == expected);
  }
}

TEST_CASE("the rules equal a slow reference over all values so far") {
  std::mt19937 random(support::seed);
  int spikes = 0;
  for (int run = 0; run < support::cases(60); ++run) {
    const std::int64_t window = 8 + static_cast<std::int64_t>(random() % 60);
    const SpikeRule rule = random() % 2 == 0 ? SpikeRule::llm_c : SpikeRule::olmo_core;
    SpikeGuard guard(window, 0.5 + static_cast<double>(random() % 200) * 0.01, rule);
    const int exponent = static_cast<int>(random() % 600) - 300;
    const double offset = random() % 2 == 0 ? 0.0 : static_cast<double>(random() % 3) - 1.0;
    std::vector<double> before;
    for (int step = 0; step < 200; ++step) {
      double value =
          offset + static_cast<double>(random() % 1000) * (random() % 3 == 0 ? 1e-9 : 1e-3);
      if (random() % 20 == 0) value *= std::ldexp(1.0, static_cast<int>(random() % 60));
      value = std::ldexp(value, exponent);
      const long double expected = excess(before, value, guard);
      if (std::fabs(expected) > 1e-12L) {
        REQUIRE(guard.is_spike(value) == (expected > 0.0L));
        spikes += expected > 0.0L ? 1 : 0;
      }
      before.push_back(value);
      guard = guard.adjust(value);
      REQUIRE(guard.values().size() == std::min(before.size(), static_cast<std::size_t>(window)));
    }
  }
  CHECK(spikes > support::cases(60));
}

TEST_CASE("equal values have no deviation") {
  for (const SpikeRule rule : {SpikeRule::olmo_core, SpikeRule::llm_c}) {
    SpikeGuard equal(16, 1e-3, rule);
    for (int step = 0; step < 200; ++step) equal = equal.adjust(0.1);
    CHECK_FALSE(equal.is_spike(0.1));
    CHECK(equal.is_spike(std::nextafter(0.1, 1.0)));
    CHECK_FALSE(equal.is_spike(-1e150));
  }
}

namespace {
/// The norms of a course: see evidence/courses/README.md.
std::vector<double> norms_of(const std::string& name) {
  std::ifstream file(HEADROOM_TEST_DATA_DIR "/../../evidence/courses/" + name + ".csv");
  std::vector<double> norms;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) norms.push_back(std::stod(line.substr(line.find(',') + 1)));
  return norms;
}
}  // namespace

TEST_CASE("extremes passes over healthy trainings, and notices norms times 100") {
  for (const char* name : {"cnn", "cnn_b8", "gpt", "lstm", "mlp_b4", "reinforce"}) {
    CAPTURE(name);
    const std::vector<double> norms = norms_of(name);
    REQUIRE(norms.size() >= 3000);
    SpikeGuard guard;
    double largest = 0.0;
    std::size_t flagged = 0, larger = 0, noticed = 0;
    for (std::size_t i = 0; i < norms.size(); ++i) {
      flagged += guard.is_spike(norms[i]) ? 1U : 0U;
      if (i >= 64 && 100.0 * norms[i] > largest) {
        ++larger;
        noticed += guard.is_spike(100.0 * norms[i]) ? 1U : 0U;
      }
      largest = std::max(largest, norms[i]);
      guard = guard.adjust(norms[i]);
    }
    CHECK(flagged * 2000 <= norms.size());
    CHECK(noticed * 10 >= larger * 9);
  }
}

TEST_CASE("extremes flags no more than the first values of a new level") {
  std::mt19937 random(support::seed);
  const auto noise = [&] { return 1.0 + static_cast<double>(random() % 1000) * 1e-3; };
  SpikeGuard guard;
  CHECK_FALSE(guard.is_spike(1e9));
  for (int i = 0; i < 64; ++i) {
    CHECK_FALSE(guard.is_spike(1e9));
    guard = guard.adjust(noise());
  }
  CHECK(guard.is_spike(10.0));
  CHECK_FALSE(guard.is_spike(2.2));
  int flagged = 0;
  for (int i = 0; i < 2000; ++i) {
    const double value = 100.0 * noise();
    flagged += guard.is_spike(value) ? 1 : 0;
    guard = guard.adjust(value);
  }
  CHECK(flagged == 1);
  CHECK(guard.is_spike(1000.0));
  // Below an old level nothing is a spike until the window has passed it.
  for (int i = 0; i < 2000; ++i) {
    CHECK(guard.is_spike(10.0) == (i >= 1536));
    guard = guard.adjust(noise());
  }
  SpikeGuard ties;
  for (int i = 0; i < 64; ++i) ties = ties.adjust(1.0);
  CHECK_FALSE(ties.is_spike(1.25));
  CHECK(ties.is_spike(1.26));
  SpikeGuard zeros(8);
  for (int i = 0; i < 10; ++i) zeros = zeros.adjust(0.0);
  CHECK_FALSE(zeros.is_spike(0.0));
  CHECK_FALSE(zeros.is_spike(1.0));
}

TEST_CASE("Inf and NaN are always spikes, and never enter the window") {
  SpikeGuard guard(8);
  for (int i = 0; i < 12; ++i) guard = guard.adjust(1.0 + i % 3);
  for (const std::uint64_t bits : not_numbers) {
    CHECK(guard.is_spike(with_bits(bits)));
    CHECK(SpikeGuard().is_spike(with_bits(bits)));
    CHECK(guard.adjust(with_bits(bits)) == guard);
  }
}

TEST_CASE("errors for settings out of range name the setting") {
  CHECK(SpikeGuard() == SpikeGuard(1536));
  CHECK(SpikeGuard(128, 6.0) == SpikeGuard(128, 6.0, SpikeRule::olmo_core));
  CHECK_INVALID("SpikeRule::extremes has no sigmas", SpikeGuard(128, 6.0, SpikeRule::extremes));
  CHECK_INVALID("window is 7; it must be in [8, 65536]", SpikeGuard(7));
  CHECK_INVALID("window is 65537", SpikeGuard(65537));
  for (const double sigmas :
       {0.0, -1.0, 1.1e6, with_bits(not_numbers[0]), with_bits(not_numbers[1])}) {
    CHECK_INVALID("sigmas is ", SpikeGuard(128, sigmas));
    CHECK_INVALID("sigmas is ", SpikeGuard(128, sigmas, SpikeRule::llm_c));
  }
}

TEST_CASE("a guard continues from its state, and bad states are refused") {
  std::mt19937 random(support::seed);
  SpikeGuard guard(9, 0.1 + 0.2, SpikeRule::llm_c);
  for (int step = 0; step < 30; ++step) {
    REQUIRE(SpikeGuard::from_state_dict(
                headroom::from_text(headroom::to_text(guard.state_dict()))) == guard);
    const SpikeGuard next = guard.adjust(
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 800) - 400));
    REQUIRE(next != guard);
    guard = next;
  }
  CHECK(SpikeGuard(9) != SpikeGuard(9, 7.0));
  CHECK(SpikeGuard(9, 6.0) != SpikeGuard(9, 6.0, SpikeRule::llm_c));
  const auto refused = [&](const char* key, const StateValue& value) {
    StateDict dict = guard.state_dict();
    dict.set(key, value);
    return support::message_of([&] { (void)SpikeGuard::from_state_dict(dict); });
  };
  CHECK_THAT(refused("window", 8),
             ContainsSubstring("values has more than the 8 numbers of the window"));
  CHECK_THAT(refused("window", 1), ContainsSubstring("window is 1"));
  CHECK_THAT(refused("sigmas", with_bits(not_numbers[1])), ContainsSubstring("sigmas is nan"));
  CHECK_THAT(refused("sigmas", 0.0), ContainsSubstring("llm_c is true, and sigmas is 0"));
  CHECK_THAT(refused("values", 1.0), ContainsSubstring("values is 1"));
  CHECK_THAT(refused("values", std::vector<double>{1.0, with_bits(not_numbers[0])}),
             ContainsSubstring("values is inf"));
  CHECK_THAT(refused("policy", "dynamic"), ContainsSubstring("policy is"));
  CHECK_THAT(refused("more", 1), ContainsSubstring("the key 'more' is unknown"));
}
