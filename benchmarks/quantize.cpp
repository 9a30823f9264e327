// Quantization with a scale for each tensor and for each block, and back, beside a copy of as many
// bytes, two passes, and torch 2 if there is one: 512 KiB of floats, in the caches, and 64 MiB, in
// memory; with blocks a matrix of 128 x 1024 and of 4096 x 4096. One process, one thread, random
// order. Ends with an error if torch comes to other numbers. Prints a table.
//
//   benchmark_quantize table.tsv [flags of Google Benchmark]

#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "table.hpp"
#if BENCHMARK_TORCH
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#endif

namespace {

using headroom::bfloat16;
using headroom::BlockShape;
using headroom::e8m0;
using headroom::float4_e2m1x2;
using headroom::float8_e4m3;
using headroom::span;

constexpr std::size_t sizes[] = {512U << 10, 64U << 20};     // bytes of floats
constexpr std::size_t leaf_size = sizes[0] / sizeof(float);  // elements
constexpr std::size_t most_elements = sizes[1] / sizeof(float);
// A power of two, so that two passes do not divide
constexpr float scale = 128.0F, inverse_scale = 1.0F / scale;
const char* const copy = "limit: memcpy";
const headroom::Isa best_isa = headroom::active_isa();

template <class T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, float4_e2m1x2>) {
    return T::from_bits(float8_e4m3(value).bits());  // any byte is two codes
  } else {
    return T(std::is_same_v<T, e8m0> ? std::fabs(value) : value);
  }
}
template <class T>
std::vector<T> normal_numbers() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<T> all(most_elements);
  for (T& value : all) value = from_float<T>(normal(random));
  return all;
}
/// What the contenders read, made before anything is measured.
template <class T>
std::vector<T> source = normal_numbers<T>();
/// What the contenders write, in dtypes of their own.
struct Results {
  using Bytes = std::vector<unsigned char>;
  Bytes values = Bytes(sizes[1], 1), codes = Bytes(most_elements, 1),
        scales = Bytes(most_elements / 16, 1);
} results;
template <class T>
span<T> as(Results::Bytes& bytes, std::size_t n) {
  return {reinterpret_cast<T*>(bytes.data()), n};
}

using Run = std::function<void(std::size_t elements)>;

void add(const std::string& work, const std::string& contender, const Run& run) {
  for (const std::size_t size : sizes) {
    const std::size_t n = size / sizeof(float);
    benchmarks::add(work, contender, size, n, std::bind(run, n), 1, benchmarks::Clock::cpu);
  }
}
/// headroom on every instruction set of this CPU, beside a copy that reads and writes as many
/// bytes.
void add_headroom(const std::string& work, double bytes_of_element, const Run& run) {
  for (const headroom::Isa isa : headroom::available_isas()) {
    add(work, std::string("headroom ") + to_string(isa), [=](std::size_t n) {
      if (headroom::active_isa() != isa) headroom::force_isa(isa);
      run(n);
    });
  }
  add(work, copy, [=](std::size_t n) {
    std::memcpy(results.values.data(), source<float>.data(),
                static_cast<std::size_t>(static_cast<double>(n) * bytes_of_element / 2));
  });
}

template <class T>
void quantize(std::size_t n) {
  float amax = 0.0F;
  const span<const T> from(source<T>.data(), n);
  const auto report = headroom::quantize_into(from, as<float8_e4m3>(results.codes, n),
                                              span<const float>(&scale, 1), span<float>(&amax, 1));
  benchmark::DoNotOptimize(report.finite);
}
void quantize_in_two_passes(std::size_t n) {
  if (headroom::active_isa() != best_isa) headroom::force_isa(best_isa);
  const span<float> scaled = as<float>(results.values, n);
  benchmark::DoNotOptimize(
      headroom::unscale_into(span<const float>(source<float>.data(), n), scaled, inverse_scale)
          .finite);
  headroom::cast_into(scaled, as<float8_e4m3>(results.codes, n), headroom::saturate);
}
void dequantize(std::size_t n) {
  headroom::dequantize_into(span<const float8_e4m3>(source<float8_e4m3>.data(), n),
                            as<float>(results.values, n), span<const float>(&inverse_scale, 1));
}

