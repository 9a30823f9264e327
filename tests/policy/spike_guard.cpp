#include <headroom/policy/spike_guard.hpp>
#include <headroom/state/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::SpikeGuard;
using headroom::SpikeRule;
using support::message_of;

namespace {

const std::uint64_t not_numbers[] = {headroom::binary64::infinity_bits, headroom::binary64::quiet_nan_bits,
                                     headroom::binary64::infinity_bits + 1,
                                     headroom::binary64::infinity_bits | headroom::binary64::sign_mask};
double from_bits(std::uint64_t bits) {
  double value = 0.0;
  support::set_bits(value, bits);
  return value;
}

/// The two rules as their systems write them, over everything so far and in long double: above 0 the value is a spike, and the
/// larger, the clearer.
long double excess(const std::vector<double>& before, double value, const SpikeGuard& guard) {
  const auto window = static_cast<std::size_t>(guard.window());
  const bool is_llm_c = guard.rule() == SpikeRule::llm_c;
  if (before.size() < (is_llm_c ? window : std::max<std::size_t>(2, window / 2) - 1)) return -1.0L;
  std::vector<double> sample(before.end() - static_cast<std::ptrdiff_t>(std::min(window, before.size())), before.end());
  if (is_llm_c) {
    sample.erase(sample.begin());
    sample.push_back(value);
  }
  long double mean = 0.0L, squares = 0.0L;
  for (const double each : sample) mean += static_cast<long double>(each) / static_cast<long double>(sample.size());
  for (const double each : sample) squares += (static_cast<long double>(each) - mean) * (static_cast<long double>(each) - mean);
  const long double std = std::sqrt(squares / static_cast<long double>(sample.size() - (is_llm_c ? 0 : 1)));
  return (static_cast<long double>(value) - mean - static_cast<long double>(guard.sigmas()) * std) /
         std::fabs(static_cast<long double>(value));
}

float ordinary(int step) { return 1.0F + static_cast<float>(step * 7 % 16) / 64.0F; }

}  // namespace

TEST_CASE("each rule skips where its system would") {
  // As Python's statistics.stdev and pstdev say over the windows that the systems have.
  struct Case {
    SpikeRule rule;
    std::int64_t window;
    double sigmas;
    std::vector<int> skipped;
  };
  const std::vector<Case> cases = {
      {SpikeRule::olmo_core, 128, 6.0, {264, 317, 370, 529, 582, 635, 688, 741, 953, 1059, 1112, 1324, 1377, 1430, 1483}},
      {SpikeRule::olmo_core, 128, 3.0, {105, 158, 211,  264,  317,  370,  529,  582,  635,  688, 741,
                                        900, 953, 1006, 1059, 1112, 1271, 1324, 1377, 1430, 1483}},
      {SpikeRule::olmo_core, 20, 4.0, {158, 264, 317,  370,  529,  582,  635,  688,  741,  847,
                                       900, 953, 1006, 1059, 1112, 1271, 1324, 1377, 1430, 1483}},
      {SpikeRule::llm_c, 128, 7.0, {370, 741, 1377}},
      {SpikeRule::llm_c, 128, 3.0, {158, 211, 264,  317,  370,  529,  582,  635,  688,  741,
                                    900, 953, 1006, 1059, 1112, 1271, 1324, 1377, 1430, 1483}},
      {SpikeRule::llm_c, 20, 4.0, {264, 317, 370, 635, 688, 741, 953, 1059, 1112, 1324, 1377, 1430, 1483}}};
  for (const Case& each : cases) {
    SpikeGuard guard(each.window, each.sigmas, each.rule);
    std::vector<int> skipped;
    std::uint32_t x = 1;
    for (int i = 0; i < 1500; ++i) {
      x = (1103515245U * x + 12345U) % (1U << 31U);
      double value = 1.0 + (x >> 16U) % 1024U / 4096.0;
      if (i % 53 == 52) value *= 1.0 + i / 53 % 7 / 4.0;
      if (i % 200 >= 190) value -= 0.5;
      if (guard.is_spike(value)) skipped.push_back(i);
      guard = std::move(guard).adjust(value);
    }
    CHECK(skipped == each.skipped);
  }
}

