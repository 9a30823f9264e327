#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/job_thread.hpp>
#include <headroom/training/grad_scaler.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {

struct AsyncGradScalerConfig {
  bool enabled = true;
  /// An iteration is in flight when the one before it is found to have overflowed, and overflows as well. False: the scale
  /// backs off once. True: twice, as in RoundPipe.
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
/// At most one iteration is in flight while the next is computed. What is submitted, and what a step changes, belongs to the
/// other thread until the next but one update, or a synchronize, has returned: hence two sets of gradients, and weights that
/// the step of k - 1 may write while those of k - 2 are read. examples/async_optimizer.cpp has all of it.
///
/// What is thrown over there is thrown by the next call here that can wait (and by the future of its step); the work behind it
/// is dropped. What nobody has received when the scaler is destroyed is lost. All calls are for one thread, and none for the
/// optimizers' own: those are std::logic_error, as calls in the wrong order are. Reducers and other callbacks run over there,
/// with that thread's rounding mode and device streams. RoundPipe's GradScaler has the same interface and timing.
template <class Policy = DynamicLossScale>
class AsyncGradScaler {
 public:
  explicit AsyncGradScaler(const Policy& policy = Policy(), AsyncGradScalerConfig config = {})
      : enabled_(config.enabled),
        main_scale_(policy.loss_scale()),
        decided_(policy),
        updated_scale_(policy.loss_scale()),
        scaler_(policy, config.enabled) {
    scaler_.backs_off_once_ = !config.backs_off_twice;
  }

  /// The outputs times the scale of this iteration: see GradScaler::scale.
  template <class Tree>
  [[nodiscard]] auto scale(Tree&& outputs) {
    check_caller("scale");
    has_scaled_ = true;
    if (!enabled_) return detail::unmodified(std::forward<Tree>(outputs));
    return ConstantLossScale(main_scale_).scale(std::forward<Tree>(outputs));
  }

  /// Lets the other thread unscale and check the gradients of an optimizer and, unless they overflowed, call its step with
  /// copies of `args`. Once an iteration: std::logic_error the second time. The future may be ignored. Gradients that the
  /// optimizer has only one of are not to be written, nor its weights read, before a `synchronize`: with optimizers like those
  /// of libtorch nothing overlaps but what lies between.
  template <class Optimizer, class... Args>
  auto submit(Optimizer& optimizer, Args... args) {
    detail::check_is_optimizer<Optimizer>();
    begin_submit(&optimizer);
    return enqueue([this, &optimizer, scale = main_scale_, args = std::make_tuple(std::move(args)...)]() mutable {
      scaler_.iteration_scale_ = scale;
      return std::apply([&](auto&... each) { return scaler_.step(optimizer, std::move(each)...); }, args);
    });
  }
  /// The same with gradients of the caller's, a tree that is moved (or copied) over there and is the first argument of the
  /// optimizer's step. What it only refers to, as std::ref(buffer) does, belongs to the other thread until the next but one
  /// update has returned: two buffers that take turns will do. In deferred mode the GradientFactor is the second argument.
  template <class Optimizer, class Tree, class... Args>
  auto submit_gradients(Optimizer& optimizer, Tree gradients, Args... args) {
    using Owner = detail::WithGradients<Optimizer, Tree>;
    static_assert(std::is_invocable_v<detail::CallStep, Owner&, Args...> ||
                      std::is_invocable_v<detail::CallStep, Owner&, GradientFactor, Args...>,
                  "headroom: this optimizer has no member step(gradients, args...) for these gradients and arguments");
    begin_submit(&optimizer);
    auto owner = std::make_shared<Owner>(optimizer, std::move(gradients));
    return enqueue([this, owner, scale = main_scale_, args = std::make_tuple(std::move(args)...)]() mutable {
      scaler_.iteration_scale_ = scale;
      return std::apply([&](auto&... each) { return scaler_.step(*owner, std::move(each)...); }, args);
    });
  }

  /// Ends the iteration: waits for the one before, whose scale the next one gets, and lets the other thread adjust the policy
  /// when it is done with this one. Not asynchronous: waits for this one, too, whose scale the next one gets. Throws
  /// std::logic_error where nothing has been submitted, and what was thrown over there.
  void update(bool is_async = true) {
    check_caller("update");
    receive_error();
    if (enabled_ && submitted_.empty()) {
      detail::throw_logic_error("update: nothing has been submitted since the last update; call submit(optimizer) first");
    }
    wait_for_updates();
    submitted_.clear();
    has_scaled_ = false;
    ++updates_;
    (void)enqueue([this] {
      scaler_.update();
      thread_.locked([this] {
        decided_ = scaler_.policy();
        updated_scale_ = decided_.loss_scale();
        ++updates_done_;
      });
    });
    if (!is_async) wait_for_updates();
  }
  /// Not update(new_scale): `configure` sets a scale.
  template <class T, std::enable_if_t<!std::is_same_v<T, bool>, int> = 0>
  void update(T) = delete;

  /// Waits until the other thread has done everything. The next iteration has the scale decided last; so has this one, unless
  /// it has begun with a `scale` or `submit`.
  void synchronize() {
    check_caller("synchronize");
    wait_until_idle();
    if (submitted_.empty() && !has_scaled_) main_scale_ = decided_.loss_scale();
  }

