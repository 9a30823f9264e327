// The cost around the kernels: calls on a few elements, trees of many small leaves, one large leaf
// on several threads, streaming stores of leaves of all sizes. Tables of medians: nanoseconds, GB/s
// read and written, ratios.
//
//   benchmark_trees calls.tsv threads.tsv streaming.tsv [flags of Google Benchmark]

#include <Eigen/Core>
#include <cmath>
#include <cstdio>
#include <functional>
#include <headroom/adapters/eigen.hpp>
#include <headroom/headroom.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#if BENCHMARK_TBB
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#endif

#include "contenders.hpp"
#include "table.hpp"

namespace {

/// A scale of 1 keeps the ones, and the compiler does not know it.
float inverse_scale() {
  static volatile float one = 1.0F;
  return one;
}
const headroom::ConstantLossScale policy(inverse_scale());

// ---- calls ----

/// A run is `calls` calls, because the clock is too coarse for one.
constexpr int calls = 64;

void add_call(const std::string& work, const std::string& contender, std::size_t size,
              const std::function<void()>& run, int calls_a_run = 1) {
  benchmarks::add(work, contender, size, 0, run, calls_a_run);
}

template <class T>
void add_small(const std::string& dtype) {
  for (const std::size_t n : {1U, 4U, 7U, 16U, 64U}) {
    const auto values = std::make_shared<std::vector<T>>(n, T(1.0F));
    const std::string work = "unscale " + dtype + " in place, ns for elements:";
    const auto add = [&](const char* contender, auto once) {
      const auto run = [=] {
        for (int call = 0; call < calls; ++call) once();
      };
      add_call(work, contender, n, run, calls);
    };
    add("headroom", [=] {
      benchmark::DoNotOptimize(
          policy.unscale_in_place<headroom::allow_fp16_gradients>(*values).finite);
    });
    if constexpr (std::is_same_v<T, float>) {
      add("Eigen", [=] {
        Eigen::Map<Eigen::ArrayXf> array(values->data(), static_cast<Eigen::Index>(values->size()));
        array *= inverse_scale();
        benchmark::DoNotOptimize(array.isFinite().all());
      });
      add("headroom, measure", [=] { benchmark::DoNotOptimize(headroom::measure(*values).norm); });
    }
  }
}

/// An optimizer that does nothing.
struct EmptyOptimizer {
  std::vector<std::vector<float>> leaves =
      std::vector<std::vector<float>>(4, std::vector<float>(16, 1.0F));
  std::vector<std::vector<float>>& gradients() { return leaves; }
  void step() {}
};
/// A GradScaler iteration around it: scale the loss, unscale and check the gradients, adjust the
/// scale.
void add_step() {
  const auto optimizer = std::make_shared<EmptyOptimizer>();
  const auto scaler = std::make_shared<headroom::GradScaler<headroom::ConstantLossScale>>(policy);
  const auto run = [=] {
    for (int call = 0; call < calls; ++call) {
      benchmark::DoNotOptimize(scaler->scale(1.0F));
      benchmark::DoNotOptimize(scaler->step(*optimizer).skipped);
      scaler->update();
    }
  };
  add_call("step of nothing, ns for leaves of 16:", "GradScaler", optimizer->leaves.size(), run,
           calls);
}

template <class Policy>
void add_adjust(const std::string& contender) {
  const auto run = [] {
    static const std::vector<char> finite(calls, 1);
    const char* flags = finite.data();
    benchmark::DoNotOptimize(flags);
    Policy next;
    for (int call = 0; call < calls; ++call) next = next.adjust(flags[call] != 0);
    benchmark::DoNotOptimize(next);
  };
  add_call("adjust, ns", contender, 1, run, calls);
}

// ---- many leaves ----

void add_leaves(std::size_t leaves, std::size_t size) {
  const auto tree =
      std::make_shared<std::vector<std::vector<float>>>(leaves, std::vector<float>(size, 1.0F));
  const auto one = std::make_shared<std::vector<float>>(leaves * size, 1.0F);
  const std::string work = "vectors of " + std::to_string(size) + " floats, ns for as many:";
  add_call(work, "unscale in place", leaves,
           [=] { benchmark::DoNotOptimize(policy.unscale_in_place(*tree).finite); });
  add_call(work, "unscale, as one span", leaves,
           [=] { benchmark::DoNotOptimize(policy.unscale_in_place(*one).finite); });
  add_call(work, "unscale, parallel(2)", leaves, [=] {
    benchmark::DoNotOptimize(policy.unscale_in_place(*tree, headroom::parallel(2)).finite);
  });
  add_call(work, "unscale, Eigen", leaves, [=] {
    bool finite = true;
    for (auto& leaf : *tree) {
      Eigen::Map<Eigen::ArrayXf> array(leaf.data(), static_cast<Eigen::Index>(leaf.size()));
      array *= inverse_scale();
      finite = finite && array.isFinite().all();
    }
    benchmark::DoNotOptimize(finite);
  });
  add_call(work, "measure", leaves,
           [=] { benchmark::DoNotOptimize(headroom::measure(*tree).norm); });
  add_call(work, "measure, as one span", leaves,
           [=] { benchmark::DoNotOptimize(headroom::measure(*one).norm); });
}

// ---- threads ----

/// parallel(n) as it would be if each call started its threads.
struct ThreadsPerCall {
  static constexpr std::size_t concurrency() { return 2; }
  template <class Task>
  void run(std::size_t n, Task&& task) const {
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < n; ++i) threads.emplace_back([&task, i] { task(i); });
    task(0);
    for (std::thread& thread : threads) thread.join();
  }
};