/// Columns of a matrix of n elements.
std::size_t columns_of(std::size_t n) { return std::min(n / 128, std::size_t{4096}); }
template <class T>
constexpr std::size_t elements_of = std::is_same_v<T, float4_e2m1x2> ? 2 : 1;
template <class Value, class Code, class Scale>
constexpr double bytes_of_element(BlockShape shape) {
  return sizeof(Value) + 1.0 / elements_of<Code> +
         sizeof(Scale) / static_cast<double>(shape.rows * shape.columns);
}
template <class Value, class Code, class Rule>
Run quantize_blocks(BlockShape shape, Rule rule) {
  return [=](std::size_t n) {
    const headroom::matrix<const Value> from(source<Value>.data(), n / columns_of(n),
                                             columns_of(n));
    const auto scales =
        as<typename Rule::scale_type>(results.scales, n / (shape.rows * shape.columns));
    const auto report = headroom::quantize_blocks_into(
        from, as<Code>(results.codes, n / elements_of<Code>), scales, shape, rule);
    benchmark::DoNotOptimize(report.finite);
  };
}
template <class Code, class Scale>
Run dequantize_blocks(BlockShape shape, float tensor_scale) {
  return [=](std::size_t n) {
    const span<const Scale> scales(source<Scale>.data(), n / (shape.rows * shape.columns));
    const headroom::matrix<bfloat16> to(as<bfloat16>(results.values, n).data(), n / columns_of(n),
                                        columns_of(n));
    headroom::dequantize_blocks_into(span<const Code>(source<Code>.data(), n / elements_of<Code>),
                                     scales, to, shape, tensor_scale);
  };
}

/// A step of TensorScales with leaves of 512 KiB.
template <class Rule>
struct Step {
  std::vector<span<const float>> tree;
  std::vector<span<float8_e4m3>> fp8_tree;
  std::optional<headroom::TensorScales<float8_e4m3, Rule>> scales;

  explicit Step(std::size_t n) {
    for (std::size_t i = 0; i < n; i += leaf_size) {
      tree.emplace_back(source<float>.data() + i, leaf_size);
      fp8_tree.emplace_back(as<float8_e4m3>(results.codes, n).data() + i, leaf_size);
    }
    scales.emplace(tree);
  }
  static void run(std::size_t n) {
    static std::map<std::size_t, Step> steps;
    Step& step = steps.try_emplace(n, n).first->second;
    benchmark::DoNotOptimize(step.scales->quantize_into(step.tree, step.fp8_tree).finite);
    step.scales->update();
  }
};

