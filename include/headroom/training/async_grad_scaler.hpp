#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/ops/scale.hpp>
#include <headroom/state/fields.hpp>
#include <headroom/training/grad_scaler.hpp>

#if !HEADROOM_THREADS
#error "headroom: AsyncGradScaler needs threads, and HEADROOM_THREADS is 0, as it is if the standard library has none"
#endif

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The settings of an AsyncGradScaler.
struct AsyncGradScalerConfig {
  bool enabled = true;  ///< false: no scale, no checks
  /// When an overflow is found, the next iteration has already begun with the same scale and overflows too. False: the scale
  /// backs off once. True: twice, as in RoundPipe.
  bool backs_off_twice = false;
};

/// A GradScaler whose optimizers run in another thread than forward and backward, one iteration behind:
///
///     Optimizer optimizer;                 // outlives the scaler, whose destructor finishes what was submitted
///     headroom::AsyncGradScaler<> scaler;  // a backward by hand starts from scaler.scale(1.0F)
///     for (int k = 0; …; ++k) {
///       backward(weights, scaler.scale(loss), gradients[k % 2]);         // the weights after step k - 2
///       scaler.submit_gradients(optimizer, std::ref(gradients[k % 2]));  // unscales, checks and steps in the other thread
///       scaler.update();                                                 // waits for iteration k - 1
///     }
///     scaler.synchronize();
///
/// Do not touch submitted gradients, or weights that a step changes, until `update` has returned twice more or `synchronize`
/// once. So keep two sets of gradients, and two sets of weights: step k - 1 writes one while forward reads that of step k - 2.
/// See examples/async_optimizer.cpp. RoundPipe's GradScaler has the same interface and timing.
///
/// The future of a step rethrows what the step throws. So does the next `update`, `synchronize` or other call that waits for
/// it. That call drops the queued work and begins an iteration. Make all calls from one thread, and none from an optimizer's
/// step. Reducers and other callbacks run in the other thread.
template <class Policy = DynamicLossScale>
class AsyncGradScaler {
 public:
  AsyncGradScaler() : AsyncGradScaler(Policy()) {}
  /// Throws std::system_error if no thread can be started.
  explicit AsyncGradScaler(const Policy& policy, AsyncGradScalerConfig config = {})
      : config_(config), main_scale_(policy.loss_scale()), decided_(policy), scaler_(policy, config.enabled), thread_([this] {
          run();
        }) {}
  ~AsyncGradScaler() {
    (void)push([this] { is_ending_ = true; });
    thread_.join();
  }

  /// The outputs, usually the loss, times the scale of this iteration: see GradScaler::scale.
  template <class Tree>
  [[nodiscard]] auto scale(Tree&& outputs) {
    has_scaled_ = is_enabled();
    return headroom::scale(std::forward<Tree>(outputs), static_cast<double>(get_scale()));
  }

  /// Has the other thread call GradScaler::step(optimizer, args...) with copies of `args`; std::ref avoids a copy. Returns a
  /// future of the StepResult, which you may ignore. Once per optimizer and iteration.
  template <class Optimizer, class... Args>
  auto submit(Optimizer& optimizer, Args... args) {
    const auto step = [this, &optimizer](auto&&... each) {
      return scaler_.step(optimizer, std::forward<decltype(each)>(each)...);
    };
    return submit_step(std::addressof(optimizer), step, std::move(args)...);
  }
  /// The same with your own tree of gradients. A tree is moved or copied to the other thread; a std::ref to one is not.
  /// Unscales it as GradScaler::step_gradients does, and calls `optimizer.step(gradients, args...)`.
  template <class Optimizer, class Tree, class... Args>
  auto submit_gradients(Optimizer& optimizer, Tree gradients, Args... args) {
    const auto step = [this, &optimizer](auto&& tree, auto&&... each) {
      return scaler_.step_gradients(tree, [&](auto& unscaled) -> decltype(auto) {
        return optimizer.step(unscaled, std::forward<decltype(each)>(each)...);
      });
    };
    return submit_step(std::addressof(optimizer), step, std::move(gradients), std::move(args)...);
  }

  /// Ends the iteration. Waits for the previous one, whose scale the next one gets. The other thread adjusts the policy when it
  /// has finished this one. If not `is_async`, waits for this one too, and the next one gets its scale. Throws std::logic_error
  /// if nothing has been submitted, and rethrows errors of the other thread.
  void update(bool is_async = true) {
    if (is_enabled() && submitted_.empty()) {
      detail::throw_logic_error({"update: nothing has been submitted since the last update; call submit(optimizer) first"});
    }
    wait_for_update();
    start_iteration();
    updated_ = enqueue([this] {
      const std::optional<GradientReport> all = scaler_.report_of_all();
      // If the policy's scale is below that of the losses, it has already backed off for this overflow.
      const bool is_answered = !config_.backs_off_twice && scaler_.gradient_scale() > scaler_.get_scale();
      if (!all || (!all->finite && is_answered)) scaler_.abandon();
      scaler_.update();
      return scaler_.policy();
    });
    if (!is_async) wait_for_update();
  }
  /// To set a scale use `configure`.
  template <class T, std::enable_if_t<!std::is_same_v<T, bool>, int> = 0>
  void update(T) = delete;

  /// Waits until the other thread has finished all work. The next iteration gets the latest scale. So does this one, unless
  /// `scale` or `submit` has begun it.
  void synchronize() {
    wait_until_idle();
    if (!submitted_.empty() || has_scaled_) return;
    main_scale_ = decided_.loss_scale();
    scaler_.is_new_policy_ = false;  // this iteration may adjust a policy that `configure` has set
  }

