// What the C interface costs above the C++ one: lists of contiguous tensors of 64 elements, and a
// policy. Medians in nanoseconds.
//
//   benchmark_c c.tsv [flags of Google Benchmark]

#include <headroom.h>

#include <cstdio>
#include <headroom/headroom.hpp>
#include <headroom/tree/any_tensor.hpp>
#include <memory>
#include <string>
#include <vector>

#include "table.hpp"

namespace {

constexpr int calls = 64;  // in a run, because the clock is too coarse for one
constexpr std::size_t elements = 64;

template <class Call>
void add(const std::string& work, const char* contender, std::size_t size, const Call& call) {
  const auto run = [=] {
    for (int i = 0; i < calls; ++i) call();
  };
  benchmarks::add(work, contender, size, 0, run, calls);
}

/// The same tensors as trees of C++ and as a list of C.
template <class T>
struct Trees {
  std::vector<T> values;
  std::vector<headroom::span<T>> spans;
  std::vector<headroom::any_tensor> any;
  std::vector<headroom_tensor> list;

  Trees(std::size_t n, headroom::dtype_code dtype) : values(n * elements, T(1.0F)) {
    for (std::size_t i = 0; i < n; ++i) {
      T* const first = values.data() + i * elements;
      spans.emplace_back(first, elements);
      any.emplace_back(first, dtype, elements);
      list.push_back({first, elements, static_cast<headroom_dtype>(dtype), 0, nullptr, nullptr});
    }
  }
};

void add_lists(std::size_t n) {
  const auto to = std::make_shared<Trees<float>>(n, headroom::dtype_code::fp32);
  const auto from = std::make_shared<Trees<headroom::half>>(n, headroom::dtype_code::fp16);
  const auto report =
      std::make_shared<headroom_report>(headroom_report{sizeof(headroom_report), 0, 0.0, 0.0});
  std::string work = "unscale, ns for tensors:";
  add(work, "spans", n,
      [=] { benchmark::DoNotOptimize(headroom::unscale_in_place(to->spans, 1.0F).finite); });
  add(work, "any_tensors", n,
      [=] { benchmark::DoNotOptimize(headroom::unscale_in_place(to->any, 1.0F).finite); });
  add(work, "C", n, [=] { headroom_unscale_in_place(to->list.data(), n, 1.0F, 0, report.get()); });
  work = "unscale_into, ns for tensors:";
  add(work, "spans", n, [=] {
    benchmark::DoNotOptimize(headroom::unscale_into(from->spans, to->spans, 1.0F).finite);
  });
  add(work, "any_tensors", n,
      [=] { benchmark::DoNotOptimize(headroom::unscale_into(from->any, to->any, 1.0F).finite); });
  add(work, "C", n,
      [=] { headroom_unscale_into(from->list.data(), to->list.data(), n, 1.0F, 0, report.get()); });
}
void add_adjust() {
  const auto policy = std::make_shared<headroom::AnyLossScale>(headroom::presets::torch());
  headroom_loss_scale* in_c = nullptr;  // lives as long as the program
  headroom_loss_scale_make("torch", nullptr, &in_c);
  add("adjust, ns", "AnyLossScale", 1, [=] {
    *policy = policy->adjust(headroom::GradientReport{true, 1.0});
  });
  add("adjust, ns", "C", 1, [=] { headroom_loss_scale_adjust(in_c, 1, 1.0); });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s c.tsv [flags of Google Benchmark]\n", argv[0]);
    return 1;
  }
  for (const std::size_t n : {1U, 2U, 64U}) add_lists(n);
  add_adjust();
  benchmarks::Table table(benchmarks::Unit::nanoseconds);
  benchmark::RunSpecifiedBenchmarks(&table);
  table.print(argv[1]);
}
