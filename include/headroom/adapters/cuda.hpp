#pragma once

#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/ops/clip_factor.hpp>
#include <headroom/policy/dynamic.hpp>
#include <headroom/report.hpp>
#include <headroom/tree/any_tensor.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

// Loss scaling in the memory of a GPU: the policy lives there, and the device decides whether a step is taken. docs/gpu.md has
// the loop. Verbs that take a stream only launch kernels, so a graph may capture them; `fetch` copies, `read` and `set` wait.
//
// Every compiler takes the declarations. The definitions need nvcc or clang -x cuda: if .cpp files use a LossScale, a .cu file
// that is compiled with the same -m flags has the line `template class headroom::gpu::LossScale<>;`.

struct __half;
struct __nv_bfloat16;

HEADROOM_DETAIL_BEGIN_NAMESPACE

template <>
struct dtype_traits<::__half> : detail::has_format<binary16> {};
template <>
struct dtype_traits<::__nv_bfloat16> : detail::has_format<brain16> {};

namespace gpu {
namespace hd = headroom::detail;

/// The dtype of T, which is float, double, __half, __nv_bfloat16, or a type that has the dtype_traits of one of these.
template <class T>
[[nodiscard]] constexpr dtype_code dtype_of() {
  using Format = hd::format_of<T>;
  constexpr std::size_t bytes = sizeof(typename Format::bits_type);
  static_assert(bytes > 1, "headroom: gradients on a GPU are float, double, fp16 or bf16");
  if (bytes > 2) return bytes == 4 ? dtype_code::fp32 : dtype_code::fp64;
  return Format::exponent_bits == 5 ? dtype_code::fp16 : dtype_code::bf16;
}

/// A contiguous tensor in the memory of the device.
struct Gradient {
  void* data;                    ///< the first element
  std::size_t size;              ///< number of elements
  dtype_code dtype;              ///< fp16, bf16, fp32 or fp64
  float* destination = nullptr;  ///< as many floats, for `unscale` and `accumulate`; null: the gradient itself

  /// T is a type that dtype_of takes.
  template <class T>
  Gradient(T* first, std::size_t n, float* to = nullptr) : data(first), size(n), dtype(dtype_of<T>()), destination(to) {}
  /// Of a dtype known at run time.
  Gradient(void* first, std::size_t n, dtype_code code, float* to = nullptr)
      : data(first), size(n), dtype(code), destination(to) {}
};

/// What an optimizer's kernel reads, in the memory of the device.
struct Step {
  float found_inf = 1.0F;   ///< 1: do not step, as before the first `update`; 0: step. As torch's fused optimizers
  bool taken = false;       ///< found_inf == 0
  double factor = 0.0;      ///< scaled gradients times this are unscaled and clipped, as headroom::GradientFactor
  double clip = 0.0;        ///< unscaled gradients times this are clipped
  float loss_scale = 1.0F;  ///< of this step's gradients; the LossScale has the next one by now
  long long count = 0;      ///< of steps taken, this one included: the t of Adam's bias correction
};

/// A policy and what it did last, for logs and checkpoints. `{policy}` is that of a policy before its first step.
template <class Policy>
struct Snapshot {
  Policy policy;            ///< of the next step
  GradientNorm report{};    ///< of the last step's unscaled gradients, before clipping; norm is 0 if nothing was measured
  float loss_scale = 1.0F;  ///< of the last step
  bool skipped = false;     ///< the last step
  long long steps = 0;      ///< all, skipped ones included
  long long skips = 0;      ///< the skipped ones
};

namespace detail {

/// Throws std::runtime_error if a call of CUDA failed.
inline void check(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // or the caller's next check would find it
  hd::throw_error<std::runtime_error>({call, ": ", cudaGetErrorString(error)});
}
template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    (void)destroy(object);
  }
};
template <class T>
using Memory = std::unique_ptr<T, Destroy<&cudaFree>>;
/// Memory of the device with a copy of `n` values; null if there are none.
template <class T>
Memory<T> copied(std::size_t n, const T* values) {
  void* memory = nullptr;
  if (n == 0) return nullptr;
  check("cudaMalloc", cudaMalloc(&memory, n * sizeof(T)));
  Memory<T> result(static_cast<T*>(memory));
  check("cudaMemcpy", cudaMemcpy(memory, values, n * sizeof(T), cudaMemcpyHostToDevice));
  check("cudaStreamSynchronize", cudaStreamSynchronize(nullptr));  // it may not have arrived, and other streams do not wait
  return result;
}

