#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/kernel/report.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/tree/facts.hpp>
#include <headroom/tree/visit.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

// Which optimizers an iteration has seen, and what has become of their gradients.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// What an optimizer is known by: where it is, and of which type, for the first member of another one has the same address.
struct OptimizerKey {
  const void* address;
  const void* type;

  friend bool operator==(const OptimizerKey& a, const OptimizerKey& b) noexcept {
    return a.address == b.address && a.type == b.type;
  }
};
template <class>
inline char address_of_type = 0;  // its address stands for a type; not constant, for linkers may fold constants into one

template <class Optimizer>
[[nodiscard]] OptimizerKey key_of(const Optimizer& optimizer) noexcept {
  return {&optimizer, &address_of_type<Optimizer>};
}
template <class Optimizer, class Tree>
[[nodiscard]] OptimizerKey key_of(const WithGradients<Optimizer, Tree>& optimizer) noexcept {
  return key_of(optimizer.optimizer());
}

/// Where the gradients of an optimizer are: what it is known by when it has moved, or another one is at its address.
struct GradientPlace {
  const void* first = nullptr;  ///< the first element that is in this processor's memory
  std::uint64_t digest = 0;     ///< of the addresses and sizes of all leaves
  std::size_t leaves = 0;       ///< gradients that are defined, empty ones too

  /// Whether they begin with the same element.
  [[nodiscard]] bool same_first(const GradientPlace& other) const noexcept { return first != nullptr && first == other.first; }
  friend bool operator==(const GradientPlace& a, const GradientPlace& b) noexcept {
    return a.first == b.first && a.digest == b.digest && a.leaves == b.leaves;
  }
};
template <class Tree>
[[nodiscard]] GradientPlace place_of(Tree& gradients) {
  GradientPlace place;
  for_each_leaf(gradients, [&place](auto& leaf) {
    const void* const elements = data_of(leaf);
    const std::size_t size = size_of(leaf);
    ++place.leaves;
    if (size == 0) return;
    if (place.first == nullptr) place.first = elements;
    constexpr std::uint64_t prime = 0x100000001b3;  // of the FNV-1a hash
    place.digest = (place.digest ^ reinterpret_cast<std::uintptr_t>(elements)) * prime;
    place.digest = (place.digest ^ size) * prime;
  });
  return place;
}
/// Gradients that were handed over with the call are nobody else's, and soon another's have their place in memory.
template <class Optimizer, class Tree>
[[nodiscard]] GradientPlace place_of_gradients(const Optimizer&, Tree& gradients) {
  return place_of(gradients);
}
template <class Optimizer, class Handed, class Tree>
[[nodiscard]] GradientPlace place_of_gradients(const WithGradients<Optimizer, Handed>&, Tree& gradients) {
  GradientPlace place = place_of(gradients);
  if constexpr (owns_elements_v<Handed>) place.first = nullptr;
  return place;
}

/// Of an optimizer in an iteration.
struct OptimizerState {
  OptimizerKey key;
  GradientPlace place;
  GradientReport report{};  ///< of the unscaled gradients of all ranks; decides the step
  GradientFactor factor{};  ///< what is still to be multiplied, in deferred mode
  double largest = 0.0;     ///< |gradient| that lies in memory now; +Inf where not finite
  bool clipped = false;     ///< `largest` is what it should be, within rounding
  bool stepped = false;
  bool loss_since = false;  ///< a loss has been scaled in the iteration after these gradients were unscaled

  /// Whether gradients of which the largest is `now` may be those that were left here.
  [[nodiscard]] bool may_be(double now) const noexcept {
    return clipped ? now >= largest * 0.99 && now <= largest * 1.01 : now == largest;
  }
};

/// The optimizers of an iteration, and what is left of the one before. An optimizer may go away when the iteration ends.
class OptimizerStates {
 public:
  [[nodiscard]] bool empty() const noexcept { return now_.empty(); }
  [[nodiscard]] auto begin() const noexcept { return now_.begin(); }
  [[nodiscard]] auto end() const noexcept { return now_.end(); }

  /// The state of the optimizer in this iteration, null where it has none yet. Throws std::logic_error where it cannot be told
  /// whether its gradients have been unscaled.
  [[nodiscard]] OptimizerState* find(const OptimizerKey& key, const GradientPlace& place) {
    for (OptimizerState& state : now_) {
      if (state.key == key) {
        if (!state.stepped && !(state.place == place)) {
          throw_logic_error(
              "the gradients of this optimizer are not where they were when they were unscaled, so they may be others: change "
              "them in place between unscale and step, and call update before another optimizer takes its place");
        }
        return &state;
      }
      if (!state.place.same_first(place)) continue;
      if (state.key.type != key.type || !(state.place == place)) {
        throw_logic_error("the gradients of this optimizer have been unscaled already since the last update, as another one's");
      }
      state.key = key;  // it has moved
      return &state;
    }
    return nullptr;
  }
  /// The state it had when the last iteration ended; null where it had none.
  [[nodiscard]] const OptimizerState* find_before(const OptimizerKey& key, const GradientPlace& place) const noexcept {
    for (const OptimizerState& state : before_) {
      if (state.key == key || state.place.same_first(place)) return &state;
    }
    return nullptr;
  }
  /// Throws std::logic_error where no loss has been scaled in this iteration, but one was in the last, from which the gradients
  /// of this optimizer may be: it had no state then, or a loss was scaled after that.
  void check_is_current(const OptimizerState* before, bool has_loss) const {
    if (loss_before_ && !has_loss && (before == nullptr || before->loss_since)) {
      throw_logic_error(
          "no loss has been scaled since the last update, so the gradients of this optimizer have the scale of the iteration "
          "before: call update when all optimizers have been stepped");
    }
  }
  [[nodiscard]] bool loss_before() const noexcept { return loss_before_; }

  OptimizerState& add(const OptimizerState& state) { return now_.emplace_back(state); }
  [[nodiscard]] OptimizerState& last() noexcept { return now_.back(); }
  void remove_last() noexcept { now_.pop_back(); }
  void loss_was_scaled() noexcept {
    for (OptimizerState& state : now_) state.loss_since = true;
  }
  /// `had_loss`: a loss was scaled in the iteration that ends.
  void start_iteration(bool had_loss) noexcept {
    before_.swap(now_);
    now_.clear();
    loss_before_ = had_loss;
  }

 private:
  std::vector<OptimizerState> now_, before_;
  bool loss_before_ = false;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
