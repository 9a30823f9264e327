#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

// Google Benchmark with one table at the end: a line for each work, with the milliseconds of
// headroom and of another contender, and the ratio.

namespace benchmarks {

/// Registers `run`: `work` done by `contender`. It measures CPU time, because other processes get
/// the CPU during runs this long.
inline void add_contender(const std::string& work, const std::string& contender,
                          const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark((work + '|' + contender).c_str(), run)
      ->MeasureProcessCPUTime()
      ->Unit(benchmark::kMillisecond);
}

/// Collects the repetitions. Prints only the table at the end.
class Comparison : public benchmark::BenchmarkReporter {
 public:
  explicit Comparison(std::string other) : other_(std::move(other)) {}

  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const std::string& name = run.run_name.function_name;
      const std::size_t bar = name.find('|');
      const std::string work = name.substr(0, bar);
      if (times_.count(work) == 0) works_.push_back(work);
      times_[work][name.substr(bar + 1)].push_back(run.GetAdjustedCPUTime());
    }
  }
  void print() {
    std::printf("%-44s %18s %18s %16s\n", "ms: median (least)", "headroom", other_.c_str(),
                "times as fast");
    std::sort(works_.begin(), works_.end());
    for (const std::string& work : works_) {
      const Figures ours = figures_of(times_[work]["headroom"]),
                    theirs = figures_of(times_[work][other_]);
      std::printf("%-44s %8.2f (%7.2f) %8.2f (%7.2f) %7.2f (%6.2f)\n", work.c_str(), ours.median,
                  ours.least, theirs.median, theirs.least, theirs.median / ours.median,
                  theirs.least / ours.least);
    }
  }

 private:
  struct Figures {
    double median, least;
  };
  static Figures figures_of(std::vector<double>& times) {
    if (times.empty()) return {0.0, 0.0};
    std::sort(times.begin(), times.end());
    return {times[times.size() / 2], times.front()};
  }

  std::string other_;
  std::vector<std::string> works_;
  std::map<std::string, std::map<std::string, std::vector<double>>> times_;
};

}  // namespace benchmarks