// The CPU's numbers, so that norms have its bits: kernel/isa/common.hpp, kernel/measure.inl, ops/run.hpp.
inline constexpr unsigned chunk_size = 65536;    // the most elements of a group
inline constexpr unsigned square_block = 512;    // elements whose squares are summed in float
inline constexpr unsigned groups_per_sum = 256;  // whose sums are added one after another

// Threads of a block, the fastest that were tried: docs/notes/gpu.md.
inline constexpr unsigned threads = 256, few_threads = 128, most_threads = 512;
inline constexpr unsigned few_groups = 128;  // A list of fewer groups has more threads for each,
inline constexpr unsigned sharing = 16;      // and so many blocks that unscale one.

/// Elements of one tensor.
struct Part {
  const unsigned char* source;
  unsigned char* destination;
  std::size_t size;
  dtype_code from, to;

  /// Up to `most` elements from `begin` on.
  [[nodiscard]] HEADROOM_DETAIL_HD Part cut(std::size_t begin, std::size_t most) const {
    const std::size_t n = size - begin < most ? size - begin : most;
    return {source + begin * bytes_of(from), destination + begin * bytes_of(to), n, from, to};
  }
  HEADROOM_DETAIL_HD static std::size_t bytes_of(dtype_code dtype) { return (static_cast<std::uint32_t>(dtype) & 0xFFU) / 8; }
};
/// What one block of threads works on: up to `chunk_size` elements of a dtype, which have one sum of squares. `count` parts of
/// up to `square_block` elements: those of `part`, or, if its size is 0, of several tensors, from `first` on in a list.
struct Group {
  Part part;
  unsigned first, count;
};

/// A list of gradients.
struct List {
  const Group* groups = nullptr;
  const Part* parts = nullptr;
  double* sums = nullptr;  // of squares, by group
  unsigned n_groups = 0;
};
/// One step.
struct Iteration {
  float loss_scale = 1.0F;
  float inf_elsewhere = 0.0F;
  unsigned long long largest = 0;  // unscaled: the bits of a double, which order as magnitudes do
  double sum_of_squares = 0.0;     // unscaled; without the list that was measured last
};
template <class Policy>
struct State {
  Snapshot<Policy> snapshot;
  Step step;
  Iteration now;
};

}  // namespace detail

/// Gradients whose addresses and sizes stay the same from step to step. Lives until `update` of a step that uses it.
class Gradients {
 public:
  /// Waits for the device. Throws std::invalid_argument, which names the index, if a dtype is none of the four.
  explicit Gradients(const std::vector<Gradient>& gradients = {}) {
    std::vector<detail::Group> groups;
    std::vector<detail::Part> parts;
    std::size_t room = 0;  // in the last group, if it has whole tensors
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Gradient& g = gradients[i];
      if (const int index = hd::dtype_index(g.dtype); index < 0 || index > 3)
        hd::throw_invalid_argument({"gradients[", std::to_string(i), "].dtype is none of fp16, bf16, fp32 and fp64"});
      if (g.destination == nullptr && in_place_ == none) in_place_ = i;
      if (g.destination == nullptr && g.dtype == dtype_code::fp16 && fp16_in_place_ == none) fp16_in_place_ = i;
      void* const to = g.destination != nullptr ? g.destination : g.data;
      const detail::Part whole{static_cast<const unsigned char*>(g.data), static_cast<unsigned char*>(to), g.size, g.dtype,
                               g.destination != nullptr ? dtype_code::fp32 : g.dtype};
      // The groups of ops/run.hpp: neighbours of one dtype, or a chunk of a longer tensor.
      const bool is_long = g.size > detail::chunk_size;
      if (i > 0 && g.dtype != gradients[i - 1].dtype) room = 0;
      if (!is_long && g.size > room) {
        groups.push_back({whole.cut(0, 0), static_cast<unsigned>(parts.size()), 0});
        room = detail::chunk_size;
      }
      room = is_long ? 0 : room - g.size;
      for (std::size_t at = 0; at < g.size; at += detail::square_block) {
        if (is_long && at % detail::chunk_size == 0) groups.push_back({whole.cut(at, detail::chunk_size), 0, 0});
        if (!is_long) parts.push_back(whole.cut(at, detail::square_block));
        ++groups.back().count;
      }
    }
    groups_ = detail::copied(groups.size(), groups.data());
    parts_ = detail::copied(parts.size(), parts.data());
    sums_ = detail::copied(groups.size(), std::vector<double>(groups.size()).data());
    list_ = {groups_.get(), parts_.get(), sums_.get(), static_cast<unsigned>(groups.size())};
  }

 private:
  template <class Policy>
  friend class LossScale;
  static constexpr std::size_t none = SIZE_MAX;

  detail::Memory<detail::Group> groups_;
  detail::Memory<detail::Part> parts_;
  detail::Memory<double> sums_;
  detail::List list_;
  std::size_t in_place_ = none, fp16_in_place_ = none;  // the first ones
};

