#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/detail/job_thread.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// An argument of a step as it is passed on: a copy that is moved, or what a std::ref refers to.
template <class T>
using Unwrapped = decltype(std::get<0>(std::make_tuple(std::declval<T>())));

/// The jobs of that thread share it, so that the AsyncGradScaler may be destroyed in one of them.
template <class Policy>
class BackgroundScaler : public GradScaler<Policy> {
 public:
  BackgroundScaler(const Policy& policy, bool enabled, bool backs_off_twice)
      : GradScaler<Policy>(policy, enabled), decided(policy), updated_scale(policy.loss_scale()) {
    this->backs_off_once_ = !backs_off_twice;
  }

  /// `max_norm` is a number, or nullptr.
  template <class Optimizer, class MaxNorm, class... Args>
  auto step_at(float scale, Optimizer& optimizer, const MaxNorm& max_norm, Args&&... args) {
    this->iteration_.set_loss_scale(scale);
    if constexpr (std::is_same_v<MaxNorm, double>) {
      const GradientNorm norm = this->unscale_and_clip_(optimizer, max_norm);
      return ClippedStepResult{this->step(optimizer, std::forward<Args>(args)...), norm.norm};
    } else {
      return this->step(optimizer, std::forward<Args>(args)...);
    }
  }
  void end_iteration() {
    this->iteration_.end();
    decide();
  }
  void decide(std::uint64_t updates = 0) {
    decided = this->policy_;
    updated_scale = decided.loss_scale();
    updates_done += updates;
  }

  JobQueue jobs;
  // Of both threads, under the lock of the jobs; the scaler itself belongs to that thread.
  Policy decided;
  float updated_scale;  // by the last update that is done
  std::uint64_t updates_done = 0;
};

}  // namespace detail

struct AsyncGradScalerConfig {
  bool enabled = true;
  /// While one iteration is found to have overflowed, the next is already in flight with the same scale and overflows as well.
  /// False: the scale backs off once. True: twice, as in RoundPipe.
  bool backs_off_twice = false;
};

/// A GradScaler whose optimizers run in another thread than forward and backward, one iteration behind:
///
///     Optimizer optimizer;                   // before the scaler, whose destructor finishes what was submitted
///     headroom::AsyncGradScaler<> scaler;
///     for (int k = 0; …; ++k) {
///       backward(weights, scaler.scale(loss), gradients[k % 2]);         // the weights after step k - 2
///       scaler.submit_gradients(optimizer, std::ref(gradients[k % 2]));  // unscale, check and step over there
///       scaler.update();                                                 // waits for iteration k - 1, no longer
///     }
///     scaler.synchronize();
///
/// Whatever is submitted, and whatever a step changes, belongs to the other thread until the next but one update, or a
/// synchronize, has returned. Hence two sets of gradients, and weights that step k - 1 may write while those of step k - 2 are
/// read: examples/async_optimizer.cpp. RoundPipe's GradScaler has the same interface and timing.
///
/// An exception thrown in the other thread is rethrown by the next call here that can wait, and by the future of its step; work
/// queued behind it is dropped. One that nobody has received when the scaler is destroyed is lost. A scaler destroyed in the
/// other thread, by a step say, drops the work queued behind that. All calls must come from one thread, and not from the
/// optimizers' own: those throw std::logic_error, as calls in the wrong order do. Reducers and other callbacks run in the other
/// thread, with its rounding mode and device streams.
template <class Policy = DynamicLossScale>
class AsyncGradScaler {
 public:
  AsyncGradScaler() : AsyncGradScaler(Policy()) {}
  /// Throws std::system_error if no thread can be started.
  explicit AsyncGradScaler(const Policy& policy, AsyncGradScalerConfig config = {})
      : enabled_(config.enabled),
        main_scale_(policy.loss_scale()),
        there_(std::make_shared<There>(policy, config.enabled, config.backs_off_twice)),
        thread_({there_, &there_->jobs}) {}

  /// The outputs times the scale of this iteration: see GradScaler::scale.
  template <class Tree>
  [[nodiscard]] auto scale(Tree&& outputs) {
    check_caller("scale");
    if (!enabled_) return detail::unmodified(std::forward<Tree>(outputs));
    has_scaled_ = true;
    submitted_.loss_was_scaled();
    return headroom::scale(std::forward<Tree>(outputs), static_cast<double>(main_scale_));
  }

