// What launches the kernels, and the kernels.

#include <headroom/gpu/arithmetic.inl>
#include <headroom/gpu/decide.inl>
#include <headroom/gpu/measure.inl>
#include <headroom/gpu/unscale.inl>

#include <limits>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace gpu {
namespace detail {
template <class... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), dim3 blocks, unsigned threads_each,
            cudaStream_t stream, std::common_type_t<Parameters>... arguments) {
  if (blocks.x == 0) return;
  void* addresses[] = {&arguments...};
  check(name, cudaLaunchKernel(kernel, blocks, dim3(threads_each), addresses, 0, stream));
}

/// CUDA loads a kernel at its first launch, and may wait for running ones: for NCCL's, for ever.
template <class... Kernels>
void load(Kernels*... kernels) {
  cudaFuncAttributes unused{};
  (check("cudaFuncGetAttributes", cudaFuncGetAttributes(&unused, kernels)), ...);
}

/// Other addresses of gradients. 160 fit into the 4 KiB of a kernel's parameters.
struct Moves {
  static constexpr unsigned most = 160;
  struct {
    void *source, *destination;
    unsigned first, count;  // pieces
  } each[most];
};
template <class = void>
__global__ void assign_kernel(TypedPiece* pieces, Moves moves) {
  const auto& move = moves.each[blockIdx.x];
  TypedPiece* const own = pieces + move.first;
  const std::size_t step = own->size > squares_per_sum ? group_size : squares_per_sum;
  for (unsigned i = threadIdx.x; i < move.count; i += few_threads) {
    TypedPiece piece = own[i];
    piece.source = static_cast<unsigned char*>(move.source);
    piece.destination = static_cast<unsigned char*>(move.destination);
    piece = TypedPiece::moved(piece, step * i);
    own[i].source = piece.source, own[i].destination = piece.destination;
  }
}
}  // namespace detail

// `used`, because .cpp files call it, which have only the declaration
[[gnu::used]] inline void Gradients::assign(const std::vector<Gradient>& gradients,
                                            cudaStream_t stream) {
  home_.check_current("assign", "the list");
  const auto refuse = [](std::size_t i, std::initializer_list<std::string_view> what) {
    hd::throw_invalid_argument({"assign: gradients[", std::to_string(i), "] ", hd::concat(what)});
  };
  if (gradients.size() != all_.size())
    hd::throw_invalid_argument({"assign: ", std::to_string(gradients.size()),
                                " gradients, but the list has ", std::to_string(all_.size())});
  bool moves_results = false;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (gradients[i].size != all_[i].size)
      refuse(i, {"has ", std::to_string(gradients[i].size), " elements, not ",
                 std::to_string(all_[i].size)});
    if (gradients[i].dtype != all_[i].dtype) refuse(i, {"has another dtype"});
    if (all_[i].size == 0) continue;
    if (is_in_place(gradients[i]) != is_in_place(all_[i]))
      refuse(i, {is_in_place(all_[i]) ? "has a new destination" : "has lost its destination"});
    moves_results = moves_results || result(gradients[i]) != result(all_[i]);
  }
  check(gradients);
  if (use_.is_open() && (use_.is_measured || moves_results))
    hd::throw_logic_error(
        {"assign: these gradients were ",
         use_.is_measured ? "measured" : "unscaled to other addresses",
         " in this step; call update to end that step, or abandon to give it up"});
  for (std::size_t i = 0; i < all_.size();) {
    detail::Moves moves;
    unsigned n = 0;
    for (; i < all_.size() && n < detail::Moves::most; ++i)
      if (all_[i].size != 0)
        moves.each[n++] = {gradients[i].data, result(gradients[i]), firsts_[i],
                           firsts_[i + 1] - firsts_[i]};
    detail::launch("assign_kernel", detail::assign_kernel<>, n, detail::few_threads, stream,
                   pieces_.get(), moves);
  }
  all_ = gradients;
}