/// A policy in the memory of the device. Any policy that is trivially copyable and whose loss_scale() and
/// adjust(GradientReport) are __host__ __device__. Use it with one stream at a time. A step is one or more calls of
/// measure, measure_unscaled, unscale and accumulate, for one list or several, then `update`. Measure each list at most once.
template <class Policy = DynamicLossScale>
class LossScale {
  static_assert(std::is_trivially_copyable_v<Policy>, "headroom: a policy on the device is copied as bytes");
  using State = detail::State<Policy>;

 public:
  /// Waits for the device, to compare some steps of the policy there with the host's. Throws std::logic_error if they differ,
  /// as they do if `adjust` calls host code and nvcc has --expt-relaxed-constexpr.
  explicit LossScale(const Policy& policy = Policy()) {
    compare_with_host(policy);
    const State start{{policy}, {}, {policy.loss_scale()}};
    state_ = detail::copied(1, &start);
    void* fetched = nullptr;
    detail::check("cudaMallocHost", cudaMallocHost(&fetched, sizeof(State)));
    fetched_.reset(static_cast<State*>(fetched));
    cudaEvent_t event{};
    detail::check("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    arrived_.reset(event);
  }

  // Addresses on the device. They stay the same while the object lives, even if it is moved.
  [[nodiscard]] const float* loss_scale() const { return &state_->now.loss_scale; }  ///< of this step, until `update`
  [[nodiscard]] const Step* step() const { return &state_->step; }                   ///< written by `update`
  [[nodiscard]] const float* found_inf() const { return &state_->step.found_inf; }   ///< step()->found_inf
  [[nodiscard]] float* inf_elsewhere() const { return &state_->now.inf_elsewhere; }  ///< your kernel writes 1: skip this step
  [[nodiscard]] double* sum_of_squares() const { return &state_->now.sum_of_squares; }  ///< after `total`: add up the ranks'
  /// After `total`: the bits of a double >= 0, or of Inf. Replace it by the largest of all ranks.
  [[nodiscard]] unsigned long long* largest() const { return &state_->now.largest; }

  /// Reads gradients that carry the loss scale: their largest magnitude and their norm, with the bits of headroom::measure,
  /// divided by the scale. One launch, two if a list was measured before in this step.
  void measure(const Gradients& gradients, cudaStream_t stream) {
    if (&gradients == unscaled_in_place_)
      hd::throw_logic_error({"measure: these gradients were unscaled in place in this step; call measure_unscaled"});
    launch_measure(gradients, stream, true);
  }
  /// Reads the destinations of gradients, or gradients without one, which do not carry the scale: after `unscale` or
  /// `accumulate`. Otherwise as `measure`; in a list of several dtypes the last bits of the norm may differ.
  void measure_unscaled(const Gradients& gradients, cudaStream_t stream) { launch_measure(gradients, stream, false); }
  /// Divides by the loss scale, into the destinations or in place, with the bits of headroom::unscale_into. The report is
  /// of what it stores. One launch. Refuses fp16 in place by std::logic_error, because most gradients would become 0: give a
  /// destination, use `measure` and Step::factor, or say unscale<allow_fp16_gradients>.
  template <class Allowed = void>
  void unscale(const Gradients& gradients, cudaStream_t stream) {
    if (!std::is_same_v<Allowed, allow_fp16_gradients> && gradients.fp16_in_place_ != Gradients::none)
      refuse("unscale", gradients.fp16_in_place_, "] is fp16 without a destination, where most gradients would become 0");
    if (gradients.in_place_ != Gradients::none) unscaled_in_place_ = &gradients;
    launch_unscale(gradients, stream, false);
  }
  /// destination += gradient / loss scale, for micro-batches. The report is of the addends. Clear the destinations yourself,
  /// also after a skipped step. One launch. Throws std::logic_error if a gradient has no destination.
  void accumulate(const Gradients& gradients, cudaStream_t stream) {
    if (gradients.in_place_ != Gradients::none) refuse("accumulate", gradients.in_place_, "] has no destination");
    launch_unscale(gradients, stream, true);
  }
  /// Ends the step: writes *step(), adjusts the policy and *loss_scale(). A norm above `max_norm` is clipped to it, by
  /// Step::factor and Step::clip. Throws std::invalid_argument if max_norm is negative or NaN, and std::logic_error if no verb
  /// ran since the last `update`, or if max_norm is finite and nothing was measured. One launch.
  void update(cudaStream_t stream, const double& max_norm = hd::infinity);
  /// For ranks, between the last verb and `update`: completes sum_of_squares() and largest(). `replicas` ranks have the same
  /// gradients: their sums are divided by it. Throws std::invalid_argument if there are none. One launch.
  void total(cudaStream_t stream, int replicas = 1);
  /// Goes on from a snapshot, such as a checkpoint's, at the same addresses, with a new step. Waits for the stream, so not for
  /// captured ones.
  void set(const Snapshot<Policy>& snapshot, cudaStream_t stream) {
    const State state{snapshot, {}, {snapshot.policy.loss_scale()}};
    detail::check("cudaMemcpyAsync", cudaMemcpyAsync(state_.get(), &state, sizeof state, cudaMemcpyHostToDevice, stream));
    detail::check("cudaStreamSynchronize", cudaStreamSynchronize(stream));  // `state` is read until then
    begin_step();
  }

  /// Begins to copy a snapshot to the host, unless one is under way. Not for captured streams: call it between graphs.
  void fetch(cudaStream_t stream) {
    if (is_fetching_ && !has_arrived()) return;
    detail::check("cudaMemcpyAsync",
                  cudaMemcpyAsync(fetched_.get(), state_.get(), sizeof(State), cudaMemcpyDeviceToHost, stream));
    detail::check("cudaEventRecord", cudaEventRecord(arrived_.get(), stream));
    is_fetching_ = true;
  }
  /// The snapshot that was fetched, if it has arrived. Does not wait.
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
  void launch_measure(const Gradients& gradients, cudaStream_t stream, bool carries_scale);
  void launch_unscale(const Gradients& gradients, cudaStream_t stream, bool adds);
  static void compare_with_host(const Policy& policy);
  [[noreturn]] static void refuse(const char* verb, std::size_t index, const char* why) {
    hd::throw_logic_error({verb, ": gradients[", std::to_string(index), why});
  }
  void begin_step() {
    measured_ = {};
    is_begun_ = is_measured_ = false;
    unscaled_in_place_ = nullptr;
  }
  [[nodiscard]] bool has_arrived() const {
    const cudaError_t error = cudaEventQuery(arrived_.get());
    if (error == cudaErrorNotReady) return (void)cudaGetLastError(), false;  // or the caller would find it
    detail::check("cudaEventQuery", error);
    return true;
  }

  detail::Memory<State> state_;
  std::unique_ptr<State, detail::Destroy<&cudaFreeHost>> fetched_;
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, detail::Destroy<&cudaEventDestroy>> arrived_;
  bool is_fetching_ = false;
  detail::List measured_;  // last; its sums are still to be added up
  bool carries_scale_ = false, is_begun_ = false, is_measured_ = false;
  const Gradients* unscaled_in_place_ = nullptr;  // in this step
};

}  // namespace gpu
HEADROOM_DETAIL_END_NAMESPACE

#if defined(__CUDACC__)
#include <headroom/adapters/cuda_kernels.inl>
#endif
