#pragma once

#include <headroom/config.hpp>
#include <headroom/observe/histogram.hpp>
#include <headroom/ops/buffer.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/tree/visit.hpp>

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
  static constexpr auto count = detail::on_every_isa(&ExponentCounter<In>::count);
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

  HistogramShare(const Plan& plan, bool by_leaf) : plan_(plan), by_leaf_(by_leaf) {}

  /// All together are under the number 0.
  [[nodiscard]] std::vector<OfLeaf> count(std::size_t begin, std::size_t end) {
    for_each_part(plan_, begin, end, [this](const Plan::Run& run, const Piece& piece, std::size_t from, std::size_t to) {
      const Kernel kernel = run.kind->kernels[0][isa_index()];
      if (kernel != kernel_) count_parts();
      kernel_ = kernel;
      if (run.depth == 0) {
        const auto* const elements = static_cast<const unsigned char*>(piece.source);
        parts_.push_back({elements + from * run.kind->source_bytes, nullptr, to - from});
      } else {
        run_part(plan_, run, piece, Pass{0}, kernel, from, to, *tally_);
      }
      if (by_leaf_) finish(plan_.place_of(piece));
    });
    if (!by_leaf_) finish(0);
    return std::move(found_);
  }

 private:
  void count_parts() {
    if (parts_.size() != 0) kernel_(parts_.begin(), parts_.end(), 1.0, *tally_);
    parts_.end_at(parts_.begin());
  }
  void finish(std::size_t leaf) {
    count_parts();
    found_.push_back({leaf, ExponentHistogram(*tally_)});
    tally_->clear();
  }

  const Plan& plan_;
  bool by_leaf_;
  Kernel kernel_ = nullptr;
  Buffer<Piece, 32> parts_;  // what one call of the kernel takes
  std::unique_ptr<ExponentTally> tally_ = std::make_unique<ExponentTally>();
  std::vector<OfLeaf> found_;
};

/// For the whole plan one histogram, or one for each leaf. The counts are the same however the elements are shared out.
template <class Executor>
[[nodiscard]] std::vector<ExponentHistogram> histograms_of(const Executor& executor, const Plan& plan, bool by_leaf) {
  std::vector<std::vector<HistogramShare::OfLeaf>> found(detail::count_shares(executor, plan.bytes()));
  detail::share_elements(executor, plan, found.size(), [&](std::size_t i, std::size_t begin, std::size_t end) {
    found[i] = HistogramShare(plan, by_leaf).count(begin, end);
  });
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
    headroom::for_each_leaf_with_path(tree, [&](const std::string& path, const auto&) {
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
