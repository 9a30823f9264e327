#pragma once

#include <headroom/policy/presets.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

// The rules of other systems, each written down from its own source in its own arithmetic, one statement after the other and
// with none of headroom's code: what the presets are compared with over random sequences. `scale` is what the next step uses.
// `rule` has a system's own defaults.

namespace systems {

namespace ours = headroom::detail::systems;

/// A division that -ffast-math neither makes a multiplication of nor unites with what is done to its quotient.
template <class T>
T divided(T dividend, T divisor) {
  const volatile T opaque = divisor;
  const volatile T quotient = dividend / opaque;
  return quotient;
}

/// Whether a product of floats is Inf when it is rounded to float.
inline bool is_infinite_float(double product) { return product >= 0x1.ffffffp127; }

/// torch.amp.GradScaler: _amp_update_scale_ of ATen.
struct Torch {
  float scale;
  double growth_factor, backoff_factor;
  std::int64_t growth_interval;
  std::int64_t growth_tracker = 0;

  void update(bool found_inf) {
    if (found_inf) {
      scale = static_cast<float>(static_cast<double>(scale) * backoff_factor);
      growth_tracker = 0;
    } else if (++growth_tracker == growth_interval) {
      const double grown = static_cast<double>(scale) * growth_factor;
      if (!is_infinite_float(grown)) scale = static_cast<float>(grown);
      growth_tracker = 0;
    }
  }
};
inline Torch rule(ours::Torch) { return {65536.0F, 2.0, 0.5, 2000}; }

/// jmp.DynamicLossScale.adjust, in float32 throughout.
struct Jmp {
  float scale;
  std::int64_t period;
  float factor, min_loss_scale;
  std::int64_t counter = 0;

  void update(bool found_inf) {
    if (!found_inf && counter == period - 1) {
      if (!is_infinite_float(static_cast<double>(scale) * static_cast<double>(factor))) scale = scale * factor;
    } else if (found_inf) {
      scale = std::max(min_loss_scale, divided(scale, factor));
    }
    counter = found_inf ? 0 : (counter + 1) % period;
  }
};
inline Jmp rule(ours::Jmp) { return {32768.0F, 2000, 2.0F, 1.0F}; }
inline Jmp rule(ours::Eformer) { return rule(ours::Jmp()); }

/// Emily.MixedPrecision.update, in double.
struct Emily {
  double scale, growth_factor, backoff_factor;
  std::int64_t growth_interval;
  double min_scale;
  std::int64_t counter = 0;

  void update(bool found_inf) {
    if (found_inf) {
      scale = std::max(min_scale, scale * backoff_factor);
      counter = 0;
    } else if (++counter >= growth_interval) {
      scale = scale * growth_factor;
      counter = 0;
    }
  }
};
inline Emily rule(ours::Emily) { return {65536.0, 2.0, 0.5, 2000, 1.0}; }

/// megatron.core.optimizer.grad_scaler.DynamicGradScaler, in float32 throughout.
struct Megatron {
  float scale, min_scale, growth_factor, backoff_factor;
  std::int64_t growth_interval, hysteresis;
  std::int64_t growth_tracker = 0, hysteresis_tracker = hysteresis;

  void update(bool found_inf) {
    if (found_inf) {
      growth_tracker = 0;
      hysteresis_tracker -= 1;
      if (hysteresis_tracker <= 0) scale = std::max(scale * backoff_factor, min_scale);
    } else {
      growth_tracker += 1;
      if (growth_tracker == growth_interval) {
        growth_tracker = 0;
        hysteresis_tracker = hysteresis;
        scale = scale * growth_factor;
      }
    }
  }
};
inline Megatron rule(ours::Megatron) { return {0x1p32F, 1.0F, 2.0F, 0.5F, 1000, 2}; }

/// update_scale_hysteresis of apex.
struct Apex {
  float scale;
  double growth_factor, backoff_factor;
  std::int64_t growth_interval, hysteresis;
  std::int64_t growth_tracker = 0, hysteresis_tracker = hysteresis;

