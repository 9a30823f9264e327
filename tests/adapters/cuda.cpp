// The kernels run on the CPU: gpu/shim. gpu/check.cpp compares bits, follows policies through overflows, and captures graphs.
#include <headroom/adapters/cuda.hpp>
#include <headroom/headroom.hpp>

#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

namespace {

using namespace headroom;
using Scaler = gpu::LossScale<>;
const cudaStream_t stream = nullptr;

/// Of a scale of 1024, which halves after an overflow.
Scaler make() { return Scaler(DynamicLossScale({1024.0F, 3})); }
/// What f launches.
template <class F>
unsigned launches_of(F f) {
  const unsigned before = shim::launches;
  f();
  return shim::launches - before;
}

// Numbers whose sums and roots are exact.
struct Lists {
  std::vector<float> a = {0.0F, -3.0F * 1024.0F}, b = {4.0F * 1024.0F}, c = {12.0F};
  gpu::Gradients scaled_a{{{a.data(), a.size()}}}, scaled_b{{{b.data(), b.size()}}}, unscaled_c{{{c.data(), c.size()}}};
};

}  // namespace

using support::logic_error_of;

TEST_CASE("gpu: several lists of one step have one report; each verb is one launch") {
  Lists lists;
  Scaler scaler = make();
  CHECK(launches_of([&] { scaler.measure(lists.scaled_a, stream); }) == 1);
  CHECK(launches_of([&] { scaler.measure(lists.scaled_b, stream); }) == 2);
  CHECK(launches_of([&] { scaler.measure_unscaled(lists.unscaled_c, stream); }) == 2);
  CHECK(launches_of([&] { scaler.update(stream, 6.5); }) == 1);
  const auto report = scaler.read(stream).report;
  CHECK(report.finite);
  CHECK(report.max_abs == 12.0);
  CHECK(report.norm == 13.0);
  CHECK(scaler.step()->clip == 0.5);
  CHECK(scaler.step()->factor == 0.5 / 1024.0);

  CHECK(launches_of([&] { scaler.unscale(lists.scaled_a, stream); }) == 1);  // the next step starts anew
  scaler.measure(lists.scaled_b, stream);
  scaler.update(stream, 100.0);
  CHECK(scaler.read(stream).report.max_abs == 4.0);
  CHECK(scaler.read(stream).report.norm == 4.0);  // of what was measured
  CHECK(lists.a[1] == -3.0F);
  CHECK(scaler.step()->clip == 1.0);

  scaler.unscale(lists.scaled_b, stream);
  scaler.measure_unscaled(lists.scaled_a, stream);  // unscaled in the last step
  scaler.measure_unscaled(lists.scaled_b, stream);
  scaler.update(stream);
  CHECK(scaler.read(stream).report.norm == 5.0);
}

TEST_CASE("gpu: measure_unscaled reads the destinations, if there are any") {
  std::vector<__half> halves = {__float2half(3.0F * 1024.0F), __float2half(4.0F * 1024.0F)};
  std::vector<float> floats(2), own = {12.0F};
  const gpu::Gradients gradients({{halves.data(), 2, floats.data()}, {own.data(), 1}}),
      sums({{halves.data(), 2, floats.data()}});
  Scaler scaler = make();
  scaler.unscale(sums, stream);
  scaler.measure_unscaled(gradients, stream);
  scaler.update(stream, 100.0);
  CHECK(scaler.read(stream).report.norm == 13.0);
  scaler.accumulate(sums, stream);
  scaler.measure_unscaled(sums, stream);
  scaler.update(stream, 100.0);
  CHECK(scaler.read(stream).report.norm == 10.0);
}

TEST_CASE("gpu: mistakes are refused by messages") {
  Lists lists;
  Scaler scaler = make();
  using support::message_of;
  std::vector<__half> halves(2);
  std::vector<float> floats(2);
  const gpu::Gradients in_place({{floats.data(), 2}, {halves.data(), 2}}), into({{halves.data(), 2, floats.data()}});
  CHECK(logic_error_of([&] { scaler.unscale(in_place, stream); }) ==
        "headroom: unscale: gradients[1] is fp16 without a destination, where most gradients would become 0");
  CHECK(logic_error_of([&] { scaler.accumulate(in_place, stream); }) ==
        "headroom: accumulate: gradients[0] has no destination");
  CHECK(logic_error_of([&] { scaler.update(stream); }) ==
        "headroom: update: no gradients were unscaled or measured since the last update");
  CHECK_FALSE(scaler.step()->taken);  // nothing steps before the first update
  CHECK((*scaler.found_inf() == 1.0F && scaler.step()->factor == 0.0 && scaler.step()->clip == 0.0));
  CHECK(launches_of([&] { scaler.unscale<allow_fp16_gradients>(in_place, stream); }) == 1);
  CHECK(logic_error_of([&] { scaler.update(stream, 1.0); }) ==
        "headroom: update: max_norm is 1, but nothing was measured in this step");
  CHECK(logic_error_of([&] { scaler.measure(in_place, stream); }) ==
        "headroom: measure: these gradients were unscaled in place in this step; call measure_unscaled");
  scaler.unscale(into, stream);
  scaler.measure(into, stream);  // the sources still carry the scale
  const std::string rest = "; it must be 0 or more (Inf: no clipping)";
  CHECK(message_of([&] { scaler.update(stream, -1.0); }) == "headroom: max_norm is -1" + rest);
  CHECK(message_of([&] { scaler.update(stream, std::nan("")); }) == "headroom: max_norm is nan" + rest);
  CHECK(message_of([&] { scaler.total(stream, 0); }) == "headroom: replicas is 0; it must be 1 or more");
  scaler.update(stream, 0.0);
  CHECK_FALSE(logic_error_of([&] { scaler.update(stream, 0.0); }).empty());  // a new step
  scaler.measure(in_place, stream);
  for (const dtype_code dtype : {dtype_code::fp8_e4m3, dtype_code::int32, dtype_code{}})
    CHECK(message_of([&] {
            gpu::Gradients({{floats.data(), 1}, {floats.data(), 1, dtype}});
          }) == "headroom: gradients[1].dtype is none of fp16, bf16, fp32 and fp64");
}

