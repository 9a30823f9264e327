#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/report.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/tree/facts.hpp>
#include <headroom/tree/visit.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

// Which optimizers an iteration has seen, and what has become of their gradients.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Where an optimizer is, and of which (static) type: the first member of another one has the same address.
struct OptimizerKey {
  const void* address;
  const void* type;
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

/// A gradient that has elements.
struct GradientLeaf {
  const void* elements;
  std::size_t size;
};
/// The gradients of an optimizer by where they are, which tells one that has moved from another one at its address.
struct GradientPlace {
  std::size_t begin = 0, end = 0;  ///< of their leaves, in OptimizerStates
  std::uint64_t digest = 0;        ///< of the addresses and sizes of those
  std::size_t defined = 0;         ///< how many gradients there are, empty ones too
  bool is_inline = false;          ///< they lie in the optimizer itself, and move with it
  bool is_handed_over = false;     ///< with the call: freed after it, and their addresses used again

  [[nodiscard]] bool same_memory(const GradientPlace& other) const noexcept {
    return digest == other.digest && defined == other.defined;
  }
  /// Whether they are one set of gradients, whoever has them.
  [[nodiscard]] bool same_gradients(const GradientPlace& other) const noexcept {
    return begin != end && !is_handed_over && !other.is_handed_over && same_memory(other);
  }
};

/// What has become of the gradients of one optimizer in an iteration.
struct OptimizerState {
  OptimizerKey key;
  GradientPlace place;
  GradientReport report{};  ///< of the unscaled gradients of all ranks; decides the step
  GradientFactor factor{};  ///< what is still to be multiplied, in deferred mode
  double largest = 0.0;     ///< |gradient| that lies in memory now; +Inf where not finite
  bool stepped = false;
  bool loss_since = false;  ///< a loss has been scaled in the iteration after these gradients were unscaled

  /// Whether gradients of which `now` was found may be those that were left here.
  [[nodiscard]] bool may_be(const GradientReport& now) const noexcept {
    if (!now.finite || now.max_abs <= 0.0) return false;  // neither is spoilt by another division
    return now.max_abs == largest;
  }
  [[nodiscard]] bool is_of(const OptimizerKey& other, const GradientPlace& other_place) const noexcept {
    return key.address == other.address && (key.type == other.type || place.same_gradients(other_place));
  }
};

/// The optimizers of an iteration, and what is left of the one before. An optimizer may go away when the iteration ends.
class OptimizerStates {
 public:
  [[nodiscard]] bool empty() const noexcept { return now_.empty(); }
  [[nodiscard]] auto begin() const noexcept { return now_.begin(); }
  [[nodiscard]] auto end() const noexcept { return now_.end(); }

  /// Where the gradients of an optimizer are. Good until the next call, unless a state is added with it.
  template <class Optimizer, class Tree>
  [[nodiscard]] GradientPlace place_of(const Optimizer& optimizer, Tree& gradients) {
    GradientPlace place;
    leaves_.resize(kept_leaves_);
    for_each_leaf(gradients, [&](auto& leaf) {
      ++place.defined;
      const GradientLeaf here{data_of(leaf), size_of(leaf)};
      if (here.size == 0) return;
      leaves_.push_back(here);
      constexpr std::uint64_t prime = 0x100000001b3;  // of the FNV-1a hash
      place.digest = (place.digest ^ reinterpret_cast<std::uintptr_t>(here.elements)) * prime;
      place.digest = (place.digest ^ here.size) * prime;
    });
    place.begin = kept_leaves_;
    place.end = leaves_.size();
    place.is_inline = place.begin != place.end && lies_in(leaves_[place.begin].elements, &optimizer, sizeof optimizer);
    place.is_handed_over = gradients_were_handed_over(optimizer);
    return place;
  }