template <class Policy>
Scaler<Policy>::Scaler(const Policy& policy) {
  detail::load(detail::assign_kernel<>, detail::measure_kernel<>, detail::unscale_kernel<false>,
               detail::unscale_kernel<true>, detail::total_kernel<>, detail::update_kernel<Policy>);
  constexpr unsigned n = 40;
  std::vector<float> scales(n);
  const auto there = detail::copied(n, scales.data());
  detail::launch("try_kernel", detail::try_kernel<Policy>, 1, 1, nullptr, policy, there.get(), n);
  detail::check("cudaMemcpy",
                cudaMemcpy(scales.data(), there.get(), n * sizeof(float), cudaMemcpyDeviceToHost));
  Policy expected = policy;
  for (unsigned i = 0; i < n; ++i) {
    expected = expected.adjust(detail::trial_report(i));
    if (!(scales[i] == expected.loss_scale()))
      hd::throw_logic_error(
          {"the policy's adjust has another result on the device than on the host: write __host__ "
           "__device__ before it and before all that it calls"});
  }
  const State start{{policy}, {}, {policy.loss_scale()}};
  state_ = detail::copied(1, &start);
  void* fetched = nullptr;
  detail::check("cudaMallocHost", cudaMallocHost(&fetched, sizeof(State)));
  fetched_.reset(static_cast<State*>(fetched));
  cudaEvent_t event{};
  detail::check("cudaEventCreateWithFlags",
                cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  arrived_.reset(event);
}
template <class Policy>
void Scaler<Policy>::measure(const Gradients& gradients, cudaStream_t stream) {
  detail::Use use = use_of(gradients, "measure");
  if (use.is_measured) refuse("measure", "measured in this step");
  if (measured_.n_groups != 0) total(stream);
  detail::List list = gradients.list(use.is_unscaled ? 1 : 0);
  list.n_before = use.n_before;
  detail::launch("measure_kernel", detail::measure_kernel<>, list.n_groups,
                 list.n_groups < detail::few_groups ? detail::most_threads : detail::few_threads,
                 stream, list, &state_->now);
  measured_ = list;
  is_measured_ = use.is_measured = true;
  note(use, gradients);
}
template <class Policy>
void Scaler<Policy>::launch_unscale(const Gradients& gradients, cudaStream_t stream, bool adds) {
  const char* const verb = adds ? "accumulate" : "unscale";
  detail::Use use = use_of(gradients, verb);
  if (use.is_unscaled && !adds) refuse(verb, "unscaled in this step");
  if (use.is_unscaled && use.is_measured) refuse(verb, "unscaled and measured in this step");
  detail::List list = gradients.list(2);
  list.n_before = use.n_before;
  detail::launch("unscale_kernel",
                 adds ? detail::unscale_kernel<true> : detail::unscale_kernel<false>,
                 dim3(list.n_groups, list.n_groups < detail::few_groups ? detail::sharing : 1),
                 detail::threads, stream, list, &state_->now);
  use.is_unscaled = true;
  note(use, gradients);
}
template <class Policy>
void Scaler<Policy>::total(cudaStream_t stream, int replicas) {
  hd::check_in("replicas", replicas, 1, std::numeric_limits<int>::max(), "1 or more");
  home_.check_current("total");
  detail::launch("total_kernel", detail::total_kernel<>, 1, detail::threads, stream, &state_->now,
                 measured_, static_cast<double>(replicas));
  measured_ = {};
}
template <class Policy>
void Scaler<Policy>::update(cudaStream_t stream, const double& max_norm) {
  hd::check_max_norm(max_norm);
  home_.check_current("update");
  if (!is_begun_)
    hd::throw_logic_error({"update: no gradients were unscaled or measured since the last update"});
  if (!is_measured_ && !hd::is_infinite(max_norm))
    hd::throw_logic_error(
        {"update: max_norm is ", hd::to_text(max_norm), ", but nothing was measured in this step"});
  detail::launch("update_kernel", detail::update_kernel<Policy>, 1, detail::threads, stream,
                 state_.get(), measured_, max_norm);
  begin_step();
}
}  // namespace gpu
HEADROOM_DETAIL_END_NAMESPACE