#if BENCHMARK_TBB
/// An executor made of a thread pool.
class TbbExecutor {
 public:
  explicit TbbExecutor(int n_threads) : arena_(n_threads) {}
  [[nodiscard]] std::size_t concurrency() const {
    return static_cast<std::size_t>(arena_.max_concurrency());
  }
  template <class Task>
  void run(std::size_t n, Task&& task) const {
    arena_.execute([&] {
      tbb::parallel_for(
          std::size_t{0}, n, [&](std::size_t i) { task(i); }, tbb::simple_partitioner{});
    });
  }

 private:
  mutable tbb::task_arena arena_;
};
#endif

void add_threads() {
  static std::vector<float> values((std::size_t{256} << 20) / sizeof(float), 1.0F);
  for (const std::size_t bytes :
       {64U << 10, 1U << 20, 4U << 20, 16U << 20, 64U << 20, 256U << 20}) {
    const headroom::span<float> leaf(values.data(), bytes / sizeof(float));
    const auto add = [&](const char* contender, const std::function<void()>& run) {
      benchmarks::add("unscale float in place", contender, bytes, 2 * bytes, run);
    };
    add("sequential", [=] { benchmark::DoNotOptimize(policy.unscale_in_place(leaf).finite); });
    add("parallel(2)", [=] {
      benchmark::DoNotOptimize(policy.unscale_in_place(leaf, headroom::parallel(2)).finite);
    });
    add("2 threads a call",
        [=] { benchmark::DoNotOptimize(policy.unscale_in_place(leaf, ThreadsPerCall{}).finite); });
#if BENCHMARK_TBB
    static const TbbExecutor tbb(2);
    add("oneTBB, 2 threads",
        [=] { benchmark::DoNotOptimize(policy.unscale_in_place(leaf, tbb).finite); });
#endif
    add("limit: multiply floats",
        [=] { contenders::multiply(leaf.data(), leaf.size(), inverse_scale()); });
    add("limit: multiply, 2 threads", [=] {
      const std::size_t half = leaf.size() / 2;
      headroom::parallel(2).run(2, [&](std::size_t i) {
        contenders::multiply(leaf.data() + i * half, half, inverse_scale());
      });
    });
  }
}

// ---- streaming stores ----

constexpr const char* ordinary = "ordinary stores, ns an element";

template <class Source, class Destination>
void add_stores(const std::string& work, std::size_t size, std::size_t elements,
                const Source& source, const Destination& destination) {
  const int times = static_cast<int>(elements);
  const auto streams = [=] {
    benchmark::DoNotOptimize(policy.unscale_into(*source, *destination).finite);
  };
  const auto stores = [=] {  // as in trees that are too small to stream
    headroom::detail::Plan plan;
    headroom::detail::make_plan<headroom::detail::UnscaleOps, headroom::detail::Access::into>(
        plan, std::as_const(*source), *destination);
    const auto pass = headroom::detail::unscale_pass(policy.loss_scale());
    benchmark::DoNotOptimize(headroom::detail::run(plan, pass, headroom::sequential).max_abs);
  };
  add_call(work, "the verb, ratio to that", size, streams, times);
  add_call(work, ordinary, size, stores, times);
}

