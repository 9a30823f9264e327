// The kernels beside the limits of the machine and other ways to do the same work: sizes from the
// first-level cache to memory, one process, one thread, random order. Prints a table of GB/s read
// and written (medians), and writes it for plot_kernels.gp.
//
//   benchmark_kernels table.tsv [flags of Google Benchmark]

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "contenders.hpp"
#include "table.hpp"

namespace {

using headroom::bfloat16;
using headroom::half;
using headroom::span;

constexpr std::size_t most_bytes = std::size_t{256} << 20;
const std::vector<std::size_t> sizes = {8U << 10, 64U << 10, 512U << 10,
                                        4U << 20, 32U << 20, most_bytes};

/// Ones for all sizes, and as much memory to write to.
template <class T>
std::vector<T>& ones() {
  static std::vector<T> values(most_bytes / sizeof(T), T(1.0F));
  return values;
}
template <class T>
std::vector<T>& target() {
  static std::vector<T> values(most_bytes / sizeof(T), T(1.0F));
  return values;
}

/// A multiplication by 1 keeps the ones, and the compiler does not know the factor.
float inverse_scale() {
  static volatile float one = 1.0F;
  return one;
}

/// Adds a line of the table: `work` done by `contender` for each size. Each element is
/// `bytes_per_element`, read and written together.
void add(const std::string& work, const std::string& contender, std::size_t bytes_per_element,
         const std::function<void(std::size_t)>& run) {
  for (const std::size_t bytes : sizes) {
    const std::size_t n = bytes / bytes_per_element / 64 * 64;
    benchmarks::add(work, contender, bytes, n * bytes_per_element, [=] { run(n); });
  }
}

/// headroom on every instruction set of this CPU. force_isa remains in effect until the next
/// contender calls it.
void add_headroom(const std::string& work, std::size_t bytes_per_element,
                  const std::function<void(std::size_t)>& run) {
  for (const headroom::Isa isa : headroom::available_isas()) {
    add(work, std::string("headroom ") + to_string(isa), bytes_per_element, [=](std::size_t n) {
      if (headroom::active_isa() != isa) headroom::force_isa(isa);
      run(n);
    });
  }
}

template <class T>
void add_in_place(const std::string& dtype) {
  const std::string work = "unscale " + dtype + " in place";
  constexpr std::size_t bytes = 2 * sizeof(T);
  add_headroom(work, bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(headroom::unscale_in_place<headroom::allow_fp16_gradients>(
                                 span<T>(ones<T>().data(), n), 1.0F / inverse_scale())
                                 .finite);
  });
  add(work, "limit: multiply floats", bytes, [](std::size_t n) {
    contenders::multiply(ones<float>().data(), n * sizeof(T) / sizeof(float), inverse_scale());
  });
  add(work, "Eigen", bytes, [](std::size_t n) {
    auto values = contenders::eigen(ones<T>().data(), n);
    values *= static_cast<typename contenders::eigen_scalar<T>::type>(inverse_scale());
    benchmark::DoNotOptimize(values.isFinite().all());
  });
  add(work, "obvious loop", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(contenders::obvious_unscale(ones<T>().data(), n, inverse_scale()));
  });
  if constexpr (std::is_same_v<T, float>) {
    add(work, "xtensor", bytes, [](std::size_t n) {
      auto values = contenders::xtensor(ones<float>().data(), n);
      values *= inverse_scale();
      benchmark::DoNotOptimize(xt::all(xt::isfinite(values)));
    });
  }
#if BENCHMARK_HIGHWAY
  add(work, "Highway", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(contenders::highway_unscale(ones<T>().data(), n, inverse_scale()));
  });
#endif
#if BENCHMARK_TORCH
  add(work, "libtorch", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(contenders::torch_unscale(ones<T>().data(), n, inverse_scale()));
  });
#endif
}

