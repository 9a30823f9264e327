#pragma once

// headroom's verbs on libtorch's tensors of another device, beside those on the CPU. With the
// device `cpu`, the CPU's tensors go the way of another device's.

#include "../support/torch.hpp"

#include <headroom/adapters/torch.hpp>
#include <headroom/headroom.hpp>

#include <ATen/record_function.h>
#include <torch/version.h>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace elsewhere {

using support::dtypes;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

inline bool nowhere(const Tensor& /*tensor*/) { return false; }
using Verbs = headroom::detail::aten::GradientVerbs<nowhere>;
inline const headroom::Executor executor = headroom::parallel(1);

inline int failures = 0;
inline void expect(bool holds, const std::string& what) {
  failures += holds ? 0 : 1;
  if (!holds) std::printf("FAILED: %s\n", what.c_str());
}

/// Random tensors of these dtypes: dense, transposed, with gaps, a single number, sparse, and two
/// without elements.
inline Tensors layouts(const std::vector<torch::ScalarType>& types) {
  Tensors tensors;
  for (const auto type : types) {
    const Tensor values = torch::randn({40, 7}).mul(1000).to(type),
                 rows = torch::tensor({{0, 3}}, torch::kLong);
    tensors.insert(
        tensors.end(),
        {values, values.clone().t(), values.repeat({1, 2}).slice(1, 0, 14, 2), values[0][0].clone(),
         torch::sparse_coo_tensor(rows, values.slice(0, 0, 2).clone(), {4, 7}).coalesce(),
         torch::sparse_coo_tensor({4}, torch::dtype(type)).coalesce(), torch::empty({0}, type)});
  }
  return tensors;
}
/// Keeps strides and gaps.
inline Tensors copies(Tensors tensors, torch::Device device = torch::kCPU) {
  for (Tensor& t : tensors)
    t = t.is_sparse()
            ? t.to(device, t.scalar_type(), false, true)
            : torch::empty_strided(t.sizes(), t.strides(), t.options().device(device)).copy_(t);
  return tensors;
}
inline Tensor elements_of(const Tensor& tensor) {
  return tensor.is_sparse() ? tensor._values() : tensor;
}
inline bool same_bits(const Tensor& a, const Tensor& b) {
  return support::same_bits(elements_of(a).cpu(), elements_of(b).cpu()) &&
         (a.is_sparse() || a.strides() == b.strides());
}

/// Each dtype alone, then all in one list.
inline void compare_bits(torch::Device device) {
  torch::manual_seed(7);
  std::vector<std::vector<torch::ScalarType>> lists = {dtypes};
  for (const auto dtype : dtypes) lists.push_back({dtype});
  for (const auto& types : lists) {
    for (const float scale : {1024.0F, 1000.0F, 1.7F, 70000.0F, 0x1p100F}) {
      // On the CPU, libtorch 1.13 rounds the scale to the dtype of the tensor.
      const bool is_rounded =
          TORCH_VERSION_MAJOR == 1 && (types.size() > 1 || torch::elementSize(types[0]) == 2);
      if (is_rounded && scale != 1024.0F && scale != 1000.0F) continue;
      const Tensors source = layouts(types), here = copies(source), there = copies(source, device);
      const std::string name =
          std::to_string(types.size()) + " dtypes from " + torch::toString(types[0]);
      const auto norm = headroom::measure(source), found = Verbs::measure(there, executor);
      expect(found.finite && found.max_abs == norm.max_abs &&
                 std::abs(found.norm - norm.norm) <= 1e-6 * norm.norm,
             "norm of " + name);
      expect(!Verbs::find_nonfinite(there, executor), name + " are finite");
      const auto expected = headroom::unscale_in_place<headroom::allow_fp16_gradients>(here, scale);
      const auto report = Verbs::unscale(there, scale, executor);
      expect(report.finite && report.max_abs == expected.max_abs, "report of " + name);
      for (std::size_t i = 0; i < here.size(); ++i)
        expect(same_bits(there[i], here[i]),
               "tensor " + std::to_string(i) + " of " + name + ", scale " + std::to_string(scale));
      expect(Verbs::scale(there, 0.5, executor).max_abs == headroom::measure(copies(there)).max_abs,
             "scaled " + name);
    }
  }
  expect(Verbs::measure({}, executor).norm == 0.0 &&
             Verbs::unscale({torch::empty({0})}, 2.0F, executor).finite,
         "no elements");
}
/// The others are unscaled.
inline void find_nonfinite(torch::Device device) {
  torch::manual_seed(8);
  for (const std::size_t bad : {0U, 1U, 2U, 3U, 4U, 7U, 14U, 21U}) {
    for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      const Tensors source = layouts(dtypes);
      Tensor last = elements_of(source[bad]);
      while (last.dim() != 0) last = last.select(0, last.size(0) - 1);
      last.fill_(value);
      const Tensors there = copies(source, device);
      const auto measured = Verbs::measure(there, executor);
      const auto nonfinite = Verbs::find_nonfinite(there, executor);
      (void)headroom::unscale_in_place<headroom::allow_fp16_gradients>(source, 1000.0F);
      const auto report = Verbs::unscale(there, 1000.0F, executor);
      const std::string path = "[" + std::to_string(bad) + "]";
      expect(!measured.finite && measured.norm == HUGE_VAL && nonfinite && nonfinite->path == path,
             "Inf or NaN in " + path);
      expect(!report.finite && report.max_abs == HUGE_VAL &&
                 !Verbs::scale(there, 2.0, executor).finite,
             "reports of " + path);
      (void)Verbs::scale(there, 0.5, executor);
      for (std::size_t i = 0; i < there.size(); ++i)
        expect(i == bad || same_bits(there[i], source[i]), "beside " + path);
    }
  }
}