/// Elements for leaves with some bytes between them, as an allocator places them. All leaves of a
/// dtype share the memory.
template <class T, bool IsDestination>
T* leaf_at(std::size_t i, std::size_t size, std::size_t total) {
  static std::vector<T> elements(2 * total, T(1.0F));
  return elements.data() + i * (size + 16 / sizeof(T));
}

template <class In, class Out>
void add_streaming(const std::string& work) {
  constexpr std::size_t total = (std::size_t{128} << 20) / (sizeof(In) + sizeof(Out)),
                        columns = 100;
  for (const std::size_t size : {24U, 100U, 300U, 400U, 1000U, 4000U, 100'000U}) {
    const auto source = std::make_shared<std::vector<headroom::span<In>>>();
    const auto destination = std::make_shared<std::vector<headroom::span<Out>>>();
    for (std::size_t i = 0; i < total / size; ++i) {
      source->emplace_back(leaf_at<In, false>(i, size, total), size);
      destination->emplace_back(leaf_at<Out, true>(i, size, total), size);
    }
    add_stores(work + ", leaves of as many", size, total / size * size, source, destination);
  }
  // Blocks of a matrix: there are gaps between their columns.
  using Stride = Eigen::OuterStride<>;
  using From = Eigen::Map<Eigen::Matrix<In, Eigen::Dynamic, Eigen::Dynamic>, 0, Stride>;
  using To = Eigen::Map<Eigen::Matrix<Out, Eigen::Dynamic, Eigen::Dynamic>, 0, Stride>;
  for (const std::size_t size : {24U, 100U, 400U, 4000U}) {
    const auto source = std::make_shared<std::vector<From>>();
    const auto destination = std::make_shared<std::vector<To>>();
    const auto rows = static_cast<Eigen::Index>(size);
    for (std::size_t i = 0; i + columns <= total / size; i += columns) {
      source->emplace_back(leaf_at<In, false>(i, size, total), rows, columns,
                           Stride(rows + 16 / Eigen::Index{sizeof(In)}));
      destination->emplace_back(leaf_at<Out, true>(i, size, total), rows, columns,
                                Stride(rows + 16 / Eigen::Index{sizeof(Out)}));
    }
    add_stores(work + ", columns of as many", size, source->size() * columns * size, source,
               destination);
  }
}

/// Runs the benchmarks registered since the last call.
void run_table(benchmarks::Unit unit, const char* title, const char* file,
               const char* reference = "") {
  benchmarks::Table table(unit, reference);
  benchmark::RunSpecifiedBenchmarks(&table);
  std::printf("\n%s\n", title);
  table.print(file);
  benchmark::ClearRegisteredBenchmarks();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 4) {
    std::fprintf(stderr,
                 "usage: %s calls.tsv threads.tsv streaming.tsv [flags of Google Benchmark]\n",
                 argv[0]);
    return 1;
  }
  add_small<float>("float");
  add_small<headroom::half>("fp16");
  add_step();
  add_adjust<headroom::DynamicLossScale>("DynamicLossScale");
  add_adjust<headroom::HysteresisScale>("HysteresisScale");
  for (const std::size_t size : {16U, 64U, 200U}) add_leaves(10'000, size);
  run_table(benchmarks::Unit::nanoseconds, "Small work: medians", argv[1]);
  add_threads();
  run_table(benchmarks::Unit::gigabytes_per_second,
            "Threads: GB/s read and written, by size of the leaf; medians", argv[2]);
  add_streaming<Eigen::half, float>("fp16 to float");
  add_streaming<float, Eigen::half>("float to fp16");
  add_streaming<float, float>("float to float");
  run_table(benchmarks::Unit::nanoseconds,
            "Streaming stores, trees of 128 MiB, unscale_into; medians", argv[3], ordinary);
}
