#include <headroom/quantize/rules.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

// Amaxes and scales are compared as bits, and special values are made from bits: see
// support/bits.hpp.

using namespace headroom;
using support::bits_of;
using support::Mismatches;

namespace {

constexpr std::uint32_t inf_bits = 0x7F800000, quiet_nan = 0x7FC00000, max_float = 0x7F7FFFFF;

/// The lines of tests/golden/fp8/`file` without the first one, which is a comment, as streams of
/// words.
std::vector<std::istringstream> golden_lines(const std::string& file) {
  std::ifstream in(std::string(HEADROOM_TEST_DATA_DIR) + "/fp8/" + file);
  std::vector<std::istringstream> lines;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) lines.emplace_back(line);
  if (lines.empty()) throw std::runtime_error("cannot read " + file);
  return lines;
}
template <class T>
T read(std::istream& words) {
  T value{};
  if (!(words >> value)) throw std::runtime_error("a word is missing");
  return value;
}
std::uint32_t read_bits(std::istream& words) {
  return static_cast<std::uint32_t>(std::stoul(read<std::string>(words), nullptr, 16));
}
std::vector<std::uint32_t> read_bits(std::istream& words, std::size_t count) {
  std::vector<std::uint32_t> bits(count);
  for (std::uint32_t& one : bits) one = read_bits(words);
  return bits;
}

/// The bits of the scale after one amax.
template <class Rule>
std::uint32_t scale_of(const Rule& rule, std::uint32_t amax, float fp8_max = 448.0F) {
  auto state = rule.start();
  rule.update(state, support::values_with<float>({amax})[0], fp8_max);
  return bits_of(state.scale);
}
/// The history of TransformerEngine: as long as the window, with zeros if it is not full. The first
/// number is always 0, since the oldest amax leaves a step before it would be overwritten.
std::vector<std::uint32_t> padded_history(const DelayedScaling::State& state, std::size_t size) {
  std::vector<std::uint32_t> bits = bits_of(state.history);
  bits.insert(bits.begin(), size, 0);
  bits.erase(bits.begin(), bits.end() - static_cast<std::ptrdiff_t>(size));
  bits[0] = 0;
  return bits;
}

/// Amaxes between 2^-20 and 2^20; one in eight is special.
std::uint32_t random_amax(std::mt19937& random) {
  constexpr std::uint32_t special[] = {0, inf_bits, quiet_nan, 1, max_float, 0x00400000};
  if (random() % 8 == 0) return special[random() % 6];
  return static_cast<std::uint32_t>((107 + random() % 40) << 23U | (random() & 0x7FFFFF));
}

/// The scale of a window, by the words of the rule.
struct SlowDelayed {
  DelayedScaling rule;
  std::deque<std::uint32_t> window{};
  std::uint32_t scale = 0x3F800000;

  void update(std::uint32_t amax, double fp8_max) {
    if (amax == 0 || (amax >= inf_bits && !rule.record_nonfinite)) return;
    window.push_back(amax);
    while (window.size() > static_cast<std::size_t>(rule.history)) window.pop_front();
    std::uint32_t largest = 0;
    for (const std::uint32_t bits : window)
      largest = bits <= inf_bits ? std::max(largest, bits) : largest;
    const std::uint32_t chosen = rule.amax == Amax::max ? largest : amax;
    if (chosen == 0 || chosen >= inf_bits) return;
    const auto wide = detail::bit_cast<double>(detail::convert_bits<binary32, binary64>(chosen));
    const double quotient = fp8_max * std::ldexp(1.0, -rule.margin) / wide;
    const std::uint32_t rounded = detail::convert_bits<binary64, binary32>(bits_of(quotient));
    scale = std::clamp(rounded, std::uint32_t{0x00800000}, max_float);
  }
};

}  // namespace

TEST_CASE("DelayedScaling equals TransformerEngine, its history included") {
  for (std::istringstream& words : golden_lines("te_delayed.txt")) {
    DelayedScaling rule;
    rule.amax = read<std::string>(words) == "max" ? Amax::max : Amax::most_recent;
    rule.margin = read<int>(words);
    rule.record_nonfinite = true;
    const auto fp8_max = read<float>(words);
    rule.history = read<int>(words);
    const auto steps = read<std::size_t>(words);
    const auto amaxes = support::values_with<float>(read_bits(words, steps));
    REQUIRE(read<std::string>(words) == "|");
    const auto scales = read_bits(words, steps);
    REQUIRE(read<std::string>(words) == "|");
    const auto history = read_bits(words, static_cast<std::size_t>(rule.history));
    INFO(words.str());
    auto state = rule.start();
    for (std::size_t step = 0; step < steps; ++step) {
      rule.update(state, amaxes[step], fp8_max);
      INFO("step " << step);
      REQUIRE(bits_of(state.scale) == scales[step]);
    }
    CHECK(padded_history(state, history.size()) == history);
  }
}

