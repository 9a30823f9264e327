// Quantization to e4m3 and back beside a copy of as many bytes, two passes, and torch 2 if there is one: 512 KiB of floats, in
// the caches, and 64 MiB, in memory. One process, one thread, random order. Ends with an error if torch comes to other numbers.
// Prints a table.
//
//   benchmark_quantize table.tsv [flags of Google Benchmark]

#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "table.hpp"
#if BENCHMARK_TORCH
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#endif

namespace {

using headroom::float8_e4m3;
using headroom::span;

constexpr std::size_t sizes[] = {512U << 10, 64U << 20};     // bytes of floats
constexpr std::size_t leaf_size = sizes[0] / sizeof(float);  // elements
constexpr std::size_t most_elements = sizes[1] / sizeof(float);
constexpr std::size_t block = 32;
constexpr float scale = 128.0F, inverse_scale = 1.0F / scale;  // a power of two, so that two passes do not divide
const char* const copy = "limit: memcpy";
const headroom::Isa best_isa = headroom::active_isa();

template <class T>
std::vector<T> normal_numbers() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<T> all(most_elements);
  for (T& value : all) value = T(normal(random));
  return all;
}
/// What the contenders read, made before anything is measured.
template <class T>
std::vector<T> source = normal_numbers<T>();
/// What the contenders write.
struct Results {
  std::vector<float> floats = std::vector<float>(most_elements, 1.0F);
  std::vector<float8_e4m3> codes = std::vector<float8_e4m3>(most_elements, float8_e4m3(1.0F));
  std::vector<headroom::e8m0> scales = std::vector<headroom::e8m0>(most_elements / block, headroom::e8m0(1.0F));
} results;

using Run = std::function<void(std::size_t elements)>;

void add(const std::string& work, const std::string& contender, const Run& run) {
  for (const std::size_t size : sizes) {
    const std::size_t n = size / sizeof(float);
    benchmarks::add(work, contender, size, n, std::bind(run, n), 1, benchmarks::Clock::cpu);
  }
}
/// headroom on every instruction set of this CPU, beside a copy that reads and writes as many bytes: so many for each block.
void add_headroom(const std::string& work, std::size_t bytes_of_block, const Run& run) {
  for (const headroom::Isa isa : headroom::available_isas()) {
    add(work, std::string("headroom ") + to_string(isa), [=](std::size_t n) {
      if (headroom::active_isa() != isa) headroom::force_isa(isa);
      run(n);
    });
  }
  add(work, copy,
      [=](std::size_t n) { std::memcpy(results.floats.data(), source<float>.data(), n / block * bytes_of_block / 2); });
}