  /// Of this iteration; 1 where disabled.
  [[nodiscard]] float get_scale() const {
    check_caller("get_scale");
    return enabled_ ? main_scale_ : 1.0F;
  }
  [[nodiscard]] bool is_enabled() const noexcept { return enabled_; }
  /// As the last update that is done has left it. `up_to_date`: waits for those that are not.
  [[nodiscard]] Policy policy(bool up_to_date = false) {
    if (up_to_date) {
      check_caller("policy");
      wait_until_idle();
    }
    return thread_.locked([this] { return decided_; });
  }
  template <class P = Policy>
  [[nodiscard]] auto get_growth_factor(bool up_to_date = false)
      -> decltype(detail::config_of(std::declval<const P&>()).growth_factor) {
    return detail::config_of(policy(up_to_date)).growth_factor;
  }
  template <class P = Policy>
  [[nodiscard]] auto get_backoff_factor(bool up_to_date = false)
      -> decltype(detail::config_of(std::declval<const P&>()).backoff_factor) {
    return detail::config_of(policy(up_to_date)).backoff_factor;
  }
  template <class P = Policy>
  [[nodiscard]] auto get_growth_interval(bool up_to_date = false)
      -> decltype(detail::config_of(std::declval<const P&>()).growth_interval) {
    return detail::config_of(policy(up_to_date)).growth_interval;
  }
  /// Calls f(GradScaler<Policy>&) over there, behind what has been submitted: set_growth_factor, set_reducer, set_on_floor … A
  /// scale that it sets is that of the iterations after the next update that follows it.
  template <class F>
  void configure(F f) {
    check_caller("configure");
    receive_error();
    (void)enqueue([this, f = std::move(f)]() mutable {
      f(scaler_);
      thread_.locked([this] { decided_ = scaler_.policy(); });
    });
  }

  /// That of the policy, up to date, and the scale of this iteration as "main_scale". Throws std::logic_error where something
  /// has been submitted since the last update.
  [[nodiscard]] StateDict state_dict() {
    check_caller("state_dict");
    if (!submitted_.empty()) detail::throw_logic_error("state_dict: call update before");
    StateDict state = policy(true).state_dict();
    state.add("main_scale", main_scale_);
    return enabled_ ? state : StateDict();
  }
  /// Begins an iteration from such a state, or that of a GradScaler. Throws std::invalid_argument as Policy::from_state_dict
  /// does, and then changes nothing.
  void load_state_dict(StateDict dict) {
    check_caller("load_state_dict");
    if (!enabled_) return;
    float main_scale = 0.0F;
    const bool has_scale = dict.contains("main_scale");
    if (has_scale) {
      detail::StateReader(dict, false)("main_scale", main_scale);
      detail::check_loss_scale("main_scale", main_scale);
      (void)dict.erase("main_scale");
    }
    const Policy loaded = Policy::from_state_dict(dict);
    wait_until_idle();
    scaler_.load_state_dict(dict);  // while the other thread has nothing to do
    decided_ = loaded;
    updated_scale_ = loaded.loss_scale();
    submitted_.clear();
    has_scaled_ = false;
    main_scale_ = has_scale ? main_scale : loaded.loss_scale();
  }

 private:
  void check_caller(const char* call) const {
    if (thread_.is_current()) {
      detail::throw_logic_error(std::string(call) + ": not from the optimizer's thread, which would wait for itself");
    }
  }
  void begin_submit(const void* optimizer) {
    check_caller("submit");
    receive_error();
    if (enabled_ && std::find(submitted_.begin(), submitted_.end(), optimizer) != submitted_.end()) {
      detail::throw_logic_error("submit: this optimizer has been submitted already since the last update; call update first");
    }
    submitted_.push_back(optimizer);
  }
  template <class Work>
  auto enqueue(Work work) {
    return thread_.enqueue(std::move(work));
  }

  void wait_for_updates() {
    thread_.wait([this] { return updates_done_ == updates_; });
    receive_error();
    main_scale_ = thread_.locked([this] { return updated_scale_; });
  }
  void wait_until_idle() {
    thread_.wait_until_idle();
    receive_error();
  }
  /// Throws what was thrown over there, where the work behind it has been dropped: the iteration begins anew.
  void receive_error() {
    thread_.receive_error([this] {
      submitted_.clear();
      updates_ = updates_done_;
      scaler_.start_iteration();
      decided_ = scaler_.policy();
      updated_scale_ = decided_.loss_scale();
      if (!has_scaled_) main_scale_ = updated_scale_;  // else there is a loss that has been scaled by it
    });
  }

  // Of the main thread.
  bool enabled_, has_scaled_ = false;
  float main_scale_;
  std::vector<const void*> submitted_;
  std::uint64_t updates_ = 0;
  // Of both, under the thread's lock.
  Policy decided_;
  float updated_scale_;  // by the last update that is done
  std::uint64_t updates_done_ = 0;
  // Of the optimizer's thread.
  GradScaler<Policy> scaler_;
  detail::JobThread thread_;  // last: it ends before what it works on
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
