#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/plan.hpp>
#include <headroom/report.hpp>
#include <headroom/training/gradient_passes.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/step_result.hpp>
#include <headroom/tree/facts.hpp>
#include <headroom/tree/visit.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

// Which optimizers an iteration has seen, and what has become of their gradients.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

struct ByteRange {
  std::intptr_t begin, end;
  ByteRange(const void* data, std::size_t bytes) noexcept
      : begin(reinterpret_cast<std::intptr_t>(data)), end(begin + static_cast<std::ptrdiff_t>(bytes)) {}
  [[nodiscard]] bool meets(const ByteRange& other) const noexcept { return begin < other.end && other.begin < end; }
};
using LeafRanges = Buffer<ByteRange, 64>;

/// An optimizer, identified by its address and by where its gradients are. The two together distinguish an optimizer that has
/// moved from another one at its address.
struct OptimizerId {
  const void* address = nullptr;
  const void* type = nullptr;      ///< the static one: the first member of an optimizer has the same address
  std::size_t begin = 0, end = 0;  ///< of its gradients that have elements, in OptimizerStates
  std::uint64_t digest = 0;        ///< of the addresses and sizes of those
  std::size_t defined = 0;         ///< how many gradients there are, empty ones too
  bool is_inline = false;          ///< they lie in the optimizer itself, and move with it
  bool is_handed_over = false;     ///< with the call: freed after it, and their addresses used again

  [[nodiscard]] bool same_memory(const OptimizerId& other) const noexcept {
    return digest == other.digest && defined == other.defined;
  }
  /// Whether they have one set of gradients.
  [[nodiscard]] bool same_gradients(const OptimizerId& other) const noexcept {
    return begin != end && !is_handed_over && !other.is_handed_over && same_memory(other);
  }
  [[nodiscard]] bool same_optimizer(const OptimizerId& other) const noexcept {
    return address == other.address && (type == other.type || same_gradients(other));
  }
};

/// Without the gradients.
template <class Optimizer>
[[nodiscard]] OptimizerId id_of(const Optimizer& optimizer) noexcept {
  OptimizerId id;
  id.address = std::addressof(optimizer);
  id.type = &address_of_type<Optimizer>;
  return id;
}
template <class Optimizer, class Tree>
[[nodiscard]] OptimizerId id_of(const WithGradients<Optimizer, Tree>& optimizer) noexcept {
  OptimizerId id = detail::id_of(optimizer.optimizer());
  id.is_handed_over = owns_elements_v<Tree>;
  return id;
}

/// What has been done to the gradients of one optimizer in an iteration.
struct OptimizerState {
  OptimizerId id;
  GradientReport report{};               ///< of the unscaled gradients of all ranks
  SkipReason reason = SkipReason::none;  ///< what that means for the step
  bool has_norm = false;                 ///< a SpikeGuard has seen `norm`
  double norm = 0.0;                     ///< of the same gradients
  std::size_t guard = 0;                 ///< its place in SpikeGuards
  GradientFactor factor{};               ///< what is still to be multiplied by, in deferred mode
  double largest = 0.0;                  ///< largest |gradient| in memory now; +Inf if not finite
  bool stepped = false;
  bool loss_since = false;  ///< a loss has been scaled in the iteration after these gradients were unscaled

  OptimizerState(const OptimizerId& optimizer, std::size_t place, SkipReason skip) noexcept
      : id(optimizer), reason(skip), guard(place) {}

  /// Whether gradients with the report `now` may be those that were left here. Gradients that are 0 or not finite are not
  /// harmed by another division.
  [[nodiscard]] bool may_be(const GradientReport& now) const noexcept {
    return now.finite && now.max_abs > 0.0 && now.max_abs == largest;
  }
};

/// The optimizers of an iteration, and what is left of the one before. An optimizer may go away when the iteration ends.
class OptimizerStates {
 public:
  [[nodiscard]] bool empty() const noexcept { return now_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return now_.size(); }
  [[nodiscard]] auto begin() const noexcept { return now_.begin(); }
  [[nodiscard]] auto end() const noexcept { return now_.end(); }

  /// An optimizer with its gradients. Good until the next call, unless a state is added with it.
  template <class Optimizer, class Tree>
  [[nodiscard]] OptimizerId identify(const Optimizer& optimizer, Tree& gradients) {
    OptimizerId id = detail::id_of(optimizer);
    leaves_.erase(leaves_.begin() + static_cast<std::ptrdiff_t>(kept_leaves_), leaves_.end());
    std::uint64_t digest = 0;  // here and not in `id`, which is in memory, so that it can stay in a register
    std::size_t defined = 0;
    headroom::for_each_leaf(gradients, [&](auto& leaf) {
      ++defined;
      const void* const elements = detail::data_of(leaf);
      const std::size_t size = detail::size_of(leaf);
      if (size == 0) return;
      // In its place: a copy of it would wait until both halves are in memory.
      leaves_.emplace_back(elements, sure_bytes(leaf, size));
      constexpr std::uint64_t prime = 0x100000001b3;  // of the FNV-1a hash
      digest = (digest ^ reinterpret_cast<std::uintptr_t>(elements)) * prime;
      digest = (digest ^ size) * prime;
    });
    id.begin = kept_leaves_;
    id.end = leaves_.size();
    id.digest = digest;
    id.defined = defined;
    const auto address = reinterpret_cast<std::uintptr_t>(std::addressof(optimizer));
    id.is_inline = id.begin != id.end && static_cast<std::uintptr_t>(leaves_[id.begin].begin) - address < sizeof optimizer;
    return id;
  }

