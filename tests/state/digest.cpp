#include <headroom/policy/dynamic.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"

using headroom::digest;
using headroom::StateDict;
using headroom::StateValue;

TEST_CASE("states are equal exactly where their digests are") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const StateValue values[] = {0,
                               1,
                               -1,
                               2,
                               std::numeric_limits<std::int64_t>::min(),
                               std::numeric_limits<std::int64_t>::max(),
                               0.0,
                               -0.0,
                               1.0,
                               2.0,
                               0x1p-1074,
                               0x1p63,
                               infinity,
                               "",
                               "a",
                               "b",
                               "aa",
                               "0",
                               "ab",
                               "ba",
                               "a\n"};
  constexpr std::size_t count = sizeof values / sizeof *values;
  const char* keys[] = {"", "a", "b", "ab", "a "};
  std::vector<StateDict> states = {{}};
  for (const char* key : keys) {
    for (const StateValue& value : values) {
      states.push_back({{key, value}});
      for (const char* other : keys) {
        if (std::string(key) != other) states.push_back({{key, value}, {other, values[states.size() % count]}});
      }
    }
  }
  long faults = 0;
  for (const StateDict& a : states) {
    for (const StateDict& b : states) faults += (a == b) == (digest(a) == digest(b)) ? 0 : 1;
  }
  CHECK(faults == 0);
}

TEST_CASE("every step and every setting of a policy changes the digest") {
  headroom::LossScaleConfig config;
  headroom::DynamicLossScale policy(config);
  std::set<std::uint64_t> digests;
  for (int step = 0; step < 200; ++step, policy = policy.adjust(true)) digests.insert(digest(policy.state_dict()));
  CHECK(digests.size() == 200);
  config.growth_interval = 2001;
  CHECK(digests.count(digest(headroom::DynamicLossScale(config).state_dict())) == 0);
}

TEST_CASE("a digest is the same everywhere") {  // ranks may be built differently
  CHECK(digest({}) == 0xcbf29ce484222325);
  CHECK(digest({{"version", 1}, {"policy", "x"}, {"scale", 0.5}, {"flag", true}}) == 0xf512ec9c03f87a66);
}
