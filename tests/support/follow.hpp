#pragma once

#include <headroom/policy/import_state.hpp>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/policies.hpp"
#include "support/samples.hpp"
#include "support/systems.hpp"

// Presets beside the systems that they follow: recorded sequences, and the system's own rule over random ones.

namespace support {

/// The arguments of a trace, the system's default for what it does not say.
struct Arguments {
  const Trace& trace;
  double operator()(const char* name, double otherwise) const { return trace.config_or(name, otherwise); }
  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return static_cast<std::int64_t>(trace.config_or(name, static_cast<double>(otherwise)));
  }
};

/// Follows every trace of a file, and returns how many.
template <class MakePreset>
std::size_t follow(const std::string& file, MakePreset make) {
  const auto traces = golden(file);
  for (const Trace& trace : traces) CHECK(first_difference(make(Arguments{trace}), trace) == "");
  return traces.size();
}

/// Random overflows: rare, frequent, and in bursts.
inline std::vector<bool> random_overflows(std::mt19937& random, std::size_t steps) {
  static const unsigned in_1000[] = {0, 5, 30, 100, 300, 500, 900, 1000};
  std::vector<bool> overflows;
  while (overflows.size() < steps) {
    const unsigned share = in_1000[random() % 8];
    for (auto length = 1 + random() % 60; length > 0; --length) overflows.push_back(random() % 1000 < share);
  }
  return overflows;
}

/// Where the preset (with `up_to_rounding`: by more than rounding its scale to float explains) first differs from the system's
/// own rule; empty where it does not, as long as the system's scale is one that we have.
template <class Policy, class System>
std::string first_difference(Policy policy, System system, std::mt19937& random, bool up_to_rounding = false,
                             std::size_t steps = 400) {
  std::size_t step = 0;
  for (const bool found_inf : random_overflows(random, steps)) {
    const auto ours = static_cast<double>(policy.loss_scale()), theirs = static_cast<double>(system.scale);
    if (up_to_rounding ? std::abs(ours - theirs) > 1e-4 * theirs : ours != theirs) {
      std::ostringstream text;
      text << "step " << step << ": the scale is " << policy.loss_scale() << " and should be " << system.scale;
      return text.str();
    }
    system.update(found_inf);
    if (!(system.scale >= 0x1p-126F && system.scale <= 0x1p126F)) return {};
    policy = policy.adjust(!found_inf);
    ++step;
  }
  return {};
}

inline double pick(std::mt19937& random, std::initializer_list<double> values) {
  return values.begin()[random() % values.size()];
}
inline std::int64_t pick_interval(std::mt19937& random) { return 1 + static_cast<std::int64_t>(random() % 40); }

constexpr int runs = cases(300);

/// Takes both on by the same steps, and the state of one into the other at each of them.
template <class System, class Policy, class StateOf>
void check_goes_on(const char* name, System system, Policy settings, StateOf state_of) {
  std::mt19937 random(seed);
  int differences = 0;
  for (int step = 0; step < cases(200); ++step) {
    system.update(random() % 4 == 0);
    auto imported = headroom::import_state(name, state_of(system), settings);
    System copy = system;
    for (int more = 0; more < 40; ++more) {
      differences += static_cast<double>(imported.loss_scale()) != static_cast<double>(copy.scale) ? 1 : 0;
      const bool found_inf = random() % 4 == 0;
      copy.update(found_inf);
      imported = imported.adjust(!found_inf);
    }
  }
  CHECK(differences == 0);
}

}  // namespace support
