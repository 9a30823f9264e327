// Compiled only: every verb and every policy, for every dtype, with one include. C's <complex.h>
// defines the macro I.
#include <complex.h>  // NOLINT: C's, which defines I
#include <headroom/headroom.hpp>
#include <headroom/observe/exponent_histogram.hpp>
#include <headroom/observe/history.hpp>
#include <headroom/observe/simulate.hpp>
#include <headroom/quantize.hpp>
#include <headroom/state/text.hpp>
#include <headroom/training/async_grad_scaler.hpp>

#include <string>
#include <vector>

template <class T>
using Tree = std::vector<std::vector<T>>;

template <class T>
double verbs(Tree<T>& tree) {
  Tree<float> wide = headroom::cast<float>(tree);
  headroom::cast_into(wide, tree);
  const headroom::GradientNorm norm = headroom::clip_by_global_norm(tree, 1.0);
  return norm.norm + headroom::measure(tree).max_abs + headroom::global_norm(tree) +
         (headroom::all_finite(tree) ? 1 : 0);
}

template <class T, class Policy>
Policy step(const Policy& policy, Tree<T>& tree) {
  auto scaled = policy.scale(tree);
  policy.scale_in_place(scaled);
  Tree<float> wide = policy.template unscale<float>(scaled).grads;
  const headroom::GradientReport report = policy.unscale_into(scaled, wide);
  const headroom::GradientNorm norm = policy.unscale_and_clip_in_place(wide, 1.0);
  return policy.adjust(
      report.finite && norm.finite &&
      policy.template unscale_in_place<headroom::allow_fp16_gradients>(tree).finite);
}

template <class T>
double dtype() {
  Tree<T> tree;
  return verbs(tree) + static_cast<double>(step(headroom::DynamicLossScale(), tree).loss_scale());
}

double every_dtype() {
  return dtype<headroom::half>() + dtype<headroom::bfloat16>() + dtype<float>() + dtype<double>();
}

float every_policy(Tree<headroom::half>& tree) {
  return step(headroom::NoOpLossScale{}, tree).loss_scale() +
         step(headroom::ConstantLossScale(8.0F), tree).loss_scale() +
         step(headroom::HysteresisScale(), tree).loss_scale();
}

/// Growth to Inf is refused. The limits of float are right even under flags that make double
/// literals floats.
static_assert(headroom::presets::torch(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() ==
              0x1p125F);
static_assert(headroom::presets::torch(0x1p125, 7.0, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);

/// Uses every dtype.
std::string every_histogram(Tree<headroom::half>& halves, Tree<double>& doubles) {
  const auto histogram =
      headroom::exponent_histogram(halves) + headroom::exponent_histogram(doubles);
  return headroom::histogram_text(histogram) +
         std::to_string(
             histogram.shares<headroom::bfloat16>(histogram.recommended_scale<headroom::half>())
                 .underflow_share());
}

/// All members, with a rule of each kind.
template class headroom::TensorScales<headroom::float8_e4m3>;
template class headroom::TensorScales<headroom::float8_e5m2, headroom::CurrentScaling>;

/// The kernels for doubles are scalar.
void every_block(std::vector<double>& values, std::vector<headroom::float8_e4m3>& codes,
                 std::vector<float>& scales) {
  headroom::quantize_blocks_into(values, codes, scales, {1, 32}, headroom::DeepSeekScaling());
  headroom::dequantize_blocks_into(codes, scales, values, {1, 32});
}

/// Every preset: to text and back, resumed, simulated.
float every_state(Tree<headroom::half>& tree) {
  float sum = step(headroom::AnyLossScale(), tree).loss_scale();
  for (const char* name : {"jmp", "megatron", "apex", "deepspeed", "cerebras_fp16", "fairseq"}) {
    const headroom::AnyLossScale policy =
        headroom::make_loss_scale(name, {{"growth_interval", 100}});
    const headroom::StateDict state =
        headroom::from_text(headroom::to_text(policy.adjust(false).state_dict()));
    sum +=
        headroom::simulate(headroom::AnyLossScale::from_state_dict(state), std::vector<double>{1.0})
            .final_scale;
  }
  headroom::History history;
  history.record(headroom::StepResult<int>());
  if (history.verdict() != headroom::Verdict::healthy)
    sum += static_cast<float>(history.explanation().size());
  return sum;
}