  /// The scale of this iteration; 1 if disabled.
  [[nodiscard]] float get_scale() const noexcept { return is_enabled() ? main_scale_ : 1.0F; }
  [[nodiscard]] bool is_enabled() const noexcept { return scaler_.is_enabled(); }  ///< false: no scale, no checks
  /// The policy after the last update that this thread has waited for. With `up_to_date`, waits for all work.
  [[nodiscard]] const Policy& policy(bool up_to_date = false) {
    if (up_to_date) wait_until_idle();
    return decided_;
  }
  /// Calls f(GradScaler<Policy>&) in the other thread after the work submitted so far, for set_reducer, update(new_scale) and
  /// other members. A scale or policy set by `f` applies to losses after two more calls of `update`. `synchronize` applies it
  /// at once if no loss has been scaled since the last `update`.
  template <class F>
  void configure(F f) {
    (void)enqueue([this, f = std::move(f), scale = get_scale()]() mutable {
      scaler_.iteration_scale_ = scale;  // the iteration has begun: see GradScaler::set_policy
      f(scaler_);
    });
  }

  /// A GradScaler's state after all submitted work, and this iteration's scale as "main_scale". Throws std::logic_error if
  /// something has been submitted since the last `update`.
  [[nodiscard]] StateDict state_dict() {
    if (!submitted_.empty()) detail::throw_logic_error({"state_dict: call update before"});
    wait_until_idle();
    StateDict state = scaler_.state_dict();
    if (is_enabled()) state.add("main_scale", main_scale_);
    return state;
  }
  /// Begins an iteration from such a state, or from a GradScaler's. If it throws, as GradScaler's does, nothing has changed.
  void load_state_dict(StateDict state) {
    if (!is_enabled()) return;
    float main_scale = 0.0F;  // none
    detail::StateReader(state).read_scale("main_scale", main_scale);
    (void)state.erase("main_scale");
    wait_until_idle();
    scaler_.load_state_dict(state);
    restart();
    start_iteration();
    main_scale_ = main_scale > 0.0F ? main_scale : decided_.loss_scale();
  }

 private:
  void start_iteration() noexcept {
    needs_scale_ = needs_scale_ || has_scaled_;
    has_scaled_ = false;
    submitted_.clear();
  }
  /// Has the other thread call step(args...).
  template <class Step, class... Args>
  auto submit_step(const void* optimizer, const Step& step, Args... args) {
    if (is_enabled() && std::find(submitted_.begin(), submitted_.end(), optimizer) != submitted_.end()) {
      detail::throw_logic_error({"submit: this optimizer has been submitted already since the last update; call update first"});
    }
    if (needs_scale_ && !has_scaled_) {
      detail::throw_logic_error({"submit: no loss has been scaled since the last update or load_state_dict; call scale first"});
    }
    submitted_.push_back(optimizer);
    return enqueue([this, step, all = std::make_tuple(std::move(args)...), scale = get_scale()]() mutable {
      scaler_.iteration_scale_ = scale;
      return std::apply(step, std::move(all));
    });
  }
  void wait_for_update() {
    HEADROOM_DETAIL_TRY {
      if (updated_.valid()) decided_ = updated_.get();
    }
    HEADROOM_DETAIL_CATCH {
      wait_until_idle();  // rethrows the error
    }
    main_scale_ = decided_.loss_scale();
  }
  /// Afterwards this thread may use scaler_ until it pushes work.
  void wait_until_idle() {
    const std::exception_ptr error = push([this] { return std::exchange(error_, nullptr); }).get();
    decided_ = scaler_.policy();
    if (!error) return;
    restart();
    if (!has_scaled_) main_scale_ = decided_.loss_scale();  // a scaled loss keeps its scale
    std::rethrow_exception(error);
  }
  /// Begins an iteration with the current policy. The other thread must be idle.
  void restart() {
    scaler_.abandon();
    decided_ = scaler_.policy();
    updated_ = {};
    submitted_.clear();
  }

  // ---- the queue ----

  /// Has the other thread call work().
  template <class Work>
  auto push(Work work) {
    std::packaged_task<decltype(work())()> job(std::move(work));
    auto result = job.get_future();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      jobs_.emplace_back(std::move(job));
    }
    changed_.notify_one();
    return result;
  }
  /// The same, but skips the work if earlier work has thrown.
  template <class Work>
  auto enqueue(Work work) {
    return push([this, work = std::move(work)]() mutable {
      if (error_) std::rethrow_exception(error_);
      HEADROOM_DETAIL_TRY { return work(); }
      HEADROOM_DETAIL_CATCH {
        error_ = std::current_exception();
        std::rethrow_exception(error_);
      }
    });
  }
  void run() {
    while (!is_ending_) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !jobs_.empty(); });
      std::packaged_task<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
  }

  // Of the caller's thread.
  AsyncGradScalerConfig config_;
  bool has_scaled_ = false, needs_scale_ = false;  // as in GradScaler
  float main_scale_;                               // of the iteration
  std::vector<const void*> submitted_;             // the iteration's optimizers
  std::future<Policy> updated_;                    // of the last update, if this thread has not waited for it
  Policy decided_;                                 // the latest that this thread has received

  // Of the other thread, unless it is idle.
  GradScaler<Policy> scaler_;
  std::exception_ptr error_;
  bool is_ending_ = false;

  // Of both threads.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> jobs_;

  std::thread thread_;  // declared last, because it uses the members above
};

HEADROOM_DETAIL_END_NAMESPACE
