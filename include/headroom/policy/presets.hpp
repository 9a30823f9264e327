#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/systems/apex.hpp>
#include <headroom/policy/systems/cerebras.hpp>
#include <headroom/policy/systems/deepspeed.hpp>
#include <headroom/policy/systems/eformer.hpp>
#include <headroom/policy/systems/emily.hpp>
#include <headroom/policy/systems/fairseq.hpp>
#include <headroom/policy/systems/jmp.hpp>
#include <headroom/policy/systems/megatron.hpp>
#include <headroom/policy/systems/metaseq.hpp>
#include <headroom/policy/systems/torch.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Policies that follow other systems step by step, as long as the system's own scale stays in [2^-126, 2^126]; beyond, ours
/// stays at the bound where theirs reaches 0 or Inf. jmp, eformer, torch and apex refuse a growth to Inf. Where theirs is a
/// double (Emily, DeepSpeed, fairseq, metaseq) ours is rounded to float after each change, which with factors of 2 changes
/// nothing. Arguments and defaults are the system's own. All throw std::invalid_argument, naming argument or field and value,
/// where one is out of range.
namespace presets {}

namespace detail::systems {

template <class... Systems>
struct List {};
/// Every system that there is a file for. This list is all that else has to know of one: make_loss_scale, import_state,
/// AnyLossScale, the tests and the examples go by it.
using All = List<Torch, Megatron, Cerebras, Emily, Jmp, Eformer, DeepSpeed, DeepSpeed016, DeepSpeedConfig, CerebrasFp16,
                 CerebrasCbfloat16, Apex, Fairseq, Metaseq>;

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
