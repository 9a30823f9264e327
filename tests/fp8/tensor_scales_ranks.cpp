#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/fp8/rules.hpp>
#include <headroom/fp8/tensor_scales.hpp>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <future>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/samples.hpp"

using headroom::span;
using headroom::TensorScales;
using support::bits_of;

namespace {

using Tree = std::vector<std::vector<float>>;
/// The trees that a process quantizes: by step, and in a step one for each micro-batch.
using Run = std::vector<std::vector<Tree>>;

constexpr std::size_t leaves = 3;

/// An all-reduce by maximum between threads.
class Reduction {
 public:
  explicit Reduction(int ranks) : ranks_(ranks) {}
  void operator()(span<float> largest) {
    std::unique_lock<std::mutex> lock(mutex_);
    next_.resize(largest.size());
    for (std::size_t i = 0; i < next_.size(); ++i) next_[i] = std::max(next_[i], bits_of(largest[i]));
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++reductions_;
      result_.swap(next_);
      next_.clear();
      all_have_arrived_.notify_all();
    } else {
      all_have_arrived_.wait(lock, [this, before = reductions_] { return reductions_ != before; });
    }
    for (std::size_t i = 0; i < result_.size(); ++i) support::set_bits(largest[i], result_[i]);
  }
  [[nodiscard]] int count() const { return reductions_; }

 private:
  std::mutex mutex_;
  std::condition_variable all_have_arrived_;
  int ranks_, arrived_ = 0, reductions_ = 0;
  std::vector<std::uint32_t> next_, result_;
};

/// Gradients of several magnitudes. Some leaves are zero or empty, and some have an Inf or a NaN.
std::vector<float> random_leaf(std::mt19937& random) {
  constexpr std::uint32_t special[] = {0x7F800000, 0xFF800000, 0x7FC00000};
  std::vector<std::uint32_t> bits(random() % 40);
  const int low = static_cast<int>(random() % 40) - 20;
  const bool is_zero = random() % 5 == 0;
  for (std::uint32_t& one : bits) one = is_zero ? 0 : support::random_magnitude<headroom::binary32>(random, low, low + 8);
  if (!bits.empty() && random() % 6 == 0) bits[random() % bits.size()] = special[random() % 3];
  return support::values_with<float>(bits);
}
/// A run for each rank.
std::vector<Run> random_runs(std::mt19937& random, std::size_t ranks) {
  std::vector<Run> runs(ranks);
  for (int step = 0; step < 10; ++step) {
    const std::size_t micro_batches = 1 + random() % 3;
    for (Run& run : runs) {
      run.emplace_back();
      for (std::size_t i = 0; i < micro_batches; ++i) {
        run.back().emplace_back();
        for (std::size_t leaf = 0; leaf < leaves; ++leaf) run.back().back().push_back(random_leaf(random));
      }
    }
  }
  return runs;
}
/// The run of one process, in which each leaf has the elements of all ranks.
Run concatenated(const std::vector<Run>& runs) {
  Run whole = runs[0];
  for (std::size_t rank = 1; rank < runs.size(); ++rank) {
    for (std::size_t step = 0; step < whole.size(); ++step) {
      for (std::size_t i = 0; i < whole[step].size(); ++i) {
        for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
          const auto& part = runs[rank][step][i][leaf];
          whole[step][i][leaf].insert(whole[step][i][leaf].end(), part.begin(), part.end());
        }
      }
    }
  }
  return whole;
}

struct Result {
  std::vector<std::uint32_t> scales;                     // of all leaves, after each call
  std::vector<std::vector<std::uint8_t>> codes{leaves};  // of each leaf, in all calls
  std::vector<std::vector<std::size_t>> sizes{leaves};   // of each leaf, in each call
};

template <class To>
std::uint8_t without_payload(To code) {
  using Format = typename To::format;
  return support::is_nan<Format>(code.bits()) ? Format::quiet_nan_bits : code.bits();
}
template <class To, class Rule>
Result result_of(const Run& run, TensorScales<To, Rule> scales) {
  Result result;
  const auto add_scales = [&] {
    for (const float& scale : scales.scales()) result.scales.push_back(bits_of(scale));
    for (const float& inverse : scales.inverse_scales()) result.scales.push_back(bits_of(inverse));
  };
  for (const std::vector<Tree>& step : run) {
    for (const Tree& tree : step) {
      std::vector<std::vector<To>> quantized(leaves);
      for (std::size_t leaf = 0; leaf < leaves; ++leaf) quantized[leaf].resize(tree[leaf].size());
      (void)scales.quantize_into(tree, quantized);
      add_scales();
      for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
        result.sizes[leaf].push_back(quantized[leaf].size());
        for (const To& code : quantized[leaf]) result.codes[leaf].push_back(without_payload(code));
      }
    }
    scales.update();
    add_scales();
  }
  return result;
}

/// The codes of the ranks in the order of the concatenated leaves.
std::vector<std::uint8_t> joined(const std::vector<Result>& ranks, std::size_t leaf) {
  std::vector<std::uint8_t> codes;
  std::vector<std::size_t> read(ranks.size(), 0);
  for (std::size_t call = 0; call < ranks[0].sizes[leaf].size(); ++call) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto* const begin = ranks[rank].codes[leaf].data() + read[rank];
      codes.insert(codes.end(), begin, begin + ranks[rank].sizes[leaf][call]);
      read[rank] += ranks[rank].sizes[leaf][call];
    }
  }
  return codes;
}

template <class To, class Rule>
void compare_ranks(const Rule& rule) {
  std::mt19937 random(support::seed);
  for (const std::size_t size : {2U, 4U}) {
    for (int i = 0; i < support::cases(40); ++i) {
      CAPTURE(size, i);
      const std::vector<Run> runs = random_runs(random, size);
      const Result whole = result_of(concatenated(runs), TensorScales<To, Rule>(Tree(leaves), rule));
      Reduction reduction(static_cast<int>(size));
      std::vector<std::future<Result>> threads;
      for (const Run& run : runs) {
        threads.push_back(std::async(std::launch::async, [&] {
          TensorScales<To, Rule> scales(Tree(leaves), rule);
          scales.set_reducer([&reduction](span<float> largest) { reduction(largest); });
          return result_of(run, scales);
        }));
      }
      std::vector<Result> ranks;
      for (auto& thread : threads) ranks.push_back(thread.get());
      for (const Result& rank : ranks) REQUIRE(rank.scales == whole.scales);
      for (std::size_t leaf = 0; leaf < leaves; ++leaf) REQUIRE(joined(ranks, leaf) == whole.codes[leaf]);
      // One reduction of all leaves in each step, or in each call.
      std::size_t calls = 0;
      for (const auto& step : runs[0]) calls += Rule::is_current ? step.size() : 1;
      REQUIRE(reduction.count() == static_cast<int>(calls));
    }
  }
}

}  // namespace

TEST_CASE("ranks with parts of each tensor get the scales and codes of one process that has all elements") {
  headroom::DelayedScaling delayed;
  delayed.history = 4;
  compare_ranks<headroom::float8_e4m3>(delayed);
  compare_ranks<headroom::float8_e5m2>(delayed);
  compare_ranks<headroom::float8_e4m3>(headroom::CurrentScaling());
  compare_ranks<headroom::float8_e5m2>(headroom::CurrentScaling{1e-3F, true});
  compare_ranks<headroom::float8_e4m3>(headroom::TorchaoScaling());
}