/// Subnormal fp16 numbers, as many scaled gradients are: conversions of these are slower.
void add_subnormal_halves() {
  static std::vector<half> values(most_bytes / sizeof(half), half(0x1p-20F));
  const std::string work = "unscale fp16 in place, subnormal";
  add_headroom(work, 2 * sizeof(half), [](std::size_t n) {
    benchmark::DoNotOptimize(headroom::unscale_in_place<headroom::allow_fp16_gradients>(
                                 span<half>(values.data(), n), 1.0F / inverse_scale())
                                 .finite);
  });
  add(work, "limit: multiply floats", 2 * sizeof(half),
      [](std::size_t n) { contenders::multiply(ones<float>().data(), n / 2, inverse_scale()); });
}

template <class T>
void add_widening(const std::string& dtype) {
  const std::string work = "unscale " + dtype + " to float";
  constexpr std::size_t bytes = sizeof(T) + sizeof(float);
  add_headroom(work, bytes, [](std::size_t n) {
    const span<float> to(target<float>().data(), n);
    benchmark::DoNotOptimize(
        headroom::unscale_into(span<T>(ones<T>().data(), n), to, 1.0F / inverse_scale()).finite);
  });
#if HEADROOM_DETAIL_HAS_X86
  add(work, "limit: widen", bytes,
      [](std::size_t n) { contenders::widen(ones<T>().data(), target<float>().data(), n); });
#endif
  add(work, "Eigen", bytes, [](std::size_t n) {
    auto values = contenders::eigen(target<float>().data(), n);
    values = contenders::eigen(ones<T>().data(), n).template cast<float>() * inverse_scale();
    benchmark::DoNotOptimize(values.isFinite().all());
  });
  add(work, "obvious loop", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(
        contenders::obvious_unscale(ones<T>().data(), target<float>().data(), n, inverse_scale()));
  });
#if BENCHMARK_HIGHWAY
  add(work, "Highway", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(
        contenders::highway_unscale(ones<T>().data(), target<float>().data(), n, inverse_scale()));
  });
#endif
#if BENCHMARK_TORCH
  add(work, "libtorch", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(
        contenders::torch_unscale(ones<T>().data(), target<float>().data(), n, inverse_scale()));
  });
#endif
}

/// Reads both and writes one. The limit neither scales nor checks.
template <class T>
void add_accumulation(const std::string& dtype) {
  const std::string work = "accumulate " + dtype + " into float";
  constexpr std::size_t bytes = sizeof(T) + 2 * sizeof(float);
  add_headroom(work, bytes, [](std::size_t n) {
    const span<const T> from(ones<T>().data(), n);
    const span<float> to(target<float>().data(), n);
    benchmark::DoNotOptimize(headroom::accumulate_into(from, to, 1.0F / inverse_scale()).finite);
  });
#if HEADROOM_DETAIL_HAS_X86
  add(work, "limit: widen and add", bytes, [](std::size_t n) {
    contenders::widen_and_add(ones<T>().data(), target<float>().data(), n);
  });
#endif
  add(work, "Eigen", bytes, [](std::size_t n) {
    const auto from = contenders::eigen(ones<T>().data(), n);
    contenders::eigen(target<float>().data(), n) += from.template cast<float>() * inverse_scale();
    benchmark::DoNotOptimize(from.isFinite().all());
  });
  add(work, "obvious loop", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(contenders::obvious_accumulate(
        ones<T>().data(), target<float>().data(), n, inverse_scale()));
  });
}

template <class T>
void add_cast(const std::string& dtype) {
  const std::string work = "cast float to " + dtype;
  constexpr std::size_t bytes = sizeof(float) + sizeof(T);
  add_headroom(work, bytes, [](std::size_t n) {
    headroom::cast_into(span<float>(ones<float>().data(), n), span<T>(target<T>().data(), n));
  });
  add(work, "limit: memcpy", bytes, [](std::size_t n) {
    std::memcpy(target<float>().data(), ones<float>().data(), n * (sizeof(float) + sizeof(T)) / 2);
  });
  add(work, "Eigen", bytes, [](std::size_t n) {
    contenders::eigen(target<T>().data(), n) =
        contenders::eigen(ones<float>().data(), n)
            .template cast<typename contenders::eigen_scalar<T>::type>();
  });
  add(work, "obvious loop", bytes,
      [](std::size_t n) { contenders::obvious_cast(ones<float>().data(), target<T>().data(), n); });
#if BENCHMARK_HIGHWAY
  add(work, "Highway", bytes,
      [](std::size_t n) { contenders::highway_cast(ones<float>().data(), target<T>().data(), n); });
#endif
#if BENCHMARK_TORCH
  add(work, "libtorch", bytes,
      [](std::size_t n) { contenders::torch_cast(ones<float>().data(), target<T>().data(), n); });
#endif
}