TEST_CASE("gpu: snapshots are fetched without waiting, and set again") {
  Lists lists;
  Scaler scaler = make();
  CHECK_FALSE(scaler.poll());
  shim::is_late = true;
  scaler.fetch(stream);
  scaler.measure(lists.scaled_a, stream);
  scaler.update(stream);
  CHECK_FALSE(scaler.poll());
  scaler.fetch(stream);  // one is under way
  CHECK(cudaGetLastError() == cudaSuccess);
  shim::is_late = false;
  REQUIRE(scaler.poll());
  CHECK(scaler.poll()->steps == 0);
  shim::is_late = true;
  CHECK(scaler.read(stream).steps == 1);
  CHECK(scaler.poll()->steps == 1);

  scaler.measure(lists.scaled_a, stream);
  gpu::Snapshot<DynamicLossScale> snapshot{DynamicLossScale({8.0F, 2})};
  snapshot.steps = 20;
  snapshot.skips = 5;
  const float* const address = scaler.loss_scale();
  scaler.set(snapshot, stream);
  CHECK(*address == 8.0F);
  CHECK_FALSE(logic_error_of([&] { scaler.update(stream); }).empty());  // what was measured before `set` is forgotten
  const gpu::Gradients nothing;
  scaler.measure(nothing, stream);
  scaler.update(stream);
  CHECK(scaler.read(stream).report.norm == 0.0);
  CHECK(scaler.step()->count == 16);
  CHECK(scaler.read(stream).policy == snapshot.policy.adjust(true));
  Scaler moved = std::move(scaler);
  CHECK(moved.loss_scale() == address);
  moved.measure(nothing, stream);
  *moved.sum_of_squares() = std::nan("");  // of another rank: a norm that is NaN is not finite
  moved.update(stream);
  CHECK_FALSE(moved.step()->taken);
  moved.measure(nothing, stream);
  moved.update(stream);
  CHECK(*address == 4.0F);
  scaler = std::move(moved);
  CHECK(scaler.read(stream).steps == 23);
}

TEST_CASE("gpu: an empty list is measured without a launch") {
  const gpu::Gradients nothing, empty({{static_cast<float*>(nullptr), 0}, {static_cast<__half*>(nullptr), 0}});
  Scaler scaler = make();
  CHECK(launches_of([&] { scaler.measure(nothing, stream), scaler.unscale(nothing, stream); }) == 0);
  scaler.measure(empty, stream);
  scaler.accumulate(nothing, stream);
  scaler.update(stream, 1.0);
  const auto report = scaler.read(stream).report;
  CHECK((report.finite && report.max_abs == 0.0 && report.norm == 0.0));
}

TEST_CASE("gpu: a failed call of CUDA is an exception that names it, and leaks nothing") {
  std::set<std::string> messages;
  std::vector<float> values(4);
  for (unsigned i = 0;; ++i) {
    shim::next_error = cudaErrorMemoryAllocation;
    shim::calls_before_error = i;
    try {
      const gpu::Gradients gradients({{values.data(), 4}});
      const gpu::Gradients into({{values.data(), 2, values.data() + 2}});
      Scaler scaler = make();
      scaler.measure(gradients, stream);
      scaler.total(stream);
      scaler.accumulate(into, stream);
      scaler.update(stream);
      scaler.set({DynamicLossScale()}, stream);
      scaler.fetch(stream);
      (void)scaler.poll();
      (void)scaler.read(stream);
    } catch (const std::runtime_error& error) {
      messages.insert(error.what());
      CHECK(cudaGetLastError() == cudaSuccess);
    }
    CHECK(shim::allocations == 0);
    if (std::exchange(shim::next_error, cudaSuccess) != cudaSuccess) break;
  }
  std::set<std::string> expected;
  for (const char* call : {"cudaMalloc", "cudaMemcpy", "cudaStreamSynchronize", "cudaMallocHost", "cudaEventCreateWithFlags",
                           "try_kernel", "measure_kernel", "total_kernel", "unscale_kernel", "update_kernel", "cudaMemcpyAsync",
                           "cudaEventRecord", "cudaEventQuery", "cudaEventSynchronize"})
    expected.insert("headroom: " + std::string(call) + ": out of memory");
  CHECK(messages == expected);
}

namespace {
/// A policy whose device code differs from its host code.
struct Different {
  float scale = 8.0F;
  [[nodiscard]] float loss_scale() const { return scale; }
  [[nodiscard]] Different adjust(const GradientReport& report) const {
    return {gridDim.x == 0 ? scale + (report.finite ? 1.0F : 0.0F) : scale};
  }
};
}  // namespace
TEST_CASE("gpu: a policy whose device code differs is refused") {
  const std::size_t before = shim::allocations;
  CHECK(support::logic_error_of([] { gpu::LossScale<Different>(); }) ==
        "headroom: the policy's adjust has another result on the device than on the host: write __host__ __device__ before it "
        "and before "
        "all that it calls");
  CHECK(shim::allocations == before);
}
