#pragma once

// gpu::TensorScales against headroom::TensorScales, bit for bit: on a GPU, compiled by nvcc, or
// with the headers in shim/.

#include <headroom/gpu.hpp>
#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace fp8 {

using namespace headroom;
using Bytes = std::vector<unsigned char>;
using gpu::detail::check;

template <class T>
std::vector<T> on_host(const void* values, std::size_t n) {
  std::vector<T> result(n);
  if (n != 0)
    check("cudaMemcpy", cudaMemcpy(result.data(), values, n * sizeof(T), cudaMemcpyDeviceToHost));
  return result;
}

/// How many steps have a code, scale, inverse scale, largest magnitude or history that differs from
/// the CPU's. Every tenth tensor has Inf and NaN.
template <class To, class Rule>
int count_different(const Rule& rule, int steps) {
  constexpr std::pair<dtype_code, std::size_t> shapes[] = {
      {dtype_code::fp16, 16413}, {dtype_code::bf16, 517}, {dtype_code::fp32, 0},
      {dtype_code::fp64, 67},    {dtype_code::fp32, 41},  {dtype_code::fp16, 8}};
  constexpr std::size_t n = 6, alignment = 16;
  std::mt19937 random(11);
  std::vector<std::vector<float>> values;
  std::vector<Bytes> sources;
  std::vector<gpu::detail::Memory<unsigned char>> memory;
  std::vector<any_tensor> tensors;
  std::vector<std::vector<To>> codes;
  std::vector<typename gpu::TensorScales<To, Rule>::Tensor> list;
  for (const auto& [dtype, size] : shapes) {
    const std::size_t each = gpu::detail::TypedPiece::bytes_of(dtype), bytes = each * size,
                      shift = list.size() % 2 * each;
    values.emplace_back(size);
    codes.emplace_back(size);
    sources.emplace_back(bytes);
    tensors.emplace_back(sources.back().data(), dtype, size);
    // Large numbers, which nothing may read
    const Bytes around(bytes + 3 * alignment + size, 0xF1);
    memory.push_back(gpu::detail::copied(around.size(), around.data()));
    unsigned char* const first = memory.back().get();
    list.push_back(
        {{first + shift, size, dtype},
         reinterpret_cast<To*>(first + (bytes / alignment + 2) * alignment + list.size() % 4 / 3)});
  }
  TensorScales<To, Rule> here(tensors, rule);
  std::optional<gpu::TensorScales<To, Rule>> there(std::in_place, list, rule);
  const std::size_t state_size = there->state().size(), capacity = state_size / n - 4;
  const auto is_same = [](const float* a, const auto& b) {
    return std::memcmp(a, b.data(), n * sizeof(float)) == 0;
  };
  int different = 0;
  for (int step = 0; step < steps; ++step) {
    const int exponent = static_cast<int>(random() % 44) - 30;
    for (std::vector<float>& tensor : values) {
      const auto kind = random() % 10;
      for (float& x : tensor) {
        const auto bits = static_cast<std::uint32_t>(random());
        x = kind == 0 ? 0.0F : std::ldexp(static_cast<float>(bits) * 0x1p-31F - 1.0F, exponent);
        if (kind == 1) std::memcpy(&x, &bits, sizeof x);
      }
    }
    cast_into(values, tensors);
    for (std::size_t i = 0; i < n; ++i)
      if (!sources[i].empty())
        check("cudaMemcpy", cudaMemcpy(list[i].data, sources[i].data(), sources[i].size(),
                                       cudaMemcpyHostToDevice));
    (void)here.quantize_into(tensors, codes);
    there->quantize(nullptr);
    bool same = is_same(on_host<float>(there->max_abs(), n).data(), here.max_abs());
    here.update();
    there->update(nullptr);
    const auto state = on_host<float>(there->state().data(), state_size);
    same = same && is_same(&state[0], here.scales()) && is_same(&state[n], here.inverse_scales());
    for (std::size_t i = 0; i < n; ++i) {
      const auto got = on_host<To>(list[i].codes, codes[i].size());
      for (std::size_t k = 0; k < got.size(); ++k) {
        const int a = got[k].bits(), b = codes[i][k].bits(), nan = To::format::smallest_nan_bits;
        // Payloads may differ
        same = same && (a == b || (a / 128 == b / 128 && a % 128 >= nan && b % 128 >= nan));
      }
      std::vector<double> numbers{static_cast<double>(state[i]),
                                  static_cast<double>(state[2 * n + i])};
      for (std::size_t k = 0; k < capacity; ++k) {
        const float amax = state[4 * n + i * capacity +
                                 (static_cast<std::size_t>(state[3 * n + i]) + k) % capacity];
        if (amax != 0.0F) numbers.push_back(static_cast<double>(amax));
      }
      same = same && *here.state_dict().find("scale of " + here.paths()[i]) == StateValue(numbers);
    }
    different += same ? 0 : 1;
    if (step % 30 != 29) continue;
    there.emplace(list, rule);  // goes on from a checkpoint
    check("cudaMemcpy", cudaMemcpy(there->state().data(), state.data(), state_size * sizeof(float),
                                   cudaMemcpyHostToDevice));
  }
  return different;
}
/// Prints, and returns the number of rules that differ.
inline int compare(int steps) {
  int failures = 0;
  const auto run = [&](const char* name, auto to, const auto& rule, int its_steps) {
    const int different = count_different<decltype(to)>(rule, its_steps);
    std::printf("fp8, %s: %d of %d steps differ\n", name, different, its_steps);
    failures += different != 0 ? 1 : 0;
  };
  run("delayed, 16 steps", float8_e4m3(), DelayedScaling{16}, steps);
  run("delayed, 1024 steps", float8_e5m2(), DelayedScaling(), steps);
  run("delayed, most recent", float8_e4m3(), DelayedScaling{3, Amax::most_recent, 2, true}, steps);
  run("delayed, Inf recorded", float8_e5m2(), DelayedScaling{5, Amax::max, -1, true}, steps);
  run("current", float8_e4m3(), CurrentScaling(), steps / 4);
  run("current, powers of two", float8_e5m2(), CurrentScaling{0.25F, true}, steps / 4);
  run("torchao", float8_e4m3(), TorchaoScaling(), steps / 4);
  run("torchao, powers of two", float8_e5m2(), TorchaoScaling{true}, steps / 4);
  return failures;
}
/// Prints GB/s, read and written. `milliseconds(f)` measures one call of f().
template <class Rule, class Time>
void print_speed(const char* name, std::size_t tensors, const Time& milliseconds) {
  constexpr std::size_t bytes = std::size_t{256} << 20U;
  void* memory = nullptr;
  check("cudaMalloc", cudaMalloc(&memory, 2 * bytes));
  const gpu::detail::Memory<float8_e4m3> owner(static_cast<float8_e4m3*>(memory));
  check("cudaMemsetAsync", cudaMemsetAsync(memory, 0x35, bytes, nullptr));
  std::vector<typename gpu::TensorScales<float8_e4m3, Rule>::Tensor> list;
  const std::size_t n = bytes / 2 / tensors / 16 * 16;
  for (std::size_t i = 0; i < tensors; ++i)
    list.push_back({{static_cast<void*>(owner.get() + 2 * n * i), n, dtype_code::bf16},
                    owner.get() + bytes + n * i});
  gpu::TensorScales<float8_e4m3, Rule> scales(list);
  const double quantize = milliseconds([&] { scales.quantize(nullptr); }),
               update = milliseconds([&] { scales.update(nullptr); });
  std::printf("fp8, %s, %zu tensors of bf16: %.0f GB/s, update %.1f us\n", name, tensors,
              static_cast<double>(n * tensors) * (Rule::is_current ? 5 : 3) * 1e-6 / quantize,
              update * 1e3);
}
template <class Time>
void speed(const Time& milliseconds) {
  for (const std::size_t tensors : {1U, 1000U}) {
    print_speed<DelayedScaling>("delayed", tensors, milliseconds);
    print_speed<CurrentScaling>("current", tensors, milliseconds);
  }
}

}  // namespace fp8
