#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/quantize/rules.hpp>
#include <headroom/quantize/tensor_scales.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/samples.hpp"

using namespace headroom;
using support::bits_of;

namespace {

using Tree = std::vector<std::vector<float>>;
/// The trees that a process quantizes: by step, and in a step one for each micro-batch.
using Run = std::vector<std::vector<Tree>>;

constexpr std::size_t leaves = 3;

/// Gradients of several magnitudes. Some leaves are zero or empty, and some have an Inf or a NaN.
std::vector<float> random_leaf(std::mt19937& random) {
  constexpr std::uint32_t special[] = {0x7F800000, 0xFF800000, 0x7FC00000};
  std::vector<std::uint32_t> bits(random() % 40);
  const int low = static_cast<int>(random() % 40) - 20;
  const bool is_zero = random() % 5 == 0;
  for (std::uint32_t& one : bits)
    one = is_zero ? 0 : support::random_magnitude<binary32>(random, low, low + 8);
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
        for (std::size_t leaf = 0; leaf < leaves; ++leaf)
          run.back().back().push_back(random_leaf(random));
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

/// What the ranks of a run have reduced: one list of magnitudes for each reduction.
using Reductions = std::vector<std::vector<std::uint32_t>>;

struct Result {
  Reductions reductions;                                 // what TensorScales passed to the reducer
  std::vector<std::uint32_t> scales;                     // of all leaves, after each call
  std::vector<std::vector<std::uint8_t>> codes{leaves};  // of each leaf, in all calls
  std::vector<std::vector<std::size_t>> sizes{leaves};   // of each leaf, in each call
};

template <class To>
std::uint8_t without_payload(To code) {
  using Format = typename To::format;
  return support::is_nan<Format>(code.bits()) ? Format::quiet_nan_bits : code.bits();
}
/// Runs one rank. Its reducer returns `all`, or what it gets if that is empty.
template <class To, class Rule>
Result result_of(const Run& run, const Rule& rule, const Reductions& all) {
  Result result;
  TensorScales<To, Rule> scales(Tree(leaves), rule);
  scales.set_reducer([&](span<float> largest) {
    result.reductions.push_back(bits_of(std::vector<float>(largest.begin(), largest.end())));
    if (all.empty()) return;
    for (std::size_t leaf = 0; leaf < leaves; ++leaf)
      support::set_bits(largest[leaf], all.at(result.reductions.size() - 1)[leaf]);
  });
  const auto add_scales = [&] {
    for (const float& scale : scales.scales()) result.scales.push_back(bits_of(scale));
    for (const float& inverse : scales.inverse_scales()) result.scales.push_back(bits_of(inverse));
  };
  for (const std::vector<Tree>& step : run) {
    for (const Tree& tree : step) {
      const std::vector<std::vector<To>> quantized = scales.quantize(tree).codes;
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

/// One process with all elements reduces what the maximum of the ranks is. With that maximum, ranks
/// have its scales and codes.
template <class To, class Rule>
void compare_ranks(const Rule& rule) {
  std::mt19937 random(support::seed);
  for (int i = 0; i < support::cases(80); ++i) {
    CAPTURE(i);
    const std::vector<Run> runs = random_runs(random, i % 2 == 0 ? 2 : 4);
    const Result whole = result_of<To>(concatenated(runs), rule, {});
    std::vector<Result> ranks;
    Reductions largest(whole.reductions.size(), std::vector<std::uint32_t>(leaves, 0));
    for (const Run& run : runs) {
      ranks.push_back(result_of<To>(run, rule, whole.reductions));
      REQUIRE(ranks.back().scales == whole.scales);
      REQUIRE(ranks.back().reductions.size() == largest.size());
      for (std::size_t call = 0; call < largest.size(); ++call) {
        for (std::size_t leaf = 0; leaf < leaves; ++leaf)
          largest[call][leaf] = std::max(largest[call][leaf], ranks.back().reductions[call][leaf]);
      }
    }
    REQUIRE(largest == whole.reductions);
    for (std::size_t leaf = 0; leaf < leaves; ++leaf)
      REQUIRE(joined(ranks, leaf) == whole.codes[leaf]);
    std::size_t calls = 0;  // one reduction of all leaves in each step, or in each call
    for (const auto& step : runs[0]) calls += Rule::is_current ? step.size() : 1;
    REQUIRE(largest.size() == calls);
  }
}

}  // namespace

TEST_CASE(
    "ranks with parts of each tensor get the scales and codes of one process that has all "
    "elements") {
  DelayedScaling delayed;
  delayed.history = 4;
  compare_ranks<float8_e4m3>(delayed);
  compare_ranks<float8_e5m2>(delayed);
  compare_ranks<float8_e4m3>(CurrentScaling());
  compare_ranks<float8_e5m2>(CurrentScaling{1e-3F, true});
  compare_ranks<float8_e4m3>(TorchaoScaling());
}