#if BENCHMARK_TORCH
/// Eager operators, as torchao and DeepSeek call them, but into existing tensors, and by the
/// fastest of the plain ways.
namespace by_torch {

template <class T>
constexpr at::ScalarType dtype = std::is_same_v<T, bfloat16>      ? at::kBFloat16
                                 : std::is_same_v<T, float8_e4m3> ? at::kFloat8_e4m3fn
                                 : std::is_same_v<T, e8m0>        ? at::kFloat8_e8m0fnu
                                                                  : at::kFloat;
std::vector<float> temporary(most_elements, 1.0F);

/// Rows of blocks, rows of a block, columns of blocks, columns of a block. Scales are one for each
/// block.
template <class T>
at::Tensor tensor(T* data, std::size_t n, BlockShape shape = {1, 128}, bool is_scales = false) {
  const std::size_t down = n / columns_of(n) / shape.rows, across = columns_of(n) / shape.columns;
  if (is_scales) shape = {1, 1};
  const std::size_t lengths[] = {down, shape.rows, across, shape.columns};
  return at::from_blob(data, std::vector<std::int64_t>(lengths, lengths + 4), dtype<T>);
}
/// Looks up the elements of each byte: faster than torch's cast.
template <class Code>
at::Tensor widen(std::size_t n, float* floats, BlockShape shape = {1, 128}) {
  static const at::Tensor table = [] {
    if (elements_of<Code> == 1)
      return at::arange(256, at::kByte).view(at::kFloat8_e4m3fn).to(at::kFloat);
    const at::Tensor magnitudes = at::tensor({0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F});
    const at::Tensor e2m1 = at::cat({magnitudes, magnitudes.neg()});
    // Pairs
    return at::stack({e2m1.repeat(16), e2m1.repeat_interleave(16)}, 1).view(at::kDouble).flatten();
  }();
  static const at::Tensor indices = at::zeros(most_elements / elements_of<Code>, at::kInt);
  const auto bytes = static_cast<std::int64_t>(n / elements_of<Code>);
  const at::Tensor index =
      indices.narrow(0, 0, bytes).copy_(at::from_blob(source<Code>.data(), bytes, at::kByte));
  at::Tensor looked_up = at::from_blob(floats, bytes, table.scalar_type());
  at::index_select_out(looked_up, table, 0, index);
  return tensor(floats, n, shape);
}
void quantize(std::size_t n) {
  const at::Tensor from = tensor(source<float>.data(), n);
  at::Tensor scaled = tensor(temporary.data(), n);
  benchmark::DoNotOptimize(at::abs_out(scaled, from).amax().item<float>());
  tensor(as<float8_e4m3>(results.codes, n).data(), n)
      .copy_(at::mul_out(scaled, from, at::scalar_tensor(scale)).clamp_(-448.0, 448.0));
}
void dequantize(std::size_t n) {
  widen<float8_e4m3>(n, as<float>(results.values, n).data()).mul_(inverse_scale);
}

at::Tensor scales_of(const headroom::MxScaling&, const at::Tensor& amax) {  // rceil
  return amax.mul(1.0F / 448.0F)
      .view(at::kInt)
      .add_(0x7FFFFF)
      .bitwise_and_(0x7F800000)
      .view(at::kFloat);
}
at::Tensor scales_of(const headroom::TeBlockScaling&, const at::Tensor& amax) {
  return at::scalar_tensor(448.0F)
      .div(amax)
      .view(at::kInt)
      .bitwise_and_(0x7F800000)
      .view(at::kFloat)
      .reciprocal_();
}
at::Tensor scales_of(const headroom::DeepSeekScaling&, const at::Tensor& amax) {
  return amax.clamp_min(1e-4).div_(448.0);
}

template <class Value, class Rule>
Run quantize_blocks(BlockShape shape, Rule rule) {
  return [=](std::size_t n) {
    const at::Tensor from = tensor(source<Value>.data(), n, shape);
    at::Tensor scaled = tensor(temporary.data(), n, shape),
               magnitudes = at::from_blob(temporary.data(), from.sizes(), dtype<Value>);
    const at::Tensor scales =
        scales_of(rule, at::abs_out(magnitudes, from).amax(3, true).amax(1, true).to(at::kFloat));
    const at::Tensor floats = std::is_same_v<Value, float> ? from : scaled.copy_(from);
    Rule::divides ? at::div_out(scaled, floats, scales)
                  : at::mul_out(scaled, floats, scales.reciprocal());
    tensor(as<float8_e4m3>(results.codes, n).data(), n, shape).copy_(scaled);
    tensor(as<typename Rule::scale_type>(results.scales, n).data(), n, shape, true).copy_(scales);
  };
}
template <class Code, class Scale>
Run dequantize_blocks(BlockShape shape, float tensor_scale) {
  return [=](std::size_t n) {
    const at::Tensor scales =
        tensor(source<Scale>.data(), n, shape, true).to(at::kFloat).mul(tensor_scale);
    tensor(as<bfloat16>(results.values, n).data(), n, shape)
        .copy_(widen<Code>(n, temporary.data(), shape).mul_(scales));
  };
}

}  // namespace by_torch