template <class T>
void add_reading(const std::string& dtype) {
  constexpr std::size_t bytes = sizeof(T);
  const auto limit = [](std::size_t n) {
#if HEADROOM_DETAIL_HAS_X86
    benchmark::DoNotOptimize(contenders::read(ones<T>().data(), n * sizeof(T)));
#endif
  };
  add_headroom("all_finite " + dtype, bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(headroom::all_finite(span<T>(ones<T>().data(), n)));
  });
  add("all_finite " + dtype, "limit: read", bytes, limit);
  add("all_finite " + dtype, "Eigen", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(contenders::eigen(ones<T>().data(), n).isFinite().all());
  });
  add("all_finite " + dtype, "obvious loop", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(contenders::obvious_all_finite(ones<T>().data(), n));
  });
#if BENCHMARK_HIGHWAY
  add("all_finite " + dtype, "Highway", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(contenders::highway_all_finite(ones<T>().data(), n));
  });
#endif
#if BENCHMARK_TORCH
  add("all_finite " + dtype, "libtorch", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(contenders::torch_all_finite(ones<T>().data(), n));
  });
#endif
  add_headroom("measure " + dtype, bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(headroom::measure(span<T>(ones<T>().data(), n)).norm);
  });
  add("measure " + dtype, "limit: read", bytes, limit);
  add("measure " + dtype, "obvious loop", bytes, [](std::size_t n) {
    benchmark::DoNotOptimize(contenders::obvious_norm(ones<T>().data(), n));
  });
  if constexpr (std::is_same_v<T, float>) {
    add("all_finite float", "xtensor", bytes, [](std::size_t n) {
      benchmark::DoNotOptimize(xt::all(xt::isfinite(contenders::xtensor(ones<float>().data(), n))));
    });
    add("measure float", "Eigen, norm alone", bytes, [](std::size_t n) {
      benchmark::DoNotOptimize(contenders::eigen(ones<float>().data(), n).matrix().norm());
    });
#if BENCHMARK_TORCH
    add("measure float", "libtorch, norm alone", bytes, [](std::size_t n) {
      benchmark::DoNotOptimize(contenders::torch_norm(ones<float>().data(), n));
    });
#endif
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s table.tsv [flags of Google Benchmark]\n", argv[0]);
    return 1;
  }
  // Allocates the memory here, not during a measurement.
  for (const void* memory : {static_cast<const void*>(ones<float>().data()),
                             static_cast<const void*>(ones<half>().data()),
                             static_cast<const void*>(ones<bfloat16>().data()),
                             static_cast<const void*>(target<float>().data()),
                             static_cast<const void*>(target<half>().data()),
                             static_cast<const void*>(target<bfloat16>().data())}) {
    benchmark::DoNotOptimize(memory);
  }
  add_in_place<float>("float");
  add_in_place<half>("fp16");
  add_in_place<bfloat16>("bf16");
  add_subnormal_halves();
  add_widening<half>("fp16");
  add_widening<bfloat16>("bf16");
  add_accumulation<half>("fp16");
  add_accumulation<bfloat16>("bf16");
  add_cast<half>("fp16");
  add_cast<bfloat16>("bf16");
  add_reading<float>("float");
  add_reading<half>("fp16");
  add_reading<bfloat16>("bf16");
#if BENCHMARK_TORCH
  contenders::torch_in_one_thread();
#endif
  benchmarks::Table table(benchmarks::Unit::gigabytes_per_second);
  benchmark::RunSpecifiedBenchmarks(&table);
  std::printf("GB/s read and written, by how much is read and written; medians\n");
  table.print(argv[1]);
}
