#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "training.hpp"

namespace evidence {

/// Identifies a training.
struct Key {
  std::string network, variant;
  int seed = 0, steps = 0;

  friend bool operator<(const Key& a, const Key& b) {
    return std::tie(a.network, a.variant, a.seed, a.steps) <
           std::tie(b.network, b.variant, b.seed, b.steps);
  }
};

/// The results of a training that the tables need.
struct Run {
  double quality = 0.0;
  bool diverged = false;               // the loss of the last step is Inf or NaN
  double skipped = 0.0;                // share of the steps
  double lost = 0.0, wasted = 0.0;     // NaN: unknown
  double lowest = 0.0, highest = 0.0;  // scale

  Run() = default;
  explicit Run(const Result& result)
      : quality(result.quality),
        diverged(!std::isfinite(result.losses.back())),
        skipped(static_cast<double>(result.skipped) / static_cast<double>(result.losses.size())),
        lost(result.lost_share),
        wasted(result.wasted_bits),
        lowest(*std::min_element(result.scales.begin(), result.scales.end())),
        highest(*std::max_element(result.scales.begin(), result.scales.end())) {}
};

inline std::ofstream create(const std::filesystem::path& file) {
  std::ofstream stream(file);
  if (!stream) throw std::runtime_error(file.string() + ": cannot be written");
  stream.precision(10);
  return stream;
}

/// The trainings that have ended, and evidence_runs.csv of the output directory with a row for
/// each.
class Runs {
 public:
  explicit Runs(const std::filesystem::path& directory)
      : stream_(create(directory / "evidence_runs.csv")) {
    stream_ << "network,variant,seed,steps,quality,diverged,skipped,lost,wasted\n";
  }

  [[nodiscard]] bool has(const Key& key) const { return runs_.count(key) > 0; }
  [[nodiscard]] const Run& at(const Key& key) const { return runs_.at(key); }
  /// Several threads may call it.
  void add(const Key& key, const Run& run) {
    const std::lock_guard<std::mutex> lock(mutex_);
    runs_[key] = run;
    stream_ << key.network << ',' << key.variant << ',' << key.seed << ',' << key.steps << ','
            << run.quality << ',' << run.diverged << ',' << run.skipped << ',' << run.lost << ','
            << run.wasted << std::endl;
  }

 private:
  std::map<Key, Run> runs_;
  std::mutex mutex_;
  std::ofstream stream_;
};

}  // namespace evidence