TEST_CASE("the rules, against a slow reference over all values so far") {
  std::mt19937 random(support::seed);
  int spikes = 0;
  for (int run = 0; run < support::cases(60); ++run) {
    const std::int64_t window = 8 + static_cast<std::int64_t>(random() % 60);
    const SpikeRule rule = random() % 2 == 0 ? SpikeRule::llm_c : SpikeRule::olmo_core;
    SpikeGuard guard(window, 0.5 + static_cast<double>(random() % 200) * 0.01, rule);
    const int exponent = static_cast<int>(random() % 1900) - 950;
    const double offset = random() % 2 == 0 ? 0.0 : static_cast<double>(random() % 3) - 1.0;
    std::vector<double> before;
    for (int step = 0; step < 200; ++step) {
      double value = offset + static_cast<double>(random() % 1000) * (random() % 3 == 0 ? 1e-9 : 1e-3);
      if (random() % 20 == 0) value *= std::ldexp(1.0, static_cast<int>(random() % 60));
      value = std::ldexp(value, exponent);
      const long double expected = excess(before, value, guard);
      if (std::fabs(expected) > 1e-12L) {
        REQUIRE(guard.is_spike(value) == (expected > 0.0L));
        spikes += expected > 0.0L ? 1 : 0;
      }
      before.push_back(value);
      guard = std::move(guard).adjust(value);
      REQUIRE(guard.values().size() == std::min(before.size(), static_cast<std::size_t>(window)));
    }
  }
  CHECK(spikes > support::cases(60));
}

TEST_CASE("z-scores have no unit, equal values no deviation, and nothing drifts") {
  std::mt19937 random(support::seed);
  for (const SpikeRule rule : {SpikeRule::olmo_core, SpikeRule::llm_c}) {
    SpikeGuard guard(16, 2.0, rule), tiny = guard, large = guard;
    for (int step = 0; step < 20000; ++step) {
      const double value = 1.0 + static_cast<double>(random() % 4096) * 0x1p-12;
      const bool is_spike = guard.is_spike(value);
      REQUIRE(tiny.is_spike(value * 0x1p-1000) == is_spike);
      REQUIRE(large.is_spike(value * 0x1p1022) == is_spike);
      guard = std::move(guard).adjust(value);
      tiny = std::move(tiny).adjust(value * 0x1p-1000);
      large = std::move(large).adjust(value * 0x1p1022);
    }
    SpikeGuard fresh(16, 2.0, rule);
    for (const double value : guard.values()) fresh = std::move(fresh).adjust(value);
    CHECK(fresh == guard);

    SpikeGuard equal(16, 1e-3, rule);
    for (int i = 0; i < 40; ++i) equal = equal.adjust(0.1);
    CHECK_FALSE(equal.is_spike(0.1));
    CHECK(equal.is_spike(std::nextafter(0.1, 1.0)));
    CHECK_FALSE(equal.is_spike(std::nextafter(0.1, 0.0)));
    CHECK_FALSE(equal.is_spike(-1e300));
    CHECK_FALSE(SpikeGuard(8, 2.0, rule).is_spike(1e300));  // nothing to compare with
  }
}

TEST_CASE("a spike counts from the step on that each system begins with") {
  for (const auto& [rule, first] : {std::pair{SpikeRule::olmo_core, 63}, std::pair{SpikeRule::llm_c, 128}}) {
    SpikeGuard guard(128, 6.0, rule);
    for (int step = 0; step < 200; ++step) {
      REQUIRE(guard.is_spike(1000.0) == (step >= first));
      guard = std::move(guard).adjust(static_cast<double>(ordinary(step)));
    }
  }
}

TEST_CASE("Inf and NaN are spikes at once, and never enter the window") {
  SpikeGuard guard(8);
  for (int i = 0; i < 12; ++i) guard = guard.adjust(1.0 + i % 3);
  const SpikeGuard before = guard;
  for (const std::uint64_t bits : not_numbers) {
    CHECK(guard.is_spike(from_bits(bits)));
    CHECK(SpikeGuard().is_spike(from_bits(bits)));
    guard = std::move(guard).adjust(from_bits(bits));
    guard = guard.adjust(from_bits(bits));
  }
  CHECK(guard == before);
  CHECK(guard.state_digest() == before.state_digest());
  for (const double value : {1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 0.0}) guard = guard.adjust(value);
  CHECK_FALSE(guard.is_spike(1.0));
}

