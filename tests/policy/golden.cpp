#include <headroom/policy/any.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>

#include "support/catch.hpp"
#include "support/golden.hpp"

using namespace headroom;
using support::Trace;

namespace {

using Make = std::function<AnyLossScale(const Trace&)>;
/// Calls a preset with the arguments of a trace that have these names.
template <class Policy, class... Args>
Make made_by(Policy (*preset)(Args...), const char* names) {
  return [=](const Trace& trace) {
    std::istringstream words(names);
    std::string name;
    const auto next = [&] {
      words >> name;
      return trace.real(name.c_str());
    };
    return std::apply(
        preset, std::tuple<std::decay_t<Args>...>{static_cast<std::decay_t<Args>>(next())...});
  };
}
const char* const cerebras_arguments =
    "init_scale steps_per_increase min_loss_scale max_loss_scale overflow_tolerance";

struct System {
  const char* name;  ///< of the trace file, and of a policy with the package's defaults
  Make policy;
  std::size_t traces = 14;
};
const System systems[] = {
    {"apex",
     made_by(presets::apex, "scale growth_factor backoff_factor growth_interval hysteresis")},
    {"cerebras_cbfloat16", made_by(presets::cerebras_cbfloat16, cerebras_arguments)},
    {"cerebras_fp16", made_by(presets::cerebras_fp16, cerebras_arguments)},
    {"constant",
     [](const Trace& t) { return ConstantLossScale(static_cast<float>(t.real("scale"))); }, 1},
    {"deepspeed",
     made_by(
         presets::deepspeed,
         "init_scale scale_factor scale_window min_scale delayed_shift consecutive_hysteresis")},
    {"eformer", made_by(presets::eformer, "loss_scale period factor min_loss_scale")},
    {"emily",
     [](const Trace& t) {
       return presets::emily(t.real("scale"), 2.0, 0.5, t.whole("growth_interval"));
     },
     20},
    {"fairseq", made_by(presets::fairseq,
                        "init_scale scale_factor scale_window tolerance threshold min_loss_scale")},
    {"flax",
     made_by(presets::flax, "growth_factor backoff_factor growth_interval scale minimum_scale")},
    {"hysteresis_refill_on_backoff",
     [](const Trace& t) {
       HysteresisConfig config;
       config.common.initial_scale = static_cast<float>(t.real("initial_scale"));
       config.common.growth_interval = t.whole("growth_interval");
       config.hysteresis = t.whole("hysteresis");
       return BasicHysteresisScale<RefillOnBackoff>(config);
     },
     19},
    {"jmp", made_by(presets::jmp, "loss_scale period factor min_loss_scale")},
    {"keras", made_by(presets::keras, "initial_scale dynamic_growth_steps")},
    {"megatron",
     made_by(presets::megatron,
             "initial_scale min_scale growth_factor backoff_factor growth_interval hysteresis")},
    {"paddle",
     made_by(presets::paddle,
             "init_loss_scaling incr_ratio decr_ratio incr_every_n_steps decr_every_n_nan_or_inf")},
    {"torch", made_by(presets::torch, "init_scale growth_factor backoff_factor growth_interval")},
};

/// The number of steps after which the policy has what was recorded.
/// Of the first step in which the policy is not as recorded; empty if there is none.
std::string first_difference(AnyLossScale policy, const Trace& trace) {
  std::string difference;
  for (std::size_t step = 0; step < trace.overflow.size() && difference.empty(); ++step) {
    policy = policy.adjust(trace.overflow[step] == 0.0);
    const auto compare = [&](const char* name, double actual, double recorded) {
      if (actual == recorded) return;
      std::ostringstream text;
      text << "step " << step << ": " << name << " is " << actual << ", not " << recorded << ". ";
      difference += text.str();
    };
    compare("the loss scale", static_cast<double>(policy.loss_scale()),
            static_cast<double>(static_cast<float>(trace.scale.at(step))));
    if (!trace.growth.empty())
      compare("the counter", static_cast<double>(policy.counter()), trace.growth.at(step));
    if (trace.hysteresis.empty()) continue;
    const std::int64_t left = policy.state_dict().at("hysteresis_left").integer();
    compare("hysteresis_left", static_cast<double>(left), std::max(0.0, trace.hysteresis.at(step)));
  }
  return difference;
}

}  // namespace

TEST_CASE("policies follow the recorded sequences of their systems") {
  for (const System& system : systems) {
    const auto traces = support::golden(system.name);
    CHECK(traces.size() == system.traces);
    for (const Trace& trace : traces) {
      INFO(trace.name);
      const bool has_defaults = trace.arguments.count("default") != 0;
      const AnyLossScale policy =
          has_defaults ? headroom::make_loss_scale(system.name) : system.policy(trace);
      CHECK(first_difference(policy, trace) == "");
    }
  }
}
