#pragma once

#include <headroom/detail/bits.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/gpu/gradients.hpp>
#include <headroom/gpu/runtime.hpp>
#include <headroom/ops/clip_factor.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/report.hpp>

#include <memory>
#include <optional>
#include <string>

// Loss scaling in the memory of a GPU: the policy lives there, and the device decides whether a
// step is taken. docs/gpu.md has the loop. Verbs that take a stream only launch kernels, so a graph
// may capture them; `fetch` copies, `read` and `set` wait.
//
// Every compiler takes the declarations. The definitions need nvcc, hipcc or clang -x cuda or hip:
// if .cpp files use a Scaler, a .cu file that is compiled with the same -m flags has the line
// `template class headroom::gpu::Scaler<>;`.

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace gpu {
/// What an optimizer's kernel reads, in the memory of the device.
struct Step {
  /// 1: do not step, as before the first `update`; 0: step. As torch's fused optimizers
  float found_inf = 1.0F;
  bool taken = false;  ///< found_inf == 0
  /// Scaled gradients times this are unscaled and clipped, as headroom::GradientFactor
  double factor = 0.0;
  double clip = 0.0;        ///< unscaled gradients times this are clipped
  float loss_scale = 1.0F;  ///< of this step's gradients; the Scaler has the next one by now
  long long count = 0;      ///< of steps taken, this one included: the t of Adam's bias correction
};

/// A policy and what it did last, for logs and checkpoints. `{policy}` is that of a new policy.
template <class Policy>
struct Snapshot {
  Policy policy;  ///< of the next step
  /// Of the last step's unscaled gradients, before clipping; norm is 0 if nothing was measured
  GradientNorm report{};
  float loss_scale = 1.0F;  ///< of the last step
  bool skipped = false;     ///< the last step
  long long steps = 0;      ///< all, skipped ones included
  long long skips = 0;      ///< the skipped ones
  /// The first gradient of the last skipped step that had an Inf or NaN: its index in its list,
  /// after those of the lists that the step used before. -1: none of this rank had
  long long first_overflow = -1;
};

namespace detail {
struct Sums {
  float loss_scale = 1.0F;
  float inf_elsewhere = 0.0F;
  unsigned long long max_abs = 0;  // unscaled: the bits of a double, which order as magnitudes do
  double sum_of_squares = 0.0;     // unscaled; without the list that was measured last
  unsigned overflow = 0;           // the largest ~index of a tensor with Inf or NaN; 0: none
};
template <class Policy>
struct State {
  Snapshot<Policy> snapshot;
  Step step;
  Sums now;
};
}  // namespace detail

/// A policy in the memory of the device. Any policy that is trivially copyable and whose
/// loss_scale() and adjust(GradientReport) are __host__ __device__. Use it with one stream at a
/// time. A step is one or more calls of measure, unscale and accumulate, for one list or several,
/// then `update`. Verbs throw std::logic_error, before they launch anything, if the step would
/// unscale or measure a list twice, or if another Scaler has a step with it that has not ended.
template <class Policy = DynamicLossScale>
class Scaler {
  static_assert(std::is_trivially_copyable_v<Policy>,
                "headroom: a policy on the device is copied as bytes");
  using State = detail::State<Policy>;

 public:
  /// Loads the kernels. Waits for the device, to compare some steps of the policy there with the
  /// host's. Throws std::logic_error if they differ, as they do if `adjust` calls host code and
  /// nvcc has --expt-relaxed-constexpr.
  explicit Scaler(const Policy& policy = Policy());

  // Addresses on the device. They stay the same while the object lives, even if it is moved.
  /// Of this step, until `update`
  [[nodiscard]] const float* loss_scale() const { return &state_->now.loss_scale; }
  /// Written by `update`
  [[nodiscard]] const Step* step() const { return &state_->step; }
  [[nodiscard]] const float* found_inf() const { return &state_->step.found_inf; }
  /// Your kernel writes 1: skip this step
  [[nodiscard]] float* inf_elsewhere() const { return &state_->now.inf_elsewhere; }
  /// After `total`: add up the ranks'
  [[nodiscard]] double* sum_of_squares() const { return &state_->now.sum_of_squares; }
  /// After `total`: the bits of a double >= 0, or of Inf. Replace it by the largest of all ranks.
  [[nodiscard]] unsigned long long* max_abs() const { return &state_->now.max_abs; }

  /// Reads the largest magnitude and the norm, with the bits of headroom::measure. After `unscale`
  /// or `accumulate` of the list in this step it reads what they wrote. Otherwise it reads
  /// gradients that carry the loss scale, and divides by it. One launch, two if this step has
  /// measured another list.
  void measure(const Gradients& gradients, cudaStream_t stream);
  void measure(const Gradients&&, cudaStream_t) = delete;  ///< a list lives until `update`
  /// Divides by the loss scale, into the destinations or in place, with the bits of
  /// headroom::unscale_into. The report is of what it stores. One launch. Refuses fp16 in place by
  /// std::logic_error, because most gradients would become 0: give a destination, use `measure` and
  /// Step::factor, or say unscale<allow_fp16_gradients>.
  template <class Allowed = void>
  void unscale(const Gradients& gradients, cudaStream_t stream) {
    if (!std::is_same_v<Allowed, allow_fp16_gradients> && gradients.fp16_in_place_)
      hd::throw_logic_error(
          {"unscale: gradients[", std::to_string(*gradients.fp16_in_place_),
           "] is fp16 without a destination, where most gradients would become 0"});
    launch_unscale(gradients, stream, false);
  }
  template <class Allowed = void>
  void unscale(const Gradients&&, cudaStream_t) = delete;
  void accumulate(const Gradients&&, cudaStream_t) = delete;
  /// destination += gradient / loss scale. The report is of the addends. Clear the destinations
  /// before, also after a skipped step, or call `unscale` first. Not after `measure` has read the
  /// sums. Throws std::logic_error without a destination.
  void accumulate(const Gradients& gradients, cudaStream_t stream) {
    if (gradients.in_place_)
      hd::throw_logic_error(
          {"accumulate: gradients[", std::to_string(*gradients.in_place_), "] has no destination"});
    launch_unscale(gradients, stream, true);
  }
  /// Ends the step: writes *step(), adjusts the policy and *loss_scale(). A norm above `max_norm`
  /// is clipped to it, by Step::factor and Step::clip. Throws std::invalid_argument if max_norm is
  /// negative or NaN, and std::logic_error if no verb ran since the last `update`, or if max_norm
  /// is finite and nothing was measured. One launch.
  void update(cudaStream_t stream, const double& max_norm = hd::infinity);
  /// For ranks, between the last verb and `update`: completes sum_of_squares() and max_abs().
  /// `replicas`: see GradientSums. Throws std::invalid_argument below 1. One launch.
  void total(cudaStream_t stream, int replicas = 1);
  /// Ends the step without a decision, as after an exception. Does not change *step().
  void abandon(cudaStream_t stream) {
    constexpr std::size_t kept = offsetof(detail::Sums, inf_elsewhere);  // the loss scale
    home_.check_current("abandon");
    detail::check("cudaMemsetAsync",
                  cudaMemsetAsync(inf_elsewhere(), 0, sizeof(detail::Sums) - kept, stream));
    begin_step();
  }
  /// Goes on from a snapshot, at the same addresses, with a new step. Not for captured streams.
  void set(const Snapshot<Policy>& snapshot, cudaStream_t stream) {
    const State state{snapshot, {}, {snapshot.policy.loss_scale()}};
    detail::check("cudaMemcpyAsync", cudaMemcpyAsync(state_.get(), &state, sizeof state,
                                                     cudaMemcpyHostToDevice, stream));
    // `state` is read until then
    detail::check("cudaStreamSynchronize", cudaStreamSynchronize(stream));
    is_fetching_ = false;
    begin_step();
  }

  /// Begins to copy a snapshot to the host, unless one is under way. Not for captured streams.
  void fetch(cudaStream_t stream) {
    if (is_fetching_ && !has_arrived()) return;
    detail::check("cudaMemcpyAsync", cudaMemcpyAsync(fetched_.get(), state_.get(), sizeof(State),
                                                     cudaMemcpyDeviceToHost, stream));
    detail::check("cudaEventRecord", cudaEventRecord(arrived_.get(), stream));
    is_fetching_ = true;
  }
  /// The snapshot that was fetched last, if it has arrived. Does not wait.
  [[nodiscard]] std::optional<Snapshot<Policy>> poll() const {
    if (!is_fetching_ || !has_arrived()) return std::nullopt;
    return fetched_->snapshot;
  }
  /// Waits for the stream, and returns a snapshot.
  [[nodiscard]] Snapshot<Policy> read(cudaStream_t stream) {
    if (is_fetching_) detail::check("cudaEventSynchronize", cudaEventSynchronize(arrived_.get()));
    fetch(stream);
    detail::check("cudaEventSynchronize", cudaEventSynchronize(arrived_.get()));
    return fetched_->snapshot;
  }

 private:
  void launch_unscale(const Gradients& gradients, cudaStream_t stream, bool adds);
  [[noreturn]] static void refuse(const char* verb, const char* what) {
    hd::throw_logic_error({verb, ": these gradients were ", what,
                           "; call update to end that step, or abandon to give it up"});
  }
  /// What this step has done to the list.
  [[nodiscard]] detail::Use use_of(const Gradients& gradients, const char* verb) const {
    home_.check_current(verb);
    gradients.home_.check_current(verb, "the list");
    const detail::Use& last = gradients.use_;
    if (!last.is_open()) return {ended_steps_, *ended_steps_, n_tensors_};
    if (last.ended_steps.lock() != ended_steps_) refuse(verb, "used in a step of another Scaler");
    return last;
  }
  void note(const detail::Use& use, const Gradients& gradients) {
    gradients.use_ = use;
    n_tensors_ =
        hd::larger_of(n_tensors_, use.n_before + static_cast<unsigned>(gradients.all_.size()));
    is_begun_ = true;
  }
  void begin_step() {
    ++*ended_steps_;
    measured_ = {};
    n_tensors_ = 0;
    is_begun_ = is_measured_ = false;
  }
  [[nodiscard]] bool has_arrived() const {
    const cudaError_t earlier = cudaPeekAtLastError(), error = cudaEventQuery(arrived_.get());
    // Or the caller would find it
    if (error == cudaErrorNotReady && earlier == cudaSuccess) (void)cudaGetLastError();
    if (error != cudaErrorNotReady) detail::check("cudaEventQuery", error);
    return error == cudaSuccess;
  }

  detail::Home home_;
  std::shared_ptr<long long> ended_steps_ = std::make_shared<long long>(0);
  detail::Memory<State> state_;
  std::unique_ptr<State, detail::Destroy<&cudaFreeHost>> fetched_;
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, detail::Destroy<&cudaEventDestroy>> arrived_;
  bool is_fetching_ = false;
  detail::List measured_;   // last; its sums are still to be added up
  unsigned n_tensors_ = 0;  // of the lists that this step has used
  bool is_begun_ = false, is_measured_ = false;
};
}  // namespace gpu
HEADROOM_DETAIL_END_NAMESPACE

#if defined(__CUDACC__) || defined(__HIP__)
#include <headroom/gpu/launch.inl>
#endif
