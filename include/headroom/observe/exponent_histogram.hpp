#pragma once

#include <headroom/config.hpp>
#include <headroom/observe/histogram.hpp>
#include <headroom/ops/run.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// The histogram of one leaf of a tree.
struct LeafHistogram {
  std::string path;  ///< as for_each_leaf_with_path gives it
  ExponentHistogram histogram;
};

namespace detail {

struct HistogramOps {
  template <class In>
  static constexpr auto count = on_every_isa(&ExponentCounter<In>::count);
  template <class In>
  static constexpr const Kernel* list[] = {count<In>.data()};
  template <class In, class>
  static constexpr PieceKind kind = {list<In>, sizeof(typename In::bits_type), sizeof(typename In::bits_type)};
};

/// Counts elements [begin, end) of a plan, all together or leaf by leaf.
class HistogramShare {
 public:
  struct OfLeaf {
    std::size_t leaf;
    ExponentHistogram histogram;
  };

  HistogramShare(const Plan& plan, std::size_t begin, std::size_t end, bool by_leaf)
      : plan_(plan), begin_(begin), end_(end), by_leaf_(by_leaf) {}

  /// All together are under the number 0.
  [[nodiscard]] std::vector<OfLeaf> run() {
    for (const Plan::Run& run : plan_.runs()) {
      Buffer<Piece, 32> parts;  // what one call of the kernel takes
      for (const Piece* piece = plan_.begin(run); piece != plan_.end(run); ++piece) {
        const std::size_t first = position_ < begin_ ? begin_ - position_ : 0;
        const std::size_t last = end_ - position_ < piece->size ? end_ - position_ : piece->size;
        position_ += piece->size;
        if (position_ - piece->size >= end_ || first >= last) continue;
        if (run.depth == 0) {
          const auto* const elements = static_cast<const unsigned char*>(piece->source);
          parts.push_back({elements + first * run.kind->source_bytes, nullptr, last - first});
        } else {
          const Pass pass{0};
          StridedRun(plan_, run, *piece, pass, kernel_of(run))(first, last, *tally_);
        }
        if (by_leaf_) finish_leaf(run, parts, static_cast<std::size_t>(piece - plan_.pieces().begin()));
      }
      count(run, parts);
    }
    if (!by_leaf_) found_.push_back({0, ExponentHistogram(*tally_)});
    return std::move(found_);
  }

 private:
  [[nodiscard]] static Kernel kernel_of(const Plan::Run& run) { return run.kind->kernels[0][isa_index()]; }
  void count(const Plan::Run& run, Buffer<Piece, 32>& parts) {
    kernel_of(run)(parts.begin(), parts.end(), 1.0, *tally_);
    parts.end_at(parts.begin());
  }
  void finish_leaf(const Plan::Run& run, Buffer<Piece, 32>& parts, std::size_t leaf) {
    count(run, parts);
    found_.push_back({leaf, ExponentHistogram(*tally_)});
    tally_->clear();
  }

  const Plan& plan_;
  std::size_t begin_, end_;
  bool by_leaf_;
  std::size_t position_ = 0;
  std::unique_ptr<ExponentTally> tally_ = std::make_unique<ExponentTally>();
  std::vector<OfLeaf> found_;
};

/// For the whole plan one histogram, or one for each leaf. The counts are the same however the elements are shared out.
template <class Executor>
[[nodiscard]] std::vector<ExponentHistogram> histograms_of(const Executor& executor, const Plan& plan, bool by_leaf) {
  std::size_t elements = 0;
  for (const Piece& piece : plan.pieces()) elements += piece.size;
  const std::size_t threads = executor.concurrency(), worth_it = plan.bytes() / least_share;
  const std::size_t shares = threads < worth_it ? threads : worth_it > 0 ? worth_it : 1;
  std::vector<std::vector<HistogramShare::OfLeaf>> found(shares);
  const auto run_share = [&](std::size_t i) {
    const std::size_t begin = elements / shares * i, end = i + 1 == shares ? elements : elements / shares * (i + 1);
    found[i] = HistogramShare(plan, begin, end, by_leaf).run();
  };
  Job<const decltype(run_share)> job(run_share);  // an executor of the user's need not know about errors
  if (shares == 1) {
    run_share(0);
  } else {
    executor.run(shares, [&job](std::size_t i) { job.call(&job, i); });
  }
  job.throw_error();
  std::vector<ExponentHistogram> sums(by_leaf ? plan.pieces().size() : 1);
  for (const auto& share : found) {
    for (const auto& part : share) sums[part.leaf] += part.histogram;
  }
  return sums;
}

}  // namespace detail

/// The binary exponents of all floating-point elements of a tree, in one read-only pass; a histogram of nothing for a tree
/// without elements. Throws std::invalid_argument if a leaf cannot be walked.
template <class Executor, class Tree>
[[nodiscard]] ExponentHistogram exponent_histogram(const Executor& executor, const Tree& tree) {
  if constexpr (detail::check_is_executor<Executor>()) {
    detail::Plan plan;
    detail::plan_one<detail::HistogramOps, false>(plan, tree);
    return std::move(detail::histograms_of(executor, plan, false).front());
  } else {
    return {};
  }
}
template <class Tree>
[[nodiscard]] ExponentHistogram exponent_histogram(const Tree& tree) {
  return headroom::exponent_histogram(sequential, tree);
}

/// The same for each floating-point leaf, in the order of for_each_leaf; one without elements has a histogram of nothing. Their
/// sum is that of the tree.
template <class Executor, class Tree>
[[nodiscard]] std::vector<LeafHistogram> leaf_exponent_histograms(const Executor& executor, const Tree& tree) {
  std::vector<LeafHistogram> leaves;
  if constexpr (detail::check_is_executor<Executor>()) {
    detail::Plan plan;
    detail::plan_one<detail::HistogramOps, false>(plan, tree);
    std::vector<ExponentHistogram> histograms = detail::histograms_of(executor, plan, true);
    for_each_leaf_with_path(tree, [&](const std::string& path, const auto&) {
      leaves.push_back({path, std::move(histograms[leaves.size()])});
    });
  }
  return leaves;
}
template <class Tree>
[[nodiscard]] std::vector<LeafHistogram> leaf_exponent_histograms(const Tree& tree) {
  return headroom::leaf_exponent_histograms(sequential, tree);
}

}  // namespace HEADROOM_BUILD
}  // namespace headroom
