#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/ops/buffer.hpp>
#include <headroom/policy/spike_guard.hpp>
#include <headroom/state/digest.hpp>
#include <headroom/state/fields.hpp>
#include <headroom/state/state_dict.hpp>
#include <headroom/training/optimizer_state.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Whether the key is one of a SpikeGuard in the state of a scaler: "spike_guard.0.window", say.
[[nodiscard]] inline bool is_of_spike_guard(std::string_view key) noexcept {
  constexpr std::string_view start = "spike_guard.";
  return key.substr(0, start.size()) == start;
}

/// The SpikeGuards of the optimizers of an iteration, by their places: in the order in which they are unscaled, unless the user
/// says otherwise. Addresses do not choose, for they mean nothing in the run that goes on from a state, and an optimizer at a
/// new one may be an old one that has moved; they only tell when the choice may be wrong.
class SpikeGuards {
 public:
  SpikeGuards() = default;  // nobody is guarded
  explicit SpikeGuards(SpikeGuard first) { windows_.push_back({std::move(first), {}}); }

  [[nodiscard]] bool empty() const noexcept { return windows_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return windows_.size(); }
  [[nodiscard]] const SpikeGuard& operator[](std::size_t place) const noexcept { return windows_[place].guard; }

  /// Throws std::logic_error if the guard at `place`, if there is one, may be another optimizer's.
  void check_owner(std::size_t place, const OptimizerId& id) const {
    if (place < windows_.size() && !windows_[place].may_be_of(id)) {
      throw_logic_error(
          {"the spike guard at this place in the iteration has judged another optimizer, or this one before it moved with its "
           "gradients: call use_spike_guard(place) first, to say which guard judges it"});
    }
  }
  void make_room(std::size_t place) {
    while (windows_.size() <= place) windows_.push_back({windows_[0].guard.emptied(), {}});
  }
  void set_owner(std::size_t place, const OptimizerId& id) noexcept {
    if (place < windows_.size()) windows_[place].owner = id;
  }
  void adjust(std::size_t place, const double& norm) { windows_[place].guard = std::move(windows_[place].guard).adjust(norm); }

  [[nodiscard]] std::uint64_t digest_with(std::uint64_t digest, std::size_t place) const noexcept {
    for (const Window& window : windows_) digest = detail::digest_with(digest, window.guard.state_digest());
    return empty() ? digest : detail::digest_with(digest, static_cast<std::uint64_t>(place));
  }
  /// Adds "spike_guard.0.window", … to the state of a GradScaler.
  void add_to(StateDict& state) const {
    for (std::size_t place = 0; place < windows_.size(); ++place) {
      for (const auto& [key, value] : windows_[place].guard.state_dict()) state.add(concat({prefix(place), key}), value);
    }
  }
  /// Removes them again, and returns the guards, which have judged nobody yet. Throws std::invalid_argument if one is missing
  /// before others, and as SpikeGuard::from_state_dict does.
  [[nodiscard]] static SpikeGuards take_from(StateDict& state) {
    StateDict others;
    Buffer<const StateDict::Entry*, 32> left;  // of guards
    for (const StateDict::Entry& entry : state) {
      if (is_of_spike_guard(entry.first)) {
        left.push_back(&entry);
      } else {
        others.add(entry.first, entry.second);
      }
    }
    SpikeGuards guards;
    while (left.size() > 0) {
      const std::string start = prefix(guards.size());
      StateDict of_guard;
      const StateDict::Entry** of_others = left.begin();
      for (const StateDict::Entry* entry : left) {
        if (entry->first.compare(0, start.size(), start) == 0) {
          of_guard.add(entry->first, entry->second);
        } else {
          *of_others++ = entry;
        }
      }
      if (of_guard.empty()) {
        throw_invalid_argument({"the key '", start, "version' is missing, although '", (*left.begin())->first, "' is there"});
      }
      left.end_at(of_others);
      guards.windows_.push_back({SpikeGuard::from_state_dict(of_guard, start), {}});
    }
    state = std::move(others);
    return guards;
  }

 private:
  struct Window {
    SpikeGuard guard;
    OptimizerId owner;  // whom it judged last; without an address: nobody since it was set or loaded

    /// An optimizer may have moved if its gradients have not.
    [[nodiscard]] bool may_be_of(const OptimizerId& id) const noexcept {
      return owner.address == nullptr || owner.same_optimizer(id) || (owner.type == id.type && owner.same_gradients(id));
    }
  };
  [[nodiscard]] static std::string prefix(std::size_t place) { return concat({"spike_guard.", std::to_string(place), "."}); }

  std::vector<Window> windows_;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
