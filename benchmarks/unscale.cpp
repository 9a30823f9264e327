// fp16 gradients into float, unscaled and checked: headroom against the limit (the same widening loop without a scale or a
// check, and a copy of the same number of bytes) and against what one writes with Eigen. All in one process, in random order.

#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <Eigen/Core>
#include <cstddef>
#include <cstring>
#include <headroom/adapters/eigen.hpp>
#include <headroom/headroom.hpp>
#include <vector>

namespace {

constexpr std::size_t bytes_per_element = sizeof(headroom::half) + sizeof(float);

struct Gradients {
  explicit Gradients(std::size_t n) : halves(n, headroom::half(0.75F)), floats(n) {}
  std::vector<headroom::half> halves;
  std::vector<float> floats;
};

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * static_cast<std::int64_t>(bytes_per_element));
}

void headroom_unscale(benchmark::State& state, headroom::Isa isa) {
  const headroom::Isa before = headroom::active_isa();
  headroom::force_isa(isa);
  Gradients gradients(static_cast<std::size_t>(state.range(0)));
  const headroom::DynamicLossScale scaler;
  for (auto _ : state) {
    const headroom::GradientReport report = scaler.unscale_into(gradients.halves, gradients.floats);
    benchmark::DoNotOptimize(report.max_abs);
    benchmark::ClobberMemory();
  }
  headroom::force_isa(before);
  count_bytes(state);
}

#if HEADROOM_HAS_AVX2
__attribute__((target("avx2,f16c"))) void widen(const headroom::half* source, float* destination, std::size_t n) {
  for (std::size_t i = 0; i < n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    _mm256_storeu_ps(destination + i, _mm256_cvtph_ps(halves));
  }
}
void plain_widening_loop(benchmark::State& state) {
  Gradients gradients(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    widen(gradients.halves.data(), gradients.floats.data(), gradients.halves.size());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}
#endif

void memcpy_of_the_same_bytes(benchmark::State& state) {
  const std::size_t bytes = static_cast<std::size_t>(state.range(0)) * bytes_per_element / 2;  // read and written once each
  std::vector<char> source(bytes, 1), destination(bytes);
  for (auto _ : state) {
    std::memcpy(destination.data(), source.data(), bytes);
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void eigen_unscale(benchmark::State& state) {
  const Eigen::Index n = state.range(0);
  const Eigen::Array<Eigen::half, Eigen::Dynamic, 1> halves =
      Eigen::Array<Eigen::half, Eigen::Dynamic, 1>::Constant(n, Eigen::half(0.75F));
  Eigen::ArrayXf floats(n);
  const float inverse_scale = headroom::DynamicLossScale().inv_scale();
  for (auto _ : state) {
    floats = halves.cast<float>() * inverse_scale;
    benchmark::DoNotOptimize(floats.isFinite().all());
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  // Elements: 384 KiB in all, then 12 MiB, then 192 MiB.
  for (const std::int64_t n : {std::int64_t{1} << 16, std::int64_t{1} << 21, std::int64_t{1} << 25}) benchmark->Arg(n);
}

}  // namespace

int main(int argc, char** argv) {
  for (const headroom::Isa isa : headroom::available_isas()) {
    const std::string name = std::string("headroom/") + headroom::to_string(isa);
    benchmark::RegisterBenchmark(name.c_str(), headroom_unscale, isa)->Apply(sizes);
  }
#if HEADROOM_HAS_AVX2
  if (headroom::available_isas().size() > 1) {
    benchmark::RegisterBenchmark("plain_widening_loop", plain_widening_loop)->Apply(sizes);
  }
#endif
  benchmark::RegisterBenchmark("memcpy", memcpy_of_the_same_bytes)->Apply(sizes);
  benchmark::RegisterBenchmark("eigen", eigen_unscale)->Apply(sizes);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