  /// Has the other thread unscale and check the gradients of an optimizer and, unless they overflowed, call its step with
  /// copies of `args`; what a std::ref refers to stays where it is. Once per iteration: std::logic_error the second time, if
  /// enabled. The returned future of a StepResult may be ignored. If the optimizer has only one set of gradients, do not write
  /// to it, nor read the weights, before a `synchronize`.
  template <class Optimizer, class... Args>
  auto submit(Optimizer& optimizer, Args... args) {
    detail::check_is_optimizer<Optimizer>();
    return enqueue_step(std::addressof(optimizer), nullptr, std::move(args)...);
  }
  /// The same, clipped as by GradScaler::unscale_and_clip_. Returns a future of a ClippedStepResult.
  template <class Optimizer, class... Args>
  auto submit_and_clip(Optimizer& optimizer, const double& max_norm, Args... args) {
    detail::check_is_optimizer<Optimizer>();
    return enqueue_step(std::addressof(optimizer), max_norm, std::move(args)...);
  }
  /// The same as submit with gradients of the caller's: a tree, or a std::ref to one, that is moved or copied to the other
  /// thread and becomes the first argument of the optimizer's step. In deferred mode the GradientFactor is the second.
  template <class Optimizer, class Tree, class... Args>
  auto submit_gradients(Optimizer& optimizer, Tree gradients, Args... args) {
    return enqueue_step(with_gradients<Args...>(optimizer, std::move(gradients)), nullptr, std::move(args)...);
  }
  /// The same, clipped.
  template <class Optimizer, class Tree, class... Args>
  auto submit_gradients_and_clip(Optimizer& optimizer, Tree gradients, const double& max_norm, Args... args) {
    return enqueue_step(with_gradients<Args...>(optimizer, std::move(gradients)), max_norm, std::move(args)...);
  }

  /// Ends the iteration: waits for the previous one, whose scale the next one gets, and has the other thread adjust the policy
  /// when it is done with this one. If not `is_async`, waits for this one as well, and the next one gets its scale. Throws
  /// std::logic_error if nothing has been submitted, and what was thrown in the other thread.
  void update(bool is_async = true) {
    check_caller("update");
    receive_error();
    if (enabled_ && submitted_.empty()) {
      detail::throw_logic_error({"update: nothing has been submitted since the last update; call submit(optimizer) first"});
    }
    wait_for_updates();
    start_iteration();
    ++updates_;
    (void)enqueue([](There& there) {
      there.update();
      there.jobs.locked([&there] { there.decide(1); });
    });
    if (!is_async) wait_for_updates();
  }
  /// Not update(new_scale): `configure` sets a scale.
  template <class T, std::enable_if_t<!std::is_same_v<T, bool>, int> = 0>
  void update(T) = delete;

  /// Waits until the other thread has done everything. The next iteration has the scale decided last; so does this one, unless
  /// a `scale` or `submit` has begun it.
  void synchronize() {
    check_caller("synchronize");
    wait_until_idle();
    if (submitted_.empty() && !has_scaled_) main_scale_ = there_->decided.loss_scale();
  }

  /// The scale of this iteration; 1 if disabled.
  [[nodiscard]] float get_scale() const {
    check_caller("get_scale");
    return enabled_ ? main_scale_ : 1.0F;
  }
  [[nodiscard]] bool is_enabled() const noexcept { return enabled_; }
  /// As the last finished update left it; with `up_to_date`, waits for the unfinished ones.
  [[nodiscard]] Policy policy(bool up_to_date = false) {
    if (up_to_date) {
      check_caller("policy");
      wait_until_idle();
    }
    return there_->jobs.locked([this] { return there_->decided; });
  }
  [[nodiscard]] double get_growth_factor(bool up_to_date = false) { return config(up_to_date).growth_factor; }
  [[nodiscard]] double get_backoff_factor(bool up_to_date = false) { return config(up_to_date).backoff_factor; }
  [[nodiscard]] std::int64_t get_growth_interval(bool up_to_date = false) { return config(up_to_date).growth_interval; }
  /// Calls f(GradScalerSettings<Policy>&) in the other thread, after what has been submitted: set_growth_factor, set_reducer,
  /// set_spike_guard, set_on_floor, update(new_scale), load_state_dict, … A scale set there holds from the next update after
  /// this call on; an iteration that has begun keeps its own.
  template <class F>
  void configure(F f) {
    check_caller("configure");
    receive_error();
    (void)enqueue([f = std::move(f)](There& there) mutable {
      f(static_cast<GradScalerSettings<Policy>&>(there));
      there.jobs.locked([&there] { there.decided = there.policy(); });
    });
  }