TEST_CASE("settings out of range are errors that name the field") {
  CHECK_THAT(message_of([] { (void)SpikeGuard(7); }), ContainsSubstring("window is 7; it must be in [8, 65536]"));
  CHECK_THAT(message_of([] { (void)SpikeGuard(65537); }), ContainsSubstring("window is 65537"));
  for (const double sigmas : {0.0, -1.0, 1.1e6}) {
    CHECK_THAT(message_of([&] { (void)SpikeGuard(128, sigmas); }), ContainsSubstring("sigmas is "));
  }
  for (const std::uint64_t bits : not_numbers) {
    CHECK_THAT(message_of([&] { (void)SpikeGuard(128, from_bits(bits)); }), ContainsSubstring("sigmas is "));
  }
  CHECK_THAT(message_of([] { (void)SpikeGuard(17, 4.0, SpikeRule::llm_c); }),
             ContainsSubstring("sigmas is 4; it must be below sqrt(window - 1)"));
  for (const int rule : {-1, 2, 5}) {
    CHECK_THAT(message_of([&] { (void)SpikeGuard(128, 6.0, static_cast<SpikeRule>(rule)); }),
               ContainsSubstring("rule is " + std::to_string(rule) + "; it must be"));
  }
  static_assert(std::is_constructible_v<SpikeGuard, int, float> && std::is_constructible_v<SpikeGuard, std::size_t, int>);
  static_assert(!std::is_constructible_v<SpikeGuard, double, int> && !std::is_constructible_v<SpikeGuard, float> &&
                !std::is_constructible_v<SpikeGuard, bool>);  // sigmas before the window, or something else
  static_assert(!std::is_constructible_v<SpikeGuard, int, SpikeRule>);
  CHECK(SpikeGuard(18, 4.0, SpikeRule::llm_c).window() == 18);
  CHECK(SpikeGuard(8, 1e6).sigmas() == 1e6);
}

TEST_CASE("a state has everything, and a bad one is refused") {
  std::mt19937 random(support::seed);
  SpikeGuard guard(9, 0.1 + 0.2, SpikeRule::llm_c);
  for (int step = 0; step < 30; ++step) {
    const SpikeGuard loaded = SpikeGuard::from_state_dict(headroom::from_text(headroom::to_text(guard.state_dict())));
    REQUIRE(loaded == guard);
    REQUIRE(loaded.state_digest() == guard.state_digest());
    REQUIRE(loaded.state_dict() == guard.state_dict());
    const SpikeGuard next = guard.adjust(std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 2000) - 1000));
    REQUIRE(next != guard);
    REQUIRE(next.state_digest() != guard.state_digest());
    guard = next;
  }
  CHECK(SpikeGuard(9).adjust(0.0) == SpikeGuard(9).adjust(-0.0));
  CHECK(SpikeGuard(9).adjust(0.0).state_digest() == SpikeGuard(9).adjust(-0.0).state_digest());
  CHECK(SpikeGuard(9).state_digest() != SpikeGuard(9, 7.0).state_digest());

  const auto refused = [&](const char* key, const headroom::StateValue& value) {
    headroom::StateDict dict = guard.state_dict();
    dict.set(key, value);
    return message_of([&] { (void)SpikeGuard::from_state_dict(dict); });
  };
  CHECK_THAT(refused("rule", "olmo"), ContainsSubstring("rule is \"olmo\"; it must be 'olmo_core' or 'llm_c'"));
  CHECK_THAT(refused("rule", 1), ContainsSubstring("rule is 1"));
  CHECK_THAT(refused("window", 1), ContainsSubstring("window is 1"));
  CHECK_THAT(refused("window", std::numeric_limits<std::int64_t>::max()), ContainsSubstring("window is 9223372036854775807"));
  CHECK_THAT(refused("sigmas", 3.0), ContainsSubstring("sigmas is 3; it must be below sqrt"));
  CHECK_THAT(refused("sigmas", from_bits(not_numbers[1])), ContainsSubstring("sigmas is nan"));
  CHECK_THAT(refused("policy", "dynamic"), ContainsSubstring("policy is \"dynamic\""));
  CHECK_THAT(refused("more", 1), ContainsSubstring("the key 'more' is unknown"));
  headroom::StateDict dict = guard.state_dict();
  (void)dict.erase("values");
  CHECK_THAT(message_of([&] { (void)SpikeGuard::from_state_dict(dict); }), ContainsSubstring("'values' is missing"));
}

TEST_CASE("a guard is shown a value of its own") {
  for (const int before : {3, 8, 9}) {
    headroom::SpikeGuard guard(8, 3.0);
    for (int i = 0; i < before; ++i) guard = std::move(guard).adjust(1.0 + i);
    headroom::SpikeGuard copy = guard;
    copy = std::move(copy).adjust(copy.values()[0]);
    CHECK(copy == guard.adjust(double{guard.values()[0]}));
    CHECK(copy.values().back() == guard.values()[0]);
  }
}
