#pragma once

#include <algorithm>
#include <cstdint>

// The rules of other systems, for comparison with the presets over random sequences. Each is written from the system's source,
// statement by statement, in the system's own arithmetic and without headroom's code. `scale` is the scale of the next step.
// The defaults are the system's own.

namespace systems {

/// A division that -ffast-math does not turn into a multiplication and does not merge with later operations.
template <class T>
T divided(T dividend, T divisor) {
  const volatile T opaque = divisor;
  const volatile T quotient = dividend / opaque;
  return quotient;
}

/// Whether a product of floats becomes Inf when it is rounded to float.
inline bool is_infinite_float(double product) { return product >= 0x1.ffffffp127; }

/// torch.amp.GradScaler: _amp_update_scale_ of ATen.
struct Torch {
  float scale = 65536.0F;
  double growth_factor = 2.0, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
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

/// jmp.DynamicLossScale.adjust, in float32 throughout; eformer has the same.
struct Jmp {
  float scale = 32768.0F;
  std::int64_t period = 2000;
  float factor = 2.0F, min_loss_scale = 1.0F;
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

/// Emily.MixedPrecision.update, in double.
struct Emily {
  double scale = 65536.0, growth_factor = 2.0, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;
  double min_scale = 1.0;
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

/// megatron.core.optimizer.grad_scaler.DynamicGradScaler, in float32 throughout.
struct Megatron {
  float scale = 0x1p32F, min_scale = 1.0F, growth_factor = 2.0F, backoff_factor = 0.5F;
  std::int64_t growth_interval = 1000, hysteresis = 2;
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

/// update_scale_hysteresis of apex.
struct Apex {
  float scale = 65536.0F;
  double growth_factor = 2.0, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000, hysteresis = 2;
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

/// DynamicLossScaler of DeepSpeed since 0.17.1, in double.
struct DeepSpeed {
  double scale = 0x1p32, scale_factor = 2.0;
  std::int64_t scale_window = 1000;
  double min_scale = 1.0;
  std::int64_t delayed_shift = 1;
  bool consecutive_hysteresis = false;
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
      const std::int64_t stable_interval = (cur_iter - last_overflow_iter) - 1;
      if (stable_interval > 0 && stable_interval % scale_window == 0) {
        if (!consecutive_hysteresis) cur_hysteresis = delayed_shift;
        scale *= scale_factor;
      }
    }
    cur_iter += 1;
  }
};

/// cerebras.pytorch.amp.GradScaler.update_scale of fp16, in float32 and int64.
struct Cerebras {
  float scale = 0x1p15F;
  std::int64_t steps_per_increase = 2000;
  float min_loss_scale = 0x1p-14F, max_loss_scale = 0x1p15F, overflow_tolerance = 0.0F;
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

/// DynamicLossScaler of fairseq, in double. What happens at the floor is not compared.
struct Fairseq {
  double scale = 32768.0, scale_factor = 2.0;
  std::int64_t scale_window = 2000;
  double tolerance = 0.0;
  std::int64_t iter = 0, last_overflow_iter = -1, last_rescale_iter = -1, overflows_since_rescale = 0;

  void update(bool found_inf) {
    if (found_inf) {
      const std::int64_t iter_since_rescale = iter - last_rescale_iter;
      last_overflow_iter = iter;
      overflows_since_rescale += 1;
      if (divided(static_cast<double>(overflows_since_rescale), static_cast<double>(iter_since_rescale)) >= tolerance) {
        scale /= scale_factor;
        last_rescale_iter = iter;
        overflows_since_rescale = 0;
      }
    } else if ((iter - last_overflow_iter) % scale_window == 0) {
      scale *= scale_factor;
      last_rescale_iter = iter;
    }
    iter += 1;
  }
};

/// flax.training.dynamic_scale.DynamicScale, in float32 throughout.
struct Flax {
  float scale = 65536.0F, growth_factor = 2.0F, backoff_factor = 0.5F;
  std::int64_t growth_interval = 2000;
  float minimum_scale = 0x1p-126F;
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

/// keras.optimizers.LossScaleOptimizer, in float32.
struct Keras {
  float scale = 32768.0F;
  std::int64_t dynamic_growth_steps = 2000;
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

/// AmpScaler._update of Paddle, in float32.
struct Paddle {
  float scale = 65536.0F, incr_ratio = 2.0F, decr_ratio = 0.5F;
  std::int64_t incr_every_n_steps = 2000, decr_every_n_nan_or_inf = 1;
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

}  // namespace systems