  /// As of a GradScaler, up to date, with the scale of this iteration as "main_scale". Throws std::logic_error if something has
  /// been submitted since the last update.
  [[nodiscard]] StateDict state_dict() {
    check_caller("state_dict");
    if (!submitted_.empty()) detail::throw_logic_error({"state_dict: call update before"});
    wait_until_idle();
    StateDict state = there_->state_dict();  // while the other thread has nothing to do
    state.add("main_scale", main_scale_);
    return enabled_ ? state : StateDict();
  }
  /// Begins an iteration from such a state, or a GradScaler's. Throws as that does, and then changes nothing.
  void load_state_dict(StateDict dict) {
    check_caller("load_state_dict");
    if (!enabled_) return;
    float main_scale = 0.0F;  // none
    if (dict.contains("main_scale")) {
      detail::StateReader{dict}("main_scale", main_scale);
      detail::check_loss_scale("main_scale", main_scale);
      (void)dict.erase("main_scale");
    }
    wait_until_idle();
    there_->load_state_dict(dict);  // while the other thread has nothing to do
    there_->decide();
    start_iteration();
    main_scale_ = main_scale > 0.0F ? main_scale : there_->updated_scale;
  }

 private:
  using There = detail::BackgroundScaler<Policy>;
  [[nodiscard]] LossScaleConfig config(bool up_to_date) { return detail::config_of(policy(up_to_date)); }
  void check_caller(const char* call) const {
    if (thread_.is_current()) {
      detail::throw_logic_error({call, ": not from the optimizer's thread, which would wait for itself"});
    }
  }
  void start_iteration() noexcept {
    submitted_.start_iteration(has_scaled_);
    has_scaled_ = false;
  }
  template <class... Args, class Optimizer, class Tree>
  static auto with_gradients(Optimizer& optimizer, Tree gradients) {
    using Owner = detail::WithGradients<Optimizer, Tree>;
    static_assert(std::is_invocable_v<detail::CallStep, Owner&, detail::Unwrapped<Args>...> ||
                      std::is_invocable_v<detail::CallStep, Owner&, GradientFactor, detail::Unwrapped<Args>...>,
                  "headroom: this optimizer has no member step(gradients, args...) for these gradients and arguments");
    return std::make_shared<Owner>(optimizer, std::move(gradients));
  }
  /// `optimizer` is a pointer, plain or shared; `max_norm` a number or nullptr.
  template <class Optimizer, class MaxNorm, class... Args>
  auto enqueue_step(Optimizer optimizer, const MaxNorm& max_norm, Args... args) {
    if constexpr (std::is_same_v<MaxNorm, double>) detail::check_max_norm(max_norm);
    check_caller("submit");
    receive_error();
    const detail::OptimizerId id = detail::id_of(*optimizer);
    if (enabled_ && submitted_.find(id) != nullptr) {
      detail::throw_logic_error({"submit: this optimizer has been submitted already since the last update; call update first"});
    }
    submitted_.check_is_current(submitted_.find_before(id), has_scaled_);
    submitted_.add(id).stepped = true;
    return enqueue([=, scale = main_scale_, args = std::make_tuple(std::move(args)...)](There& there) mutable {
      const auto step = [&](auto&&... each) {
        return there.step_at(scale, *optimizer, max_norm, std::forward<decltype(each)>(each)...);
      };
      return std::apply(step, std::move(args));
    });
  }
  /// Calls work(There&) in the other thread.
  template <class Work>
  auto enqueue(Work work) {
    return there_->jobs.enqueue([there = there_, work = std::move(work)]() mutable { return work(*there); });
  }

  void wait_for_updates() {
    there_->jobs.wait([this] { return there_->updates_done == updates_; });
    receive_error();
    main_scale_ = there_->jobs.locked([this] { return there_->updated_scale; });
  }
  void wait_until_idle() {
    there_->jobs.wait_until_idle();
    receive_error();
  }
  /// Rethrows what was thrown in the other thread, which has dropped the work queued behind it; the iteration begins anew.
  void receive_error() {
    there_->jobs.receive_error([this] {
      submitted_ = {};
      updates_ = there_->updates_done;
      there_->end_iteration();
      if (!has_scaled_) main_scale_ = there_->updated_scale;  // else there is a loss that has been scaled by it
    });
  }

  // Of the main thread.
  bool enabled_, has_scaled_ = false;
  float main_scale_;
  detail::OptimizerStates submitted_;  // without the places of their gradients, which belong to the other thread
  std::uint64_t updates_ = 0;
  std::shared_ptr<There> there_;
  detail::JobThread thread_;  // last: it ends before what it works on
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