  void update(bool found_inf) {
    if (found_inf) {
      hysteresis_tracker -= 1;
      if (hysteresis_tracker > 0) {
        growth_tracker = 0;
        return;
      }
      scale = static_cast<float>(static_cast<double>(scale) * backoff_factor);
      growth_tracker = 0;
      return;
    }
    growth_tracker += 1;
    if (growth_tracker == growth_interval) {
      const double grown = static_cast<double>(scale) * growth_factor;
      if (!is_infinite_float(grown)) scale = static_cast<float>(grown);
      growth_tracker = 0;
    }
    hysteresis_tracker = hysteresis;
  }
};
inline Apex rule(ours::Apex) { return {65536.0F, 2.0, 0.5, 2000, 2}; }

/// DynamicLossScaler of DeepSpeed since 0.17.1, the rule of its FP16 optimizers before, in double. 0.17.0 and older have no
/// stable interval.
struct DeepSpeed {
  double scale, scale_factor;
  std::int64_t scale_window;
  double min_scale;
  std::int64_t delayed_shift;
  bool consecutive_hysteresis;
  bool has_stable_interval = true;
  std::int64_t cur_iter = 0, last_overflow_iter = -1, cur_hysteresis = delayed_shift;

  void update(bool found_inf) {
    if (found_inf) {
      if (delayed_shift == 1 || cur_hysteresis == 1) {
        scale = std::max(scale / scale_factor, min_scale);
      } else {
        cur_hysteresis -= 1;
      }
      last_overflow_iter = cur_iter;
    } else {
      if (consecutive_hysteresis) cur_hysteresis = delayed_shift;
      const std::int64_t stable_interval = (cur_iter - last_overflow_iter) - (has_stable_interval ? 1 : 0);
      if (stable_interval > 0 && stable_interval % scale_window == 0) {
        if (!consecutive_hysteresis) cur_hysteresis = delayed_shift;
        scale *= scale_factor;
      }
    }
    cur_iter += 1;
  }
};
inline DeepSpeed rule(ours::DeepSpeed) { return {0x1p32, 2.0, 1000, 1.0, 1, false}; }
inline DeepSpeed rule(ours::DeepSpeed016) { return {0x1p32, 2.0, 1000, 1.0, 1, false, false}; }
inline DeepSpeed rule(ours::DeepSpeedConfig) { return {65536.0, 2.0, 1000, 1.0, 2, false}; }

/// cerebras.pytorch.amp.GradScaler.update_scale, in float32 and int64.
struct Cerebras {
  float scale;
  std::int64_t steps_per_increase;
  float min_loss_scale, max_loss_scale, overflow_tolerance;
  std::int64_t steps = 0, overflows = 0;

  void update(bool found_inf) {
    steps += 1;
    overflows += found_inf ? 1 : 0;
    const float ratio = divided(static_cast<float>(overflows), static_cast<float>(steps));
    if (overflow_tolerance < ratio) {
      scale /= 2.0F;
      steps = overflows = 0;
    }
    if (steps_per_increase < steps) {
      scale *= 2.0F;
      steps = overflows = 0;
    }
    scale = scale < max_loss_scale ? scale : max_loss_scale;
    scale = min_loss_scale < scale ? scale : min_loss_scale;
  }
};
inline Cerebras rule(ours::Cerebras) { return {32768.0F, 2000, 0x1p-14F, 0x1p15F, 0.0F}; }
inline Cerebras rule(ours::CerebrasFp16) { return rule(ours::Cerebras()); }
inline Cerebras rule(ours::CerebrasCbfloat16) { return {0x1p31F, 2000, 0x1p-14F, 0x1p31F, 0.0F}; }

/// DynamicLossScaler of fairseq and, with a window that goes with the scale, of metaseq; in double. What happens at the floor
/// is beyond what is compared.
struct Fairseq {
  double scale, scale_factor, scale_window, tolerance;
  bool window_goes_with_scale;
  std::int64_t iter = 0, last_overflow_iter = -1, last_rescale_iter = -1, overflows_since_rescale = 0;