/// Random dense tensors of these sizes, of all dtypes in turn.
inline Tensors tensors_of(const std::vector<long>& sizes, torch::Device device = torch::kCPU) {
  Tensors tensors;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    tensors.push_back(torch::randn({sizes[i]}).mul(1000).to(device, dtypes[i % dtypes.size()]));
  return tensors;
}
/// With adapters/torch_cuda.hpp norms have the CPU's bits, too.
inline void compare_kernels(const Tensors& there, float scale = 1000.0F) {
  const Tensors here = copies(there);
  const auto norm = headroom::measure(here), found = Verbs::measure(there, executor);
  const auto expected = headroom::unscale_in_place<headroom::allow_fp16_gradients>(here, scale),
             report = Verbs::unscale(there, scale, executor);
  expect(found.finite == norm.finite && found.max_abs == norm.max_abs && found.norm == norm.norm,
         "norm by kernels: " + std::to_string(found.norm) + ", " + std::to_string(norm.norm));
  expect(report.finite == expected.finite && report.max_abs == expected.max_abs,
         "report of kernels: " + std::to_string(report.max_abs));
  for (std::size_t i = 0; i < here.size(); ++i)
    expect(!norm.finite || same_bits(there[i], here[i]),
           "tensor " + std::to_string(i) + " by kernels, scale " + std::to_string(scale));
}

/// How many operators the host dispatches in f(), without those that they call.
template <class F>
int operators_of(F f) {
  static int depth, count;
  depth = count = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& /*called*/) -> std::unique_ptr<at::ObserverContext> {
            count += depth++ == 0 ? 1 : 0;
            return nullptr;
          },
          [](const at::RecordFunction& /*called*/, at::ObserverContext* /*context*/) { --depth; })
          .scopes({at::RecordScope::FUNCTION}));
  f();
  at::removeCallback(handle);
  return count;
}
/// They are as many for 400 tensors as for 4.
inline void count_operators(torch::Device device) {
  // Until 2.4 the norm of a list has the dtype of the list, so each tensor is measured by itself.
  const bool has_lists =
      TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4);
  for (const int size : {4, 100, 400}) {
    Tensors tensors;
    for (int i = 0; i < size; ++i) tensors.push_back(torch::ones({4, 7}, device));
    const int unscale = operators_of([&] { (void)Verbs::unscale(tensors, 1000.0F, executor); });
    const int scale = operators_of([&] { (void)Verbs::scale(tensors, 0.5, executor); });
    const int measure = operators_of([&] { (void)Verbs::measure(tensors, executor); });
    const int each = has_lists ? 0 : size;
    expect(unscale <= 7 + 2 * each && scale <= 7 + 2 * each && measure <= 10 + 4 * each,
           "operators for " + std::to_string(size) + " tensors: " + std::to_string(unscale) + ", " +
               std::to_string(scale) + ", " + std::to_string(measure));
  }
}

/// The number of failures, which it prints.
inline int compare(torch::Device device) {
  compare_bits(device);
  find_nonfinite(device);
  count_operators(device);
  if (headroom::detail::aten::kernels.run != nullptr)
    for (const float scale : {1024.0F, 1000.0F, 1.7F, 0x1p-100F, 1000.0F})
      compare_kernels(tensors_of({70000, 3, 1, 600, 300000}, device), scale);
  return failures;
}

}  // namespace elsewhere
