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

/// An argument of a step as it is passed on: a copy that is moved, or what a std::ref refers to.
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

struct NoClip {};
inline void check_max_norm(NoClip) noexcept {}

/// The jobs of that thread share it, so that the AsyncGradScaler may be destroyed in one of them.
template <class Policy>
class BackgroundScaler : public GradScaler<Policy> {
 public:
  BackgroundScaler(const Policy& policy, bool enabled, bool backs_off_twice)
      : GradScaler<Policy>(policy, enabled), decided(policy), updated_scale(policy.loss_scale()) {
    this->backs_off_once_ = !backs_off_twice;
  }

  template <class Optimizer, class... Args>
  auto step_at(float scale, Optimizer& optimizer, NoClip, std::tuple<Args...>& args) {
    this->iteration_.set_loss_scale(scale);
    return std::apply([&](auto&... each) { return this->step(optimizer, unwrapped(each)...); }, args);
  }
  template <class Optimizer, class... Args>
  auto step_at(float scale, Optimizer& optimizer, const double& max_norm, std::tuple<Args...>& args) {
    this->iteration_.set_loss_scale(scale);
    const GradientNorm norm = this->unscale_and_clip_(optimizer, max_norm);
    return ClippedStepResult{step_at(scale, optimizer, NoClip(), args), norm.norm};
  }
  void end_iteration() noexcept { this->iteration_.end(); }
  void decide() {
    decided = this->policy_;
    updated_scale = decided.loss_scale();
  }

  // Of both threads, under the lock of the jobs; the rest is of that thread.
  Policy decided;
  float updated_scale;  // by the last update that is done
  std::uint64_t updates_done = 0;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