template <class T>
void quantize(std::size_t n) {
  float amax = 0.0F;
  const span<const T> from(source<T>.data(), n);
  const auto report = headroom::quantize_into(from, span<float8_e4m3>(results.codes.data(), n), span<const float>(&scale, 1),
                                              span<float>(&amax, 1));
  benchmark::DoNotOptimize(report.finite);
}
void quantize_in_two_passes(std::size_t n) {
  if (headroom::active_isa() != best_isa) headroom::force_isa(best_isa);
  const span<float> scaled(results.floats.data(), n);
  benchmark::DoNotOptimize(headroom::unscale_into(span<const float>(source<float>.data(), n), scaled, inverse_scale).finite);
  headroom::cast_into(scaled, span<float8_e4m3>(results.codes.data(), n), headroom::saturate);
}
void dequantize(std::size_t n) {
  headroom::dequantize_into(span<const float8_e4m3>(source<float8_e4m3>.data(), n), span<float>(results.floats.data(), n),
                            span<const float>(&inverse_scale, 1));
}
void mx_quantize(std::size_t n) {
  const auto report = headroom::quantize_blocks_into(
      span<const float>(source<float>.data(), n), span<float8_e4m3>(results.codes.data(), n),
      span<headroom::e8m0>(results.scales.data(), n / block), {1, block}, headroom::MxScaling{headroom::MxScale::rceil});
  benchmark::DoNotOptimize(report.finite);
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
      fp8_tree.emplace_back(results.codes.data() + i, leaf_size);
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
/// Eager operators, as torchao calls them, but into existing tensors.
namespace by_torch {

std::vector<float> temporary(most_elements, 1.0F);

/// Rows of a block.
template <class T>
at::Tensor tensor(std::vector<T>& values, std::size_t n, at::ScalarType dtype) {
  return at::from_blob(values.data(), {static_cast<std::int64_t>(n / block), std::int64_t{block}}, dtype);
}
void quantize(std::size_t n) {
  const at::Tensor from = tensor(source<float>, n, at::kFloat), to = tensor(results.codes, n, at::kFloat8_e4m3fn);
  at::Tensor scaled = tensor(temporary, n, at::kFloat);
  benchmark::DoNotOptimize(at::abs_out(scaled, from).amax().item<float>());
  to.copy_(at::mul_out(scaled, from, at::scalar_tensor(scale)).clamp_(-448.0, 448.0));
}
void mx_quantize(std::size_t n) {
  const at::Tensor from = tensor(source<float>, n, at::kFloat), to = tensor(results.codes, n, at::kFloat8_e4m3fn);
  at::Tensor scaled = tensor(temporary, n, at::kFloat);
  const at::Tensor bits = at::abs_out(scaled, from).amax(1, true).mul_(1.0F / 448.0F).view(at::kInt);
  const at::Tensor bytes = bits.bitwise_right_shift(23).add_(bits.bitwise_and(0x7FFFFF).gt(0));
  const at::Tensor factors = bytes.neg().add_(254).bitwise_left_shift(23).view(at::kFloat);
  to.copy_(at::mul_out(scaled, from, factors).clamp_(-448.0, 448.0));
  at::from_blob(results.scales.data(), bytes.sizes(), at::kByte).copy_(bytes);
}
void dequantize(std::size_t n) {
  tensor(results.floats, n, at::kFloat).copy_(tensor(source<float8_e4m3>, n, at::kFloat8_e4m3fn)).mul_(inverse_scale);
}

}  // namespace by_torch

/// Ends the program if the results differ.
void add_torch(const std::string& work, const Run& ours, const Run& theirs) {
  const auto results_of = [](const Run& run) {
    results = Results();
    run(leaf_size);
    return std::make_tuple(results.floats, results.codes, results.scales);
  };
  if (results_of(ours) != results_of(theirs)) {
    std::fprintf(stderr, "%s: headroom and torch do not come to the same\n", work.c_str());
    std::exit(1);
  }
  add(work, "torch", theirs);
}
#endif

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: benchmark_quantize table.tsv [flags of Google Benchmark]\n");
    return 1;
  }
  add_headroom("float to e4m3", 5 * block, quantize<float>);
  add("float to e4m3", "two passes", quantize_in_two_passes);
  add_headroom("fp16 to e4m3", 3 * block, quantize<headroom::half>);
  add_headroom("bf16 to e4m3", 3 * block, quantize<headroom::bfloat16>);
  add_headroom("float to MX e4m3, rceil", 5 * block + 1, mx_quantize);
  add_headroom("e4m3 to float", 5 * block, dequantize);
  add_headroom("float to e4m3, delayed", 5 * block, Step<headroom::DelayedScaling>::run);
  add_headroom("float to e4m3, current", 5 * block, Step<headroom::CurrentScaling>::run);
#if BENCHMARK_TORCH
  at::set_num_threads(1);
  add_torch("float to e4m3", quantize<float>, by_torch::quantize);
  add_torch("float to MX e4m3, rceil", mx_quantize, by_torch::mx_quantize);
  add_torch("e4m3 to float", dequantize, by_torch::dequantize);
#endif
  benchmarks::Table table(benchmarks::Unit::gigaelements_per_second, copy);
  benchmark::RunSpecifiedBenchmarks(&table);
  std::printf("Billions of elements a second (ratio to the copy), by the size of as many floats; medians\n");
  table.print(argv[1]);
}
