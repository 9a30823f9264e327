#pragma once

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "training.hpp"

namespace evidence {

/// A training among the others.
struct Key {
  std::string network, variant;
  int seed = 0, steps = 0;

  friend bool operator<(const Key& a, const Key& b) {
    return std::tie(a.network, a.variant, a.seed, a.steps) < std::tie(b.network, b.variant, b.seed, b.steps);
  }
};

/// What is kept of a training.
struct Run {
  double quality = 0.0;
  bool diverged = false;            // the loss of the last step is Inf or NaN
  double skipped = 0.0;             // share of the steps
  double lost = 0.0, wasted = 0.0;  // NaN: unknown

  Run() = default;
  explicit Run(const Result& result)
      : quality(result.quality),
        diverged(!std::isfinite(result.losses.back())),
        skipped(static_cast<double>(result.skipped) / static_cast<double>(result.losses.size())),
        lost(result.lost_share),
        wasted(result.wasted_bits) {}
};

inline std::ofstream create(const std::filesystem::path& file) {
  std::ofstream stream(file);
  if (!stream) throw std::runtime_error(file.string() + ": cannot be written");
  stream.precision(10);
  return stream;
}

/// evidence_runs.csv of the output directory, a row per training, written as soon as it has ended. A file that is younger than
/// the program is read first: what is in there need not be done again.
class Runs {
 public:
  Runs(const std::filesystem::path& directory, const std::filesystem::path& program) {
    const std::filesystem::path file = directory / "evidence_runs.csv";
    std::error_code missing;
    if (std::filesystem::last_write_time(file, missing) > std::filesystem::last_write_time(program) && !missing) read(file);
    stream_ = create(file);
    stream_ << "network,variant,seed,steps,quality,diverged,skipped,lost,wasted\n";
    for (const auto& [key, run] : runs_) write(key, run);
  }

  [[nodiscard]] bool has(const Key& key) const { return runs_.count(key) != 0; }
  [[nodiscard]] const Run& at(const Key& key) const { return runs_.at(key); }
  /// Safe for use by several threads.
  void add(const Key& key, const Run& run) {
    const std::lock_guard<std::mutex> lock(mutex_);
    runs_[key] = run;
    write(key, run);
  }

 private:
  void write(const Key& key, const Run& run) {
    stream_ << key.network << ',' << key.variant << ',' << key.seed << ',' << key.steps << ',' << run.quality << ','
            << run.diverged << ',' << run.skipped << ',' << run.lost << ',' << run.wasted << std::endl;
  }
  /// A row that is not whole, because the program was stopped while it wrote it, counts as missing.
  void read(const std::filesystem::path& file) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    while (std::getline(stream, line) && !stream.eof()) {
      std::istringstream row(line);
      Key key;
      std::string seed, steps, number[5];
      std::getline(row, key.network, ',');
      std::getline(row, key.variant, ',');
      std::getline(row, seed, ',');
      std::getline(row, steps, ',');
      for (std::string& field : number) std::getline(row, field, ',');
      Run run;
      key.seed = std::stoi(seed);
      key.steps = std::stoi(steps);
      run.quality = std::stod(number[0]);
      run.diverged = number[1] == "1";
      run.skipped = std::stod(number[2]);
      run.lost = std::stod(number[3]);
      run.wasted = std::stod(number[4]);
      runs_[key] = run;
    }
  }

  std::map<Key, Run> runs_;
  std::mutex mutex_;
  std::ofstream stream_;
};

}  // namespace evidence