/// Ends the program if the results differ.
void add_torch(const std::string& work, const Run& ours, const Run& theirs) {
  const auto results_of = [](const Run& run) {
    results = Results();
    run(leaf_size);
    return std::make_tuple(results.values, results.codes, results.scales);
  };
  if (results_of(ours) != results_of(theirs)) {
    std::fprintf(stderr, "%s: headroom and torch do not come to the same\n", work.c_str());
    std::exit(1);
  }
  add(work, "torch", theirs);
}
#endif

template <class Value, class Code, class Rule>
void add_quantize(const std::string& work, BlockShape shape, Rule rule) {
  const Run ours = quantize_blocks<Value, Code>(shape, rule);
  add_headroom(work, bytes_of_element<Value, Code, typename Rule::scale_type>(shape), ours);
#if BENCHMARK_TORCH
  if constexpr (std::is_same_v<Code, float8_e4m3>)
    add_torch(work, ours, by_torch::quantize_blocks<Value>(shape, rule));
#endif
}
template <class Code, class Scale>
void add_dequantize(const std::string& work, BlockShape shape, float tensor_scale = 1.0F) {
  const Run ours = dequantize_blocks<Code, Scale>(shape, tensor_scale);
  add_headroom(work, bytes_of_element<bfloat16, Code, Scale>(shape), ours);
#if BENCHMARK_TORCH
  add_torch(work, ours, by_torch::dequantize_blocks<Code, Scale>(shape, tensor_scale));
#endif
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: benchmark_quantize table.tsv [flags of Google Benchmark]\n");
    return 1;
  }
#if BENCHMARK_TORCH
  at::set_num_threads(1);
  add_torch("float to e4m3", quantize<float>, by_torch::quantize);
  add_torch("e4m3 to float", dequantize, by_torch::dequantize);
#endif
  add_headroom("float to e4m3", 5, quantize<float>);
  add("float to e4m3", "two passes", quantize_in_two_passes);
  add_headroom("fp16 to e4m3", 3, quantize<headroom::half>);
  add_headroom("bf16 to e4m3", 3, quantize<bfloat16>);
  add_headroom("e4m3 to float", 5, dequantize);
  add_headroom("float to e4m3, delayed", 5, Step<headroom::DelayedScaling>::run);
  add_headroom("float to e4m3, current", 5, Step<headroom::CurrentScaling>::run);
  add_quantize<float, float8_e4m3>("float to MX e4m3, rceil", {1, 32},
                                   headroom::MxScaling{headroom::MxScale::rceil});
  add_quantize<float, float4_e2m1x2>("float to MXFP4, floor", {1, 32}, headroom::MxScaling{});
  add_quantize<float, float4_e2m1x2>("float to NVFP4, torchao", {1, 16},
                                     headroom::TorchaoNvfp4{0.002F});
  add_quantize<float, float8_e4m3>("float to e4m3 1x128, TE", {1, 128}, headroom::TeBlockScaling{});
  add_quantize<float, float8_e4m3>("float to e4m3 1x128, DeepSeek", {1, 128},
                                   headroom::DeepSeekScaling{});
  add_quantize<bfloat16, float8_e4m3>("bf16 to e4m3 128x128, TE", {128, 128},
                                      headroom::TeBlockScaling{});
  add_dequantize<float8_e4m3, float>("e4m3 128x128 to bf16", {128, 128});
  add_dequantize<float8_e4m3, e8m0>("MX e4m3 to bf16", {1, 32});
  add_dequantize<float4_e2m1x2, e8m0>("MXFP4 to bf16", {1, 32});
  add_dequantize<float4_e2m1x2, float8_e4m3>("NVFP4 to bf16", {1, 16}, 0.0123F);
  benchmarks::Table table(benchmarks::Unit::gigaelements_per_second, copy);
  benchmark::RunSpecifiedBenchmarks(&table);
  std::printf(
      "Billions of elements a second (ratio to the copy), by the size of as many floats; "
      "medians\n");
  table.print(argv[1]);
}
