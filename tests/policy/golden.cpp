// Policies follow the recorded sequences of tests/golden: the scale after each step and, if
// recorded, the counters.
#include <headroom/policy/any.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "support/catch.hpp"
#include "support/golden.hpp"

using headroom::AnyLossScale;
using support::Trace;
namespace presets = headroom::presets;

namespace {

struct System {
  const char* name;  ///< of the trace file, and of a policy with the package's defaults
  AnyLossScale (*policy)(const Trace&);
  std::size_t traces = 14;
};
const System systems[] = {
    {"apex",
     [](const Trace& t) -> AnyLossScale {
       return presets::apex(t.real("scale"), t.real("growth_factor"), t.real("backoff_factor"),
                            t.whole("growth_interval"), t.whole("hysteresis"));
     }},
    {"cerebras_cbfloat16",
     [](const Trace& t) -> AnyLossScale {
       return presets::cerebras_cbfloat16(t.real("init_scale"), t.whole("steps_per_increase"),
                                          t.real("min_loss_scale"), t.real("max_loss_scale"),
                                          t.real("overflow_tolerance"));
     }},
    {"cerebras_fp16",
     [](const Trace& t) -> AnyLossScale {
       return presets::cerebras_fp16(t.real("init_scale"), t.whole("steps_per_increase"),
                                     t.real("min_loss_scale"), t.real("max_loss_scale"),
                                     t.real("overflow_tolerance"));
     }},
    {"constant",
     [](const Trace& t) -> AnyLossScale {
       return headroom::ConstantLossScale(static_cast<float>(t.real("scale")));
     },
     1},
    {"deepspeed",
     [](const Trace& t) -> AnyLossScale {
       return presets::deepspeed(t.real("init_scale"), t.real("scale_factor"),
                                 t.whole("scale_window"), t.real("min_scale"),
                                 t.whole("delayed_shift"), t.whole("consecutive_hysteresis") != 0);
     }},
    {"eformer",
     [](const Trace& t) -> AnyLossScale {
       return presets::eformer(t.real("loss_scale"), t.whole("period"), t.real("factor"),
                               t.real("min_loss_scale"));
     }},
    {"emily",
     [](const Trace& t) -> AnyLossScale {
       return presets::emily(t.real("scale"), 2.0, 0.5, t.whole("growth_interval"));
     },
     20},
    {"fairseq",
     [](const Trace& t) -> AnyLossScale {
       return presets::fairseq(t.real("init_scale"), t.real("scale_factor"),
                               t.whole("scale_window"), t.real("tolerance"), t.real("threshold"),
                               t.real("min_loss_scale"));
     }},
    {"flax",
     [](const Trace& t) -> AnyLossScale {
       return presets::flax(t.real("growth_factor"), t.real("backoff_factor"),
                            t.whole("growth_interval"), t.real("scale"), t.real("minimum_scale"));
     }},
    {"hysteresis_refill_on_backoff",
     [](const Trace& t) -> AnyLossScale {
       headroom::HysteresisConfig config;
       config.common.initial_scale = static_cast<float>(t.real("initial_scale"));
       config.common.growth_interval = t.whole("growth_interval");
       config.hysteresis = t.whole("hysteresis");
       return headroom::BasicHysteresisScale<headroom::RefillOnBackoff>(config);
     },
     19},
    {"jmp",
     [](const Trace& t) -> AnyLossScale {
       return presets::jmp(t.real("loss_scale"), t.whole("period"), t.real("factor"),
                           t.real("min_loss_scale"));
     }},
    {"keras",
     [](const Trace& t) -> AnyLossScale {
       return presets::keras(t.real("initial_scale"), t.whole("dynamic_growth_steps"));
     }},
    {"megatron",
     [](const Trace& t) -> AnyLossScale {
       return presets::megatron(t.real("initial_scale"), t.real("min_scale"),
                                t.real("growth_factor"), t.real("backoff_factor"),
                                t.whole("growth_interval"), t.whole("hysteresis"));
     }},
    {"paddle",
     [](const Trace& t) -> AnyLossScale {
       return presets::paddle(t.real("init_loss_scaling"), t.real("incr_ratio"),
                              t.real("decr_ratio"), t.whole("incr_every_n_steps"),
                              t.whole("decr_every_n_nan_or_inf"));
     }},
    {"torch",
     [](const Trace& t) -> AnyLossScale {
       return presets::torch(t.real("init_scale"), t.real("growth_factor"),
                             t.real("backoff_factor"), t.whole("growth_interval"));
     }},
};

/// The number of steps after which the policy has what was recorded.
std::size_t steps_followed(AnyLossScale policy, const Trace& trace) {
  for (std::size_t step = 0; step < trace.overflow.size(); ++step) {
    policy = policy.adjust(trace.overflow[step] == 0.0);
    if (policy.loss_scale() != static_cast<float>(trace.scale.at(step))) return step;
    if (!trace.growth.empty() && static_cast<double>(policy.counter()) != trace.growth.at(step))
      return step;
    if (trace.hysteresis.empty()) continue;
    const std::int64_t left = policy.state_dict().at("hysteresis_left").integer();
    if (static_cast<double>(left) != std::max(0.0, trace.hysteresis.at(step))) return step;
  }
  return trace.overflow.size();
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
      CHECK(steps_followed(policy, trace) == trace.overflow.size());
    }
  }
}
