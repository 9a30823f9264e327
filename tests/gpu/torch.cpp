// headroom's kernels for libtorch's gradients, on the CPU: those of gpu/shim work on the CPU's
// tensors, which torch_elsewhere.hpp sends the way of another device's.
#include "torch_elsewhere.hpp"  // undefines libtorch's CHECK

#include <headroom/adapters/torch_cuda.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

namespace {

using elsewhere::executor;
using elsewhere::Tensors;
using elsewhere::tensors_of;
using elsewhere::Verbs;
using torch::Tensor;
namespace aten = headroom::detail::aten;

/// While it lives, kernels take the CPU's tensors.
struct OnCpu {
  OnCpu() { aten::kernels.device = torch::kCPU; }
  ~OnCpu() { aten::kernels.device = torch::kCUDA; }
};
/// Of all that f() does.
struct Cost {
  unsigned launches;
  std::size_t allocations;

  template <class F>
  explicit Cost(F f) : launches(shim::launches), allocations(shim::allocations) {
    f();
    launches = shim::launches - launches;
    allocations = shim::allocations - allocations;
  }
};
/// Both verbs have the CPU's results.
bool compare(const Tensors& there, float scale = 1000.0F) {
  elsewhere::failures = 0;
  elsewhere::compare_kernels(there, scale);
  return elsewhere::failures == 0;
}

}  // namespace

TEST_CASE("torch on CUDA: every layout and dtype has the bits of the CPU") {
  const OnCpu on_cpu;
  elsewhere::failures = 0;
  elsewhere::compare_bits(torch::kCPU);
  elsewhere::find_nonfinite(torch::kCPU);
  CHECK(elsewhere::failures == 0);
  torch::manual_seed(1);
  for (const float scale : {1024.0F, 1000.0F, 1.7F, 0x1p-100F})
    CHECK(compare(tensors_of({70000, 3, 1, 600}), scale));
}

TEST_CASE("torch on CUDA: gradients at other addresses need a launch, and others a list") {
  const OnCpu on_cpu;
  torch::manual_seed(2);
  const Tensors first = tensors_of({70, 3, 1, 600}), second = tensors_of({70, 3, 1, 600});
  CHECK(compare(first));
  const auto cost = [](const Tensors& tensors) {
    return Cost([&] { (void)Verbs::measure(tensors, executor); });
  };
  const Cost same = cost(first), moved = cost(second);
  CHECK(same.launches == 2);  // measure, update
  CHECK(moved.launches == 3);
  CHECK(same.allocations + moved.allocations == 0);
  CHECK(compare(first));
  for (int step = 0; step < 5; ++step)
    CHECK(compare(tensors_of({70, 3, 1, 600}), 512.0F * static_cast<float>(step / 2 + 1)));
  // Eight lists are kept: then each replaces another one
  const auto size_of = [](long i) { return tensors_of({70, 3, i}); };
  for (long i = 2; i < 10; ++i) compare(size_of(i));
  const std::size_t allocations = shim::allocations;
  for (long i = 2; i < 24; ++i) compare(size_of(i));
  CHECK(shim::allocations == allocations);
  CHECK(cost(size_of(23)).launches == 3);
  CHECK(cost(size_of(9)).launches == 2);  // it was replaced, and replaces that of 16
  CHECK(cost(size_of(17)).launches == 3);
  CHECK(cost(size_of(16)).launches == 2);  // replaces that of 18: 17 has been used since
  CHECK(cost(size_of(17)).launches == 3);
  CHECK(shim::allocations == allocations);
}

TEST_CASE(
    "torch on CUDA: without memory torch's cache is emptied; after an error all is made anew") {
  const OnCpu on_cpu;
  torch::manual_seed(3);
  CHECK(compare(tensors_of({5, 5})));
  shim::next_error = cudaErrorMemoryAllocation;
  shim::calls_before_error = 3;  // addresses of three tensors
  const int emptied = c10::cuda::CUDACachingAllocator::emptied;
  CHECK(compare(tensors_of({5, 6, 7})));
  CHECK(shim::next_error == cudaSuccess);
  CHECK(c10::cuda::CUDACachingAllocator::emptied == emptied + 1);
  int errors = 0;
  for (unsigned calls = 0; calls < 12; ++calls) {
    const Tensors tensors = tensors_of({5, 6, 7});
    shim::next_error = cudaErrorInvalidValue;
    shim::calls_before_error = calls;
    try {
      (void)Verbs::unscale(tensors, 2000.0F + static_cast<float>(calls), executor);
    } catch (const std::runtime_error&) {
      ++errors;
    }
    shim::next_error = cudaSuccess;
    CHECK(compare(tensors_of({5, 6, 7})));
  }
  CHECK(errors > 5);
}

TEST_CASE("torch on CUDA: overflows, tensors without elements and tensors that overlap") {
  const OnCpu on_cpu;
  torch::manual_seed(4);
  for (const double value : {support::infinity, std::numeric_limits<double>::quiet_NaN()})
    for (const std::size_t bad : {0U, 1U, 2U, 3U}) {
      const Tensors tensors = tensors_of({300, 2, 1, 600});
      tensors[bad][-1] = value;
      CHECK(compare(tensors));
      CHECK(compare(tensors_of({300, 2, 1, 600})));
    }
  CHECK(Cost([] { compare({torch::empty({0}), torch::empty({0, 3})}); }).launches == 0);
  const Tensor one = torch::ones({4}), rest = one.slice(0, 2);
  CHECK(MESSAGE_OF(Verbs::unscale({one, rest}, 2.0F, executor)).find("overlap") !=
        std::string::npos);
  CHECK(one.equal(torch::ones({4})));
}
