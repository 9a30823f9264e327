#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/mindformers.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/follow.hpp"
#include "support/systems.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::AdaptiveWindowConfig;
using headroom::import_state;
using headroom::StateDict;
using headroom::detail::AdaptiveWindows;
using support::after;
using support::message_of;
using support::pick;
namespace presets = headroom::presets;

namespace {

/// _get_window_list, statement by statement.
std::vector<std::int32_t> window_list(double max_scale_window, double min_scale_window) {
  std::vector<std::int32_t> list = {static_cast<std::int32_t>(max_scale_window)};
  while (max_scale_window > min_scale_window) {
    if (max_scale_window > 100) {
      max_scale_window = std::floor(systems::divided(max_scale_window / 2, 100.0)) * 100;
    } else if (max_scale_window == 100) {
      max_scale_window = max_scale_window / 2;
    } else {
      max_scale_window = max_scale_window - min_scale_window / 2;
    }
    list.push_back(static_cast<std::int32_t>(max_scale_window));
  }
  return {list.rbegin(), list.rend()};
}
AdaptiveWindows windows(std::int32_t largest, std::int32_t smallest) { return AdaptiveWindows({{}, largest, smallest}); }

systems::MindFormers system(double scale, double factor, std::int64_t window, std::int32_t largest, std::int32_t smallest) {
  systems::MindFormers result{static_cast<float>(scale), static_cast<float>(factor), window_list(largest, smallest), 0};
  for (std::size_t index = result.window_list.size(); index > 0; --index) {
    if (result.window_list[index - 1] == window) result.list_index = static_cast<std::int32_t>(index - 1);
  }
  result.scale_window = result.window_list[static_cast<std::size_t>(result.list_index)];
  return result;
}
StateDict state_of(const systems::MindFormers& system) {
  return {{"scale_sense", system.scale},
          {"scale_window", system.scale_window},
          {"list_index", system.list_index},
          {"scale_window_up_count", system.up_count},
          {"scale_window_down_count", system.down_count},
          {"current_iterator_step", system.cur_iter},
          {"last_overflow_iterator_step", system.last_overflow_iter}};
}

}  // namespace

TEST_CASE("mindformers: its recorded sequences are followed") {
  CHECK(support::follow("mindformers_adaptive.trace", [](support::Arguments get) {
          return presets::mindformers_adaptive(
              get("initial_scale", 65536.0), get("factor", 2.0), get.whole("growth_interval", 20),
              static_cast<std::int32_t>(get.whole("max_window", 1000)), static_cast<std::int32_t>(get.whole("min_window", 20)));
        }) == 4);
}

TEST_CASE("mindformers is followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::runs; ++run) {
    const double start = std::ldexp(pick(random, {1.0, 1.25, 1.1, 3.0}), static_cast<int>(random() % 40));
    const double factor = pick(random, {2.0, 3.0, 1.5});
    const auto smallest = static_cast<std::int32_t>(1 + random() % 8);
    const auto largest = smallest + static_cast<std::int32_t>(random() % (run % 2 == 0 ? 10 : 300));
    const auto list = window_list(largest, smallest);
    const std::int64_t window = random() % 4 == 0 ? support::pick_interval(random) : list[random() % list.size()];
    CHECK(support::first_difference(presets::mindformers_adaptive(start, factor, window < 1 ? 1 : window, largest, smallest),
                                    system(start, factor, window < 1 ? 1 : window, largest, smallest), random, false,
                                    1000) == "");
  }
}

TEST_CASE("mindformers: the list of windows is its own, for any two bounds") {
  const auto is_list = [](std::int32_t largest, std::int32_t smallest) {
    const auto list = window_list(largest, smallest);
    const AdaptiveWindows ours = windows(largest, smallest);
    bool same = ours.size() == static_cast<std::int32_t>(list.size());
    for (std::int32_t level = 1; same && level <= ours.size(); ++level) {
      same = ours.at(level) == list[static_cast<std::size_t>(level - 1)];
    }
    return same;
  };
  CHECK(window_list(1000, 20) == std::vector<std::int32_t>{20, 30, 40, 50, 100, 200, 500, 1000});
  for (std::int32_t largest = 1; largest < 260; largest += largest < 60 ? 1 : 7) {
    for (std::int32_t smallest = 1; smallest <= largest; smallest += 1 + smallest / 5) REQUIRE(is_list(largest, smallest));
  }
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  for (const std::int32_t largest : {600, 1000, 1100, 20000, 1 << 20, most}) {
    for (const std::int32_t smallest : {1, 20, 50, 99, 100, 150}) REQUIRE(is_list(largest, smallest));
  }
  for (std::int32_t largest = 1; largest > 0; largest = largest < most / 2 ? largest * 2 : (largest < most ? most : 0)) {
    CHECK(windows(largest, 1).size() <= 127);  // as states have it
  }
}