  /// The state of the optimizer in this iteration; null if it has none yet. Throws std::logic_error if its gradients are not
  /// those that were unscaled.
  [[nodiscard]] OptimizerState* find(const OptimizerId& id) {
    for (OptimizerState& state : now_) {
      if (state.id.same_optimizer(id)) {
        if (state.stepped || state.id.same_memory(id)) return &state;
        throw_logic_error(
            {"the gradients of this optimizer are not where they were when they were unscaled, so they may be others: change "
             "them in place between unscale_ and step, and call update before another optimizer takes its place"});
      }
      if (!state.stepped && state.id.type == id.type && state.id.same_gradients(id)) {
        state.id.address = id.address;  // it has moved
        return &state;
      }
    }
    return nullptr;
  }
  /// Throws std::logic_error if gradients of an optimizer without a state have been unscaled as another one's. They are
  /// measured only if that decides.
  void check_not_unscaled(const OptimizerId& id, GradientPasses& passes) const {
    if (now_.empty()) return;
    LeafRanges own;
    for (std::size_t i = id.begin; i < id.end; ++i) own.push_back(leaves_[i]);
    std::sort(own.begin(), own.end(), [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
    for (const OptimizerState& state : now_) {
      const bool handed_over = state.id.is_handed_over || id.is_handed_over;
      const bool may_have_moved = state.id.is_inline && id.is_inline && state.id.type == id.type && !handed_over;
      if (may_have_moved && state.may_be(passes.measure())) {
        throw_logic_error(
            {"this optimizer cannot be told from one that was unscaled and has moved since, with the gradients that lie in it: "
             "leave it where it is between unscale_ and step"});
      }
      const bool refilled = state.id.same_gradients(id) && state.stepped && !state.may_be(passes.measure());
      if (refilled || handed_over || !shares(state, own)) continue;
      throw_logic_error({"gradients of this optimizer have been unscaled already since the last update, as another one's"});
    }
  }
  /// The state it had when the last iteration ended; null if it had none.
  [[nodiscard]] const OptimizerState* find_before(const OptimizerId& id) const noexcept {
    for (const OptimizerState& state : before_) {
      if (state.id.same_optimizer(id) || state.id.same_gradients(id)) return &state;
    }
    return nullptr;
  }
  /// Throws std::logic_error if no loss has been scaled in this iteration, but one was in the last, and this optimizer's
  /// gradients may be from there: it had no state then, or a loss was scaled after that.
  void check_is_current(const OptimizerState* before, bool has_loss) const {
    if (loss_before_ && !has_loss && (before == nullptr || before->loss_since)) {
      throw_logic_error(
          {"no loss has been scaled since the last update, so the gradients of this optimizer have the scale of the iteration "
           "before: call update when all optimizers have been stepped"});
    }
  }
  [[nodiscard]] bool loss_before() const noexcept { return loss_before_; }

  /// Ends the life of what find_before has found.
  OptimizerState& add(const OptimizerId& id, std::size_t guard = 0, SkipReason reason = SkipReason::none) {
    if (before_.capacity() <= now_.size()) before_.reserve(2 * now_.size() + 1);  // the next iteration has its memory
    OptimizerState& added = now_.emplace_back(id, guard, reason);
    kept_leaves_ = id.end;
    return added;
  }
  [[nodiscard]] OptimizerState& last() noexcept { return now_.back(); }
  void remove_last() noexcept {
    kept_leaves_ = now_.back().id.begin;
    now_.pop_back();
  }
  void loss_was_scaled() noexcept {
    for (OptimizerState& state : now_) state.loss_since = true;
  }
  void forget_norms() noexcept {
    for (OptimizerState& state : now_) state.has_norm = false;
  }
  /// `had_loss`: a loss was scaled in the iteration that ends.
  void start_iteration(bool had_loss) noexcept {
    before_.swap(now_);
    now_.clear();
    leaves_.clear();
    kept_leaves_ = 0;
    loss_before_ = had_loss;
  }

 private:
  /// The bytes from the first element on that are certain to be the leaf's: all where it has no gaps, else that element.
  template <class Leaf>
  [[nodiscard]] static std::size_t sure_bytes(const Leaf& leaf, std::size_t size) {
    constexpr std::size_t element = sizeof(*detail::data_of(leaf));
    if constexpr (has_layout<Leaf>::value) {
      if (detail::data_of(leaf) == nullptr || detail::obstacle_of(leaf) != nullptr) return element;
      const Layout layout = detail::layout_of(leaf);
      if (!LoopNest(layout, layout).is_contiguous()) return element;
    }
    return size * element;
  }
  /// Whether some of these gradients, which are sorted, are some of the state's. A stepped optimizer's memory may be another's
  /// by now, if not as a whole leaf. The gradients of one optimizer do not meet each other.
  [[nodiscard]] bool shares(const OptimizerState& state, const LeafRanges& sorted) const {
    const auto is_before = [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; };
    for (std::size_t i = state.id.begin; i < state.id.end; ++i) {
      const ByteRange& leaf = leaves_[i];
      if (leaf.begin == 0) continue;
      const ByteRange* const found = std::lower_bound(sorted.begin(), sorted.end(), leaf, is_before);
      const bool meets = (found != sorted.end() && found->meets(leaf)) || (found != sorted.begin() && found[-1].meets(leaf));
      if (meets && (!state.stepped || (found != sorted.end() && found->begin == leaf.begin && found->end == leaf.end)))
        return true;
    }
    return false;
  }

  std::vector<OptimizerState> now_, before_;
  // The sure_bytes of gradients that have elements: those of the states of now_, and behind them those of the last identify.
  std::vector<ByteRange> leaves_;
  std::size_t kept_leaves_ = 0;
  bool loss_before_ = false;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