TEST_CASE("CurrentScaling equals TransformerEngine, and TorchaoScaling equals torchao") {
  Mismatches wrong;
  for (const std::string file : {"te_current.txt", "torchao_scales.txt"}) {
    for (std::istringstream& words : golden_lines(file)) {
      const auto fp8_max = read<float>(words);
      const float epsilon = file == "te_current.txt" ? read<float>(words) : 0.0F;
      const bool power_of_two = read<int>(words) != 0;
      const std::uint32_t amax = read_bits(words), scale = read_bits(words);
      const std::uint32_t found =
          file == "te_current.txt" ? scale_of(CurrentScaling{epsilon, power_of_two}, amax, fp8_max)
                                   : scale_of(TorchaoScaling{power_of_two}, amax, fp8_max);
      wrong.expect(found == scale, [&] { return words.str(); });
    }
  }
  CHECK(wrong.first() == "");
}

TEST_CASE(
    "DelayedScaling equals a slow window, also across a checkpoint, which keeps the newest "
    "amaxes") {
  std::mt19937 random(1);
  Mismatches wrong;
  for (int run = 0; run < 300; ++run) {
    DelayedScaling rule;
    rule.history = run % 3 == 0 ? 1 + run / 3 : 1 + static_cast<int>(random() % 12);
    rule.amax = random() % 3 == 0 ? Amax::most_recent : Amax::max;
    rule.margin = static_cast<int>(random() % 129) - 64;
    rule.record_nonfinite = random() % 2 == 0;
    const float fp8_max = random() % 2 == 0 ? 448.0F : 57344.0F;
    SlowDelayed slow{rule};
    auto state = rule.start();
    for (int step = 0; step < 120; ++step) {
      const auto amax = support::values_with<float>({random_amax(random)});
      rule.update(state, amax[0], fp8_max);
      slow.update(bits_of(amax[0]), static_cast<double>(fp8_max));
      const std::vector<std::uint32_t> window(slow.window.begin(), slow.window.end());
      const bool same = bits_of(state.scale) == slow.scale && bits_of(state.history) == window;
      wrong.expect(same,
                   [&] { return "run " + std::to_string(run) + ", step " + std::to_string(step); });
      if (random() % 16 != 0) continue;
      if (rule.history > 1) rule.history -= static_cast<int>(random() % 2);
      slow.rule = rule;
    }
  }
  CHECK(wrong.first() == "");
}

TEST_CASE("DelayedScaling: an amax of 0, and by default of Inf and NaN, changes nothing") {
  DelayedScaling rule;
  rule.history = 3;
  auto state = rule.start();
  rule.update(state, 7.0F, 448.0F);
  for (const float& amax : support::values_with<float>({0, inf_bits, quiet_nan, 0x80000000})) {
    rule.update(state, amax, 448.0F);
    CHECK(bits_of(state.scale) == bits_of(64.0F));
    CHECK(bits_of(state.history) == bits_of(std::vector<float>{7.0F}));
  }
  // Otherwise an Inf keeps the scale until it has left the history.
  rule.record_nonfinite = true;
  const auto amaxes =
      support::values_with<float>({inf_bits, bits_of(1.0F), bits_of(1.0F), bits_of(1.0F)});
  for (const float& amax : amaxes) {
    CHECK(state.scale == 64.0F);
    rule.update(state, amax, 448.0F);
  }
  CHECK(state.scale == 448.0F);
}

TEST_CASE(
    "DelayedScaling: the margin divides the scale by a power of two, and a quotient beyond float "
    "is the largest float") {
  DelayedScaling rule;
  for (rule.margin = -64; rule.margin <= 64; ++rule.margin) {
    CHECK(scale_of(rule, bits_of(7.0F)) == bits_of(std::ldexp(64.0F, -rule.margin)));
  }
  rule.margin = 0;
  CHECK(scale_of(rule, 1) == max_float);
  CHECK(scale_of(rule, 0x00800000) == max_float);
  rule.margin = 60;
  // Subnormal amaxes count, also with flush-to-zero
  CHECK(scale_of(rule, 1) == bits_of(std::ldexp(448.0F, 149 - 60)));
}