  void update(bool found_inf) {
    if (found_inf) {
      const std::int64_t iter_since_rescale = iter - last_rescale_iter;
      last_overflow_iter = iter;
      overflows_since_rescale += 1;
      if (divided(static_cast<double>(overflows_since_rescale), static_cast<double>(iter_since_rescale)) >= tolerance) {
        scale /= scale_factor;
        if (window_goes_with_scale) scale_window = std::max(std::floor(scale_window / scale_factor), 1.0);
        last_rescale_iter = iter;
        overflows_since_rescale = 0;
      }
    } else if (std::fmod(static_cast<double>(iter - last_overflow_iter), scale_window) == 0.0) {
      scale *= scale_factor;
      last_rescale_iter = iter;
      if (window_goes_with_scale) scale_window *= scale_factor;
    }
    iter += 1;
  }
};
inline Fairseq rule(ours::Fairseq) { return {32768.0, 2.0, 2000.0, 0.0, false}; }
inline Fairseq rule(ours::Metaseq) { return {4.0, 2.0, 256.0, 0.0, true}; }

/// flax.training.dynamic_scale.DynamicScale, in float32 throughout.
struct Flax {
  float scale, growth_factor, backoff_factor;
  std::int64_t growth_interval;
  float minimum_scale;
  std::int64_t fin_steps = 0;

  void update(bool found_inf) {
    const bool grow = fin_steps == growth_interval;
    if (found_inf) {
      scale = std::max(scale * backoff_factor, minimum_scale);
    } else if (grow) {
      scale = std::min(scale * growth_factor, 0x1.fffffep127F);
    }
    fin_steps = grow || found_inf ? 0 : fin_steps + 1;
  }
};
inline Flax rule(ours::Flax) { return {65536.0F, 2.0F, 0.5F, 2000, 0x1p-126F}; }

/// Optimizer.update_loss_scale of Chainer, in double; what the next step uses is its float.
struct Chainer {
  std::int64_t interval;
  double loss_scale = 1.0, multiplier = std::pow(2.0, 1.0 / static_cast<double>(interval));
  bool isnan_ever = false;
  float scale = 1.0F;

  void update(bool found_inf) {
    if (found_inf) isnan_ever = true;
    double by = 2.0;
    if (found_inf) {
      by = 0.5;
    } else if (isnan_ever) {
      by = multiplier;
    }
    loss_scale = std::max(1.0, std::min(65504.0, loss_scale * by));
    scale = static_cast<float>(loss_scale);
  }
};
inline Chainer rule(ours::Chainer) { return {1000}; }

/// keras.optimizers.LossScaleOptimizer, in float32.
struct Keras {
  float scale;
  std::int64_t dynamic_growth_steps;
  std::int64_t step_counter = 0;

  void update(bool found_inf) {
    if (found_inf) {
      step_counter = 0;
      scale = scale * 0.5F;
    } else if (step_counter == dynamic_growth_steps - 1) {
      step_counter = 0;
      scale = scale * 2.0F;
    } else {
      step_counter += 1;
    }
  }
};
inline Keras rule(ours::Keras) { return {32768.0F, 2000}; }

/// GraphGroup::increaseCostScaleFactor and decreaseCostScaleFactor of Marian, in float.
struct Marian {
  float scale;
  std::int64_t frequency;
  float multiplier, minimum;
  std::int64_t no_nan_seen = 0;

  void update(bool found_inf) {
    if (found_inf) {
      if (scale > minimum) scale = divided(scale, multiplier);
      no_nan_seen = 0;
    } else if (++no_nan_seen % frequency == 0) {
      scale *= multiplier;
      no_nan_seen = 0;
    }
  }
};
inline Marian rule(ours::Marian) { return {256.0F, 1000, 2.0F, 256.0F}; }

/// AdaptiveLossScaleUpdateCell of MindFormers, in float32 and int32, with its list of windows.
struct MindFormers {
  float scale, scale_factor;
  std::vector<std::int32_t> window_list;
  std::int32_t list_index;
  std::int32_t scale_window = window_list[static_cast<std::size_t>(list_index)];
  std::int32_t up_count = 0, down_count = 0, cur_iter = 1, last_overflow_iter = 0;