  /// The state of the optimizer in this iteration, null where it has none yet. Throws std::logic_error where its gradients are
  /// others than those that were unscaled.
  [[nodiscard]] OptimizerState* find(const OptimizerKey& key, const GradientPlace& place) {
    for (OptimizerState& state : now_) {
      if (state.is_of(key, place)) {
        if (!state.stepped && !state.place.same_memory(place)) {
          throw_logic_error(
              "the gradients of this optimizer are not where they were when they were unscaled, so they may be others: change "
              "them in place between unscale_ and step, and call update before another optimizer takes its place");
        }
        return &state;
      }
      if (!state.stepped && state.key.type == key.type && state.place.same_gradients(place)) {
        state.key = key;  // it has moved
        return &state;
      }
    }
    return nullptr;
  }
  /// Throws std::logic_error where gradients of an optimizer without a state have been unscaled as another one's. `check()`
  /// looks what they are now, which is asked for only where that decides.
  template <class Check>
  void check_not_unscaled(const OptimizerKey& key, const GradientPlace& place, Check check) {
    bool is_sorted = false;
    for (const OptimizerState& state : now_) {
      const bool may_have_moved = state.place.is_inline && place.is_inline && state.key.type == key.type;
      if (may_have_moved && state.may_be(check())) {
        throw_logic_error(
            "this optimizer cannot be told from one that was unscaled and has moved since, with the gradients that lie in it: "
            "leave it where it is between unscale_ and step");
      }
      if (state.place.same_gradients(place) ? state.stepped && !state.may_be(check()) : !shares(state, place, is_sorted))
        continue;
      throw_logic_error("gradients of this optimizer have been unscaled already since the last update, as another one's");
    }
  }
  /// The state it had when the last iteration ended; null where it had none.
  [[nodiscard]] const OptimizerState* find_before(const OptimizerKey& key, const GradientPlace& place) const noexcept {
    for (const OptimizerState& state : before_) {
      if (state.is_of(key, place) || state.place.same_gradients(place)) return &state;
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

  OptimizerState& add(const OptimizerState& state) {
    OptimizerState& added = now_.emplace_back(state);
    kept_leaves_ = state.place.end;
    return added;
  }
  [[nodiscard]] OptimizerState& last() noexcept { return now_.back(); }
  void remove_last() noexcept {
    kept_leaves_ = now_.back().place.begin;
    now_.pop_back();
  }
  void loss_was_scaled() noexcept {
    for (OptimizerState& state : now_) state.loss_since = true;
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
  template <class Optimizer>
  static constexpr bool gradients_were_handed_over(const Optimizer&) noexcept {
    return false;
  }
  template <class Optimizer, class Tree>
  static constexpr bool gradients_were_handed_over(const WithGradients<Optimizer, Tree>&) noexcept {
    return owns_elements_v<Tree>;
  }
  static bool lies_in(const void* element, const void* object, std::size_t size) noexcept {
    return reinterpret_cast<std::uintptr_t>(element) - reinterpret_cast<std::uintptr_t>(object) < size;
  }

  /// Whether some of these gradients are some of the state's. A stepped optimizer's memory may be another's by now, if not as a
  /// whole leaf. Sorts the leaves of `place`, once.
  bool shares(const OptimizerState& state, const GradientPlace& place, bool& is_sorted) {
    if (state.place.is_handed_over || place.is_handed_over) return false;
    const auto begin = leaves_.begin() + static_cast<std::ptrdiff_t>(place.begin);
    const auto by_address = [](const GradientLeaf& a, const GradientLeaf& b) { return std::less<>()(a.elements, b.elements); };
    if (!is_sorted) std::sort(begin, leaves_.end(), by_address);
    is_sorted = true;
    for (std::size_t i = state.place.begin; i < state.place.end; ++i) {
      const auto found = std::lower_bound(begin, leaves_.end(), leaves_[i], by_address);
      const bool is_there = found != leaves_.end() && found->elements == leaves_[i].elements && leaves_[i].elements != nullptr;
      if (is_there && (!state.stepped || found->size == leaves_[i].size)) return true;
    }
    return false;
  }

  std::vector<OptimizerState> now_, before_;
  std::vector<GradientLeaf> leaves_;  // of the states of now_, and behind them those of the last place_of
  std::size_t kept_leaves_ = 0;
  bool loss_before_ = false;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
