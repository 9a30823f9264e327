#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

// Google Benchmark with one table at the end: a block for each work, a line for each contender, a
// column for each size. Figures are medians of the repetitions.

namespace benchmarks {

/// CPU time is steadier in one thread on a machine with other work.
enum class Clock { real, cpu };

/// Registers `run`: `work` done by `contender` at one `size`, reading and writing `bytes` together,
/// or that many elements. `run` does the work `times` times if once is too short for the clock.
inline void add(const std::string& work, const std::string& contender, std::size_t size,
                std::size_t bytes, const std::function<void()>& run, int times = 1,
                Clock clock = Clock::real) {
  const auto measure = [=](benchmark::State& state) {
    for (auto _ : state) {
      run();
      benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                            static_cast<std::int64_t>(bytes));
    state.counters["times"] = times;
  };
  const std::string name = work + '|' + contender + '|' + std::to_string(size);
  benchmark::internal::Benchmark* const added = benchmark::RegisterBenchmark(name.c_str(), measure);
  if (clock == Clock::real) added->UseRealTime();
}

enum class Unit { gigabytes_per_second, gigaelements_per_second, nanoseconds };

/// "16 MiB"
inline std::string size_text(std::size_t bytes) {
  if (bytes < (1U << 20)) return std::to_string(bytes >> 10) + " KiB";
  return std::to_string(bytes >> 20) + " MiB";
}

/// Collects the repetitions. Prints only the table at the end.
class Table : public benchmark::BenchmarkReporter {
 public:
  /// With a `reference`, the figures of the other contenders are ratios to it. Elements a second
  /// come with the ratio.
  explicit Table(Unit unit, std::string reference = "")
      : unit_(unit), reference_(std::move(reference)) {}

  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      const std::string& name = run.run_name.function_name;
      const std::size_t first = name.find('|'), second = name.find('|', first + 1);
      const Line line{name.substr(0, first), name.substr(first + 1, second - first - 1)};
      const std::size_t size = std::stoul(name.substr(second + 1));
      auto& sizes = sizes_[line.first];
      if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
      if (std::find(lines_.begin(), lines_.end(), line) == lines_.end()) lines_.push_back(line);
      const double nanoseconds = run.GetAdjustedRealTime() / run.counters.at("times");
      figures_[{line, size}].push_back(
          unit_ == Unit::nanoseconds ? nanoseconds : run.counters.at("bytes_per_second") / 1e9);
    }
  }
  /// Prints the table, and writes it as blocks of tab-separated columns: sizes, then a column for
  /// each contender.
  void print(const std::string& file) {
    std::ofstream tsv(file);
    std::sort(lines_.begin(), lines_.end());
    for (auto begin = lines_.begin(); begin != lines_.end();) {
      const auto end = std::find_if(begin, lines_.end(),
                                    [&](const Line& line) { return line.first != begin->first; });
      print_block({begin, end}, tsv);
      begin = end;
    }
  }

 private:
  using Line = std::pair<std::string, std::string>;  // work and contender

  void print_block(const std::vector<Line>& lines, std::ofstream& tsv) {
    const std::string& work = lines.front().first;
    std::vector<std::size_t>& sizes = sizes_[work];
    std::sort(sizes.begin(), sizes.end());
    std::printf("\n%-34s", work.c_str());
    for (const std::size_t size : sizes) {
      std::printf(
          " %*s", has_both() ? 14 : 10,
          unit_ == Unit::nanoseconds ? std::to_string(size).c_str() : size_text(size).c_str());
    }
    std::printf("\n");
    tsv << work;
    for (const Line& line : lines) {
      std::printf("  %-32s", line.second.c_str());
      for (const std::size_t size : sizes) {
        std::printf(" %*.*f", has_both() ? 7 : 10, reference_.empty() ? 1 : 2, figure(line, size));
        if (has_both())
          std::printf(" (%4.2f)", figure(line, size) / median({line.first, reference_}, size));
      }
      std::printf("\n");
      tsv << '\t' << line.second;
    }
    tsv << '\n';
    for (const std::size_t size : sizes) {
      tsv << size;
      for (const Line& line : lines) tsv << '\t' << figure(line, size);
      tsv << '\n';
    }
    tsv << "\n\n";
  }
  [[nodiscard]] bool has_both() const { return unit_ == Unit::gigaelements_per_second; }
  double figure(const Line& line, std::size_t size) {
    const Line reference{line.first, reference_};
    const bool is_ratio = !reference_.empty() && !has_both() && line != reference;
    return is_ratio ? median(line, size) / median(reference, size) : median(line, size);
  }
  double median(const Line& line, std::size_t size) {
    std::vector<double>& figures = figures_[{line, size}];
    std::sort(figures.begin(), figures.end());
    return figures.empty() ? 0.0 : figures[figures.size() / 2];
  }

  Unit unit_;
  std::string reference_;
  std::vector<Line> lines_;
  std::map<std::string, std::vector<std::size_t>> sizes_;
  std::map<std::pair<Line, std::size_t>, std::vector<double>> figures_;
};

}  // namespace benchmarks
