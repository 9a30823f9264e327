HEADROOM_DETAIL_BEGIN_NAMESPACE
namespace gpu::detail {
/// The sum of a list's groups, in the order of ops/run.hpp: thread t < 16 adds groups_per_sum.
__device__ inline double sum_of(const List& list) {
  constexpr unsigned n_partials = 16;
  __shared__ double groups[n_partials][groups_per_sum + 1];  // one more, for the banks
  __shared__ double partials[n_partials];
  double sum = 0.0;
  for (unsigned first = 0; first < list.n_groups; first += n_partials * groups_per_sum) {
    const unsigned n = hd::smaller_of(list.n_groups - first, n_partials * groups_per_sum);
#pragma unroll 8
    for (unsigned i = threadIdx.x; i < n; i += threads)
      groups[i / groups_per_sum][i % groups_per_sum] = list.sums[first + i];
    __syncthreads();
    const unsigned begin = threadIdx.x * groups_per_sum;
    const unsigned count = begin < n ? hd::smaller_of(n - begin, groups_per_sum) : 0;
    double partial = 0.0;
#pragma unroll 16
    for (unsigned i = 0; i < count; ++i) partial = add(partial, groups[threadIdx.x][i]);
    if (count != 0) partials[threadIdx.x] = partial;
    __syncthreads();
    for (unsigned k = 0; k * groups_per_sum < n; ++k) sum = add(sum, partials[k]);
  }
  return sum;
}
template <class = void>
__global__ void __launch_bounds__(threads) total_kernel(Sums* now, List list, double replicas) {
  const double sum = sum_of(list);
  if (threadIdx.x != 0) return;
  const double divisor = divisor_of(list, *now);
  now->sum_of_squares = div(add(now->sum_of_squares, div(div(sum, divisor), divisor)), replicas);
  if (now->inf_elsewhere != 0.0F) now->max_abs = binary64::infinity_bits;
}
template <class Policy>
__global__ void __launch_bounds__(threads)
    update_kernel(State<Policy>* state, List list, double max_norm) {
  const double sum = sum_of(list);
  if (threadIdx.x != 0) return;
  const Sums now = state->now;
  const double divisor = divisor_of(list, now);
  const Snapshot<Policy>& last = state->snapshot;
  GradientNorm report{};
  // The norm of a single list has the bits of the CPU's.
  report.norm = now.sum_of_squares == 0.0
                    ? div(hd::square_root(sum), divisor)
                    : hd::square_root(add(now.sum_of_squares, div(div(sum, divisor), divisor)));
  report.max_abs = hd::bit_cast<double>(std::uint64_t{now.max_abs});
  // An infinite norm is an overflow only if max_norm is finite, as on the CPU. A NaN, as of another
  // rank, always is.
  const std::uint64_t norm_end = binary64::infinity_bits + (hd::is_infinite(max_norm) ? 1 : 0);
  report.finite = now.max_abs < binary64::infinity_bits && now.inf_elsewhere == 0.0F &&
                  hd::bit_cast<std::uint64_t>(report.norm) < norm_end;
  if (!report.finite) report = hd::overflow();
  const long long steps = last.steps + 1, skips = last.skips + (report.finite ? 0 : 1);
  state->snapshot = {last.policy.adjust(static_cast<const GradientReport&>(report)),
                     report,
                     now.loss_scale,
                     !report.finite,
                     steps,
                     skips,
                     report.finite       ? last.first_overflow
                     : now.overflow == 0 ? -1LL
                                         : static_cast<long long>(~now.overflow)};
  const double clip = hd::clip_factor(report, max_norm);
  state->step = {report.finite ? 0.0F : 1.0F,
                 report.finite,
                 div(clip, to_double(now.loss_scale)),
                 clip,
                 now.loss_scale,
                 steps - skips};
  state->now = {state->snapshot.policy.loss_scale()};
}
__host__ __device__ inline GradientReport trial_report(unsigned i) {
  return i % 5 == 3 ? GradientReport{hd::overflow()}
                    : GradientReport{true, 1e-7 * (1 + i * i % 17)};
}
/// Writes the scales after `n` trial reports.
template <class Policy>
__global__ void try_kernel(Policy policy, float* scales, unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    policy = policy.adjust(trial_report(i));
    scales[i] = policy.loss_scale();
  }
}
}  // namespace gpu::detail
HEADROOM_DETAIL_END_NAMESPACE
