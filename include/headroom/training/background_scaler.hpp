#pragma once

#include <headroom/config.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

// What an AsyncGradScaler does in its optimizers' thread.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// An argument of a step as it is handed on: a copy that is moved, or what a std::ref refers to.
template <class T>
[[nodiscard]] T&& unwrapped(T& argument) noexcept {
  return std::move(argument);
}
template <class T>
[[nodiscard]] T& unwrapped(std::reference_wrapper<T>& argument) noexcept {
  return argument.get();
}
template <class T>
using Unwrapped = decltype(unwrapped(std::declval<T&>()));

/// The jobs of that thread share it, so that the AsyncGradScaler may be destroyed in one of them.
template <class Policy>
struct BackgroundScaler {
  BackgroundScaler(const Policy& policy, bool enabled, bool backs_off_twice)
      : scaler(policy, enabled), decided(policy), updated_scale(policy.loss_scale()) {
    scaler.backs_off_once_ = !backs_off_twice;
  }

  template <class Optimizer, class... Args>
  auto step(Optimizer& optimizer, float scale, std::tuple<Args...>& args) {
    scaler.iteration_.set_loss_scale(scale);
    return std::apply([&](auto&... each) { return scaler.step(optimizer, unwrapped(each)...); }, args);
  }
  template <class Optimizer, class... Args>
  auto clipped_step(Optimizer& optimizer, float scale, const double& max_norm, std::tuple<Args...>& args) {
    scaler.iteration_.set_loss_scale(scale);
    const GradientNorm norm = scaler.unscale_and_clip_(optimizer, max_norm);
    return clipped(step(optimizer, scale, args), norm.norm);
  }

  /// f(scaler), which can change settings only.
  template <class F>
  void configure(F& f) {
    struct Configuring {
      bool& is_configured;
      ~Configuring() { is_configured = false; }
    };
    const Configuring configuring{scaler.is_configured_.is_set};
    scaler.is_configured_.is_set = true;
    f(scaler);
  }
  void end_iteration() noexcept { scaler.iteration_.end(); }
  void decide() {
    decided = scaler.policy();
    updated_scale = decided.loss_scale();
  }

  GradScaler<Policy> scaler;  // of that thread
  // Of both threads, under the lock of the jobs.
  Policy decided;
  float updated_scale;  // by the last update that is done
  std::uint64_t updates_done = 0;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
