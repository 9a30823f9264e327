#include <headroom/policy/dynamic.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "support/any_policies.hpp"
#include "support/catch.hpp"

using headroom::digest;
using headroom::StateDict;
using headroom::StateValue;

TEST_CASE("states are equal exactly where their digests are") {
  const StateValue values[] = {0,
                               1,
                               -1,
                               true,
                               false,
                               0.0,
                               -0.0,
                               1.0,
                               0x1p-1074,
                               std::numeric_limits<std::int64_t>::min(),
                               "",
                               "a",
                               "b",
                               "aa",
                               "0",
                               "ab",
                               "ba",
                               2.0,
                               2,
                               std::numeric_limits<double>::infinity(),
                               "a\n",
                               0x1p63,
                               std::numeric_limits<std::int64_t>::max()};
  const char* keys[] = {"", "a", "b", "ab", "a "};
  std::vector<StateDict> states = {{}};
  for (const char* key : keys) {
    for (const StateValue& value : values) {
      states.push_back({{key, value}});
      for (const char* other : keys) {
        if (std::string(key) != other) states.push_back({{key, value}, {other, values[states.size() % 23]}});
      }
    }
  }
  long faults = 0;
  for (const StateDict& a : states) {
    for (const StateDict& b : states) faults += (a == b) == (digest(a) == digest(b)) ? 0 : 1;
  }
  CHECK(faults == 0);
}

TEST_CASE("every step of every policy, and every setting, changes the digest") {
  for (headroom::AnyLossScale policy : support::every_policy()) {
    std::set<std::uint64_t> digests;
    std::vector<headroom::AnyLossScale> different;
    for (int step = 0; step < 200; ++step) {
      bool is_new = true;
      for (const auto& other : different) is_new = is_new && !(other == policy);
      if (is_new) different.push_back(policy);
      digests.insert(digest(policy.state_dict()));
      CHECK(policy.state_digest() != 0);
      policy = policy.adjust(step % 7 != 3);
    }
    INFO(policy.policy_name());
    CHECK(digests.size() == different.size());
  }
  headroom::LossScaleConfig config;
  const std::uint64_t before = digest(headroom::DynamicLossScale(config).state_dict());
  config.growth_interval = 2001;
  CHECK(digest(headroom::DynamicLossScale(config).state_dict()) != before);
}

TEST_CASE("a digest is the same everywhere") {  // ranks may be built differently
  CHECK(digest({}) == 0xcbf29ce484222325);
  CHECK(digest({{"version", 1}, {"policy", "x"}, {"scale", 0.5}, {"flag", true}}) == 0x2b01e6489457deff);
}