  void update(bool found_inf) {
    const auto size = static_cast<std::int32_t>(window_list.size());
    const bool should_inc = scale_window <= cur_iter - last_overflow_iter;
    if (found_inf) scale = std::max(scale * divided(1.0F, scale_factor), 1.0F);
    if (found_inf || should_inc) last_overflow_iter = cur_iter;
    cur_iter += 1;
    if (should_inc && !found_inf) {
      scale *= scale_factor;
      up_count = (up_count + 1) % 4;
      down_count = 0;
    }
    if (up_count == 3 && list_index != size - 1) {
      list_index += 1;
      up_count = 0;
      scale_window = window_list[static_cast<std::size_t>(list_index)];
    }
    if (!found_inf) return;
    down_count = (down_count + 1) % 4;
    if (down_count == 3 && list_index != -1 && list_index != 0) {
      scale_window = 1;
      list_index = -1;
      up_count = down_count = 0;
    }
  }
};
inline MindFormers rule(ours::MindFormersAdaptive) { return {65536.0F, 2.0F, {20, 30, 40, 50, 100, 200, 500, 1000}, 0}; }

/// NetworkGraph::backwarding of NNTrainer, in float. At 1, where it ends the training, it stays.
struct NNTrainer {
  float scale;
  std::int64_t nan_count = 0;

  void update(bool found_inf) {
    if (found_inf) {
      if (static_cast<double>(scale - 1.0F) >= 10e-6) scale = scale > 1.5F ? scale * 0.5F : 1.0F;
    } else if (++nan_count > 2000) {
      scale *= 2.0F;
      nan_count = 0;
    }
  }
};
inline NNTrainer rule(ours::NNTrainer) { return {1.0F}; }

/// LossScaler::UpdateLossScale of ONNX Runtime, in float.
struct OnnxRuntime {
  float scale;
  std::int64_t up_scale_window;
  float min_loss_scale, max_loss_scale;
  std::int64_t stable_steps = 0;

  void update(bool found_inf) {
    if (!found_inf) {
      stable_steps++;
      if (stable_steps >= up_scale_window) {
        scale = std::min(max_loss_scale, scale * 2);
        stable_steps = 0;
      }
    } else {
      scale = std::max(min_loss_scale, scale / 2);
      stable_steps = 0;
    }
  }
};
inline OnnxRuntime rule(ours::OnnxRuntime) { return {65536.0F, 2000, 1.0F, 0x1p24F}; }

/// BackoffScaler of OpenSeq2Seq, in float32, as TensorFlow runs it: with a reciprocal for its division.
struct OpenSeq2Seq {
  float scale_min, scale_max, step_factor;
  std::int64_t step_window;
  float scale = scale_max;
  std::int64_t iteration = 0, last_overflow_iteration = -1;

  void update(bool found_inf) {
    if (found_inf) {
      scale = clipped(scale * divided(1.0F, step_factor));
      last_overflow_iteration = iteration;
    } else if ((iteration - last_overflow_iteration) % step_window == 0) {
      scale = clipped(scale * step_factor);
    }
    iteration += 1;
  }
  [[nodiscard]] float clipped(float value) const { return std::max(std::min(value, scale_max), scale_min); }
};
inline OpenSeq2Seq rule(ours::OpenSeq2SeqBackoff) { return {1.0F, 16384.0F, 2.0F, 2000}; }

/// AmpScaler._update of Paddle, in float32.
struct Paddle {
  float scale, incr_ratio, decr_ratio;
  std::int64_t incr_every_n_steps, decr_every_n_nan_or_inf;
  std::int64_t incr_count = 0, decr_count = 0;

  void update(bool found_inf) {
    if (found_inf) {
      incr_count = 0;
      decr_count += 1;
      if (decr_count == decr_every_n_nan_or_inf) {
        scale = scale * decr_ratio;
        decr_count = 0;
      }
    } else {
      decr_count = 0;
      incr_count += 1;
      if (incr_count == incr_every_n_steps) {
        scale = scale * incr_ratio;
        incr_count = 0;
      }
    }
  }
};
inline Paddle rule(ours::Paddle) { return {65536.0F, 2.0F, 0.5F, 2000, 1}; }
inline Paddle rule(ours::Paddle24) { return {32768.0F, 2.0F, 0.5F, 1000, 2}; }

}  // namespace systems