TEST_CASE("mindformers: three growths go on to the next window, three overflows to a window of 1") {
  constexpr auto policy = presets::mindformers_adaptive(1024.0, 2.0, 4, 9, 2);  // 2, 3, 4, … 9
  constexpr AdaptiveWindowConfig config = policy.config();
  static_assert(policy.growth().level() == 3 && policy.growth().window(config) == 4);
  static_assert(after(policy, "++++++++++++").growth().window(config) == 5);
  static_assert(after(policy, "--").growth().window(config) == 4);
  static_assert(after(policy, "--++++--").growth().window(config) == 4);
  static_assert(after(policy, "-+-+-").growth().window(config) == 1);
  static_assert(after(policy, "---+").loss_scale() == 256.0F);
  static_assert(after(policy, "---+++").growth().window(config) == 2);
  static_assert(after(policy, "---+++-----").growth().window(config) == 2);  // never from the smallest
  static_assert(presets::mindformers_adaptive(1.0, 2.0, 6, 20, 5).growth().window({{}, 20, 5}) == 5);  // 6 is not in the list
  static_assert(after(policy, "------------").loss_scale() == 1.0F);
  SUCCEED("checked by the compiler");
}

TEST_CASE("mindformers: a bad argument is named, with its value") {
  CHECK_THAT(message_of([] { (void)presets::mindformers_adaptive(0.0); }), ContainsSubstring("loss_scale_value is 0"));
  CHECK_THAT(message_of([] { (void)presets::mindformers_adaptive(1.0, 1.0); }), ContainsSubstring("scale_factor is 1"));
  CHECK_THAT(message_of([] { (void)presets::mindformers_adaptive(1.0, 2.0, 0); }), ContainsSubstring("scale_window is 0"));
  CHECK_THAT(message_of([] { (void)presets::mindformers_adaptive(1.0, 2.0, 1, 19); }),
             ContainsSubstring("min_scale_window is 20, above max_scale_window, which is 19"));
  CHECK_THAT(message_of([] { (void)presets::mindformers_adaptive(1.0, 2.0, 1, 9, 0); }),
             ContainsSubstring("min_scale_window is 0"));
}

TEST_CASE("mindformers: its state goes on, and the window has to be that of the settings") {
  support::check_goes_on("mindformers_adaptive", system(65536.0, 2.0, 3, 9, 2),
                         presets::mindformers_adaptive(65536.0, 2.0, 3, 9, 2), state_of);
  StateDict state = state_of(system(1024.0, 2.0, 50, 1000, 20));
  CHECK(import_state("mindformers_adaptive", state).get<headroom::MindFormersLossScale>().growth().level() == 4);
  const auto refused = [&](const char* key, int value) {
    StateDict changed = state;
    changed.set(key, value);
    return message_of([&] { (void)import_state("mindformers_adaptive", changed); });
  };
  CHECK_THAT(refused("scale_window", 40), ContainsSubstring("scale_window is 40; it must be in [50, 50]"));
  CHECK_THAT(refused("list_index", 8), ContainsSubstring("list_index is 8; it must be in [-1, 7]"));
  CHECK_THAT(refused("current_iterator_step", 0), ContainsSubstring("current_iterator_step is 0"));
  CHECK_THAT(refused("last_overflow_iterator_step", 1), ContainsSubstring("last_overflow_iterator_step is 1"));
  CHECK_THAT(refused("scale_window_up_count", 4), ContainsSubstring("scale_window_up_count is 4"));
  // At the smallest window MindFormers counts overflows that come to nothing.
  systems::MindFormers smallest = system(1024.0, 2.0, 20, 1000, 20);
  smallest.down_count = 2;
  state = import_state("mindformers_adaptive", state_of(smallest)).state_dict();
  CHECK(state.at("window_downs") == headroom::StateValue(0));
}

TEST_CASE("mindformers: a state has fewer growths and overflows than change the window") {
  for (const char* key : {"window_ups", "window_downs"}) {
    StateDict state = presets::mindformers_adaptive().state_dict();
    const auto message = [&] { return message_of([&] { (void)headroom::MindFormersLossScale::from_state_dict(state); }); };
    state.set(key, 2);
    CHECK(message() == "");
    state.set(key, 3);
    CHECK_THAT(message(), ContainsSubstring(std::string(key) + " is 3; it must be in [0, 2]"));
  }
}

TEST_CASE("mindformers: a list that has become shorter ends at its largest window") {
  const auto policy = after(presets::mindformers_adaptive(1024.0, 2.0, 9, 9, 2), "+++");
  CHECK(policy.growth().level() == 8);
  AdaptiveWindowConfig config = policy.config();
  config.max_scale_window = 3;
  CHECK(policy.with_config(config).growth().window(config) == 3);
  CHECK(policy.with_config(config).adjust(true).loss_scale() == 2048.0F);
}
