#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/systems/apex.hpp>
#include <headroom/policy/systems/cerebras.hpp>
#include <headroom/policy/systems/chainer.hpp>
#include <headroom/policy/systems/deepspeed.hpp>
#include <headroom/policy/systems/eformer.hpp>
#include <headroom/policy/systems/emily.hpp>
#include <headroom/policy/systems/fairseq.hpp>
#include <headroom/policy/systems/flax.hpp>
#include <headroom/policy/systems/jmp.hpp>
#include <headroom/policy/systems/keras.hpp>
#include <headroom/policy/systems/marian.hpp>
#include <headroom/policy/systems/megatron.hpp>
#include <headroom/policy/systems/metaseq.hpp>
#include <headroom/policy/systems/mindformers.hpp>
#include <headroom/policy/systems/nntrainer.hpp>
#include <headroom/policy/systems/onnxruntime.hpp>
#include <headroom/policy/systems/openseq2seq.hpp>
#include <headroom/policy/systems/paddle.hpp>
#include <headroom/policy/systems/torch.hpp>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// Policies that follow other systems step by step, as long as the system's own scale stays in [2^-126, 2^126]; beyond, ours
/// stays at the bound while theirs reaches 0 or Inf. jmp, eformer, torch and apex refuse growth to Inf. If a system keeps a
/// double (Emily, DeepSpeed, fairseq, metaseq), ours is rounded to float after each change, which makes no difference with
/// factors of 2; Chainer's, which has others, is kept in double. Arguments and defaults are the system's own. All throw
/// std::invalid_argument if an argument is out of range, with its name in the preset's declaration and the value given. See
/// docs/systems.md.
namespace presets {}

namespace detail::systems {

template <class... Systems>
struct List {};
/// Every system with a file here. A line in this list is all a system needs elsewhere: make_loss_scale, import_state,
/// AnyLossScale, the tests and the examples go by it.
using All = List<Torch, Megatron, Cerebras, Emily, Jmp, Eformer, DeepSpeed, DeepSpeed016, DeepSpeedConfig, CerebrasFp16,
                 CerebrasCbfloat16, Apex, Fairseq, Metaseq, Flax, Chainer, Keras, Marian, MindFormersAdaptive, NNTrainer,
                 OnnxRuntime, OpenSeq2SeqBackoff, Paddle, Paddle24>;

}  // namespace detail::systems

}  // namespace HEADROOM_BUILD
}  // namespace headroom