TEST_CASE("the scale is the correctly rounded quotient") {
  std::mt19937 random(2);
  Mismatches wrong;
  for (int i = 0; i < 20000; ++i) {
    const auto amax =
        static_cast<std::uint32_t>((40 + random() % 180) << 23U | (random() & 0x7FFFFF));
    for (const double fp8_max : {448.0, 57344.0}) {
      // Of the quotient's neighbours none is nearer. The errors are exact in long double.
      const std::uint32_t scale = scale_of(CurrentScaling(), amax, static_cast<float>(fp8_max));
      const auto error = [&](std::uint32_t bits) {
        const auto factors = support::values_with<float>({bits, amax});
        return std::fabs(static_cast<long double>(factors[0]) *
                             static_cast<long double>(factors[1]) -
                         static_cast<long double>(fp8_max));
      };
      const bool nearest = error(scale) <= error(scale + 1) && error(scale) <= error(scale - 1);
      wrong.expect(nearest &&
                       scale_of(DelayedScaling(), amax, static_cast<float>(fp8_max)) == scale &&
                       scale_of(CurrentScaling{0.0F, true}, amax, static_cast<float>(fp8_max)) ==
                           (scale & 0xFF800000),
                   [&] { return support::hex(amax); });
    }
  }
  CHECK(wrong.first() == "");
}

TEST_CASE(
    "DelayedScaling::rescale moves amaxes and scale, by powers of two exactly and within float") {
  std::mt19937 random(3);
  DelayedScaling rule;
  rule.history = 8;
  for (int run = 0; run < 200; ++run) {
    const int exponent = static_cast<int>(random() % 41) - 20;
    auto state = rule.start(), larger = rule.start();
    for (int step = 0; step < 12; ++step) {
      const float amax = std::ldexp(1.0F + static_cast<float>(random() % 1000) / 1000.0F,
                                    static_cast<int>(random() % 40) - 20);
      rule.update(state, amax, 448.0F);
      rule.update(larger, std::ldexp(amax, exponent), 448.0F);
    }
    rule.rescale(state, std::ldexp(1.0F, exponent));
    CHECK(bits_of(state.scale) == bits_of(larger.scale));
    CHECK(bits_of(state.history) == bits_of(larger.history));
  }
  const auto rescaled = [&rule](float scale, std::uint32_t amax, float ratio) {
    DelayedScaling::State state{scale, support::values_with<float>({amax})};
    rule.rescale(state, ratio);
    return std::vector<std::uint32_t>{bits_of(state.scale), bits_of(state.history[0])};
  };
  using Bits = std::vector<std::uint32_t>;
  CHECK(rescaled(3.0F, bits_of(1.0F), 3.0F) == Bits{bits_of(1.0F), bits_of(3.0F)});
  CHECK(rescaled(1.0F, bits_of(0x1p100F), 0x1p100F) == Bits{bits_of(0x1p-100F), max_float});
  CHECK(rescaled(0x1p100F, bits_of(0x1p-100F), 0x1p-100F) == Bits{max_float, 0});
  CHECK(rescaled(0x1p-100F, inf_bits, 0x1p100F) == Bits{bits_of(0x1p-126F), inf_bits});
  CHECK(rescaled(1.0F, quiet_nan, 2.0F) == Bits{bits_of(0.5F), quiet_nan});
}

TEST_CASE("rules: the error for a bad setting names it and its value") {
  const auto delayed = [](int history, int margin) {
    return MESSAGE_OF(DelayedScaling{history, Amax::max, margin}.check());
  };
  CHECK(delayed(0, 0) == "headroom: history is 0; it must be in [1, 2^20]");
  CHECK(delayed((1 << 20) + 1, 0) == "headroom: history is 1048577; it must be in [1, 2^20]");
  CHECK(delayed(1, 65) == "headroom: margin is 65; it must be in [-64, 64]");
  CHECK(delayed(1, -65) == "headroom: margin is -65; it must be in [-64, 64]");
  CHECK((delayed(1, -64) + delayed(1 << 20, 64)).empty());
  const std::pair<std::uint32_t, const char*> epsilons[] = {
      {bits_of(-1.0F), "-1"}, {inf_bits, "inf"}, {quiet_nan, "nan"}, {0, ""},
      {max_float, ""},        {0x80000000, ""}};
  for (const auto& [bits, text] : epsilons) {
    CurrentScaling rule;
    support::set_bits(rule.epsilon, bits);
    const std::string expected =
        "headroom: epsilon is " + std::string(text) + "; it must be finite and at least 0";
    CHECK(MESSAGE_OF(rule.check()) == (*text == '\0' ? "" : expected));
  }
  CHECK(scale_of(CurrentScaling{-0.0F}, bits_of(7.0F)) == bits_of(64.0F));
  TorchaoScaling().check();
  static_assert(!DelayedScaling::is_current && CurrentScaling::is_current &&
                TorchaoScaling::is_current);
}
