#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/spike_guard.hpp>
#include <headroom/state/digest.hpp>
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

/// A SpikeGuard for each optimizer, in the order of their first use. They are told apart by their addresses, not by their
/// places in an iteration, which change where not every optimizer is in all of them.
class SpikeGuards {
 public:
  SpikeGuards() = default;  // nobody is guarded
  explicit SpikeGuards(SpikeGuard first) { windows_.push_back({std::move(first), {}}); }

  [[nodiscard]] bool empty() const noexcept { return windows_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return windows_.size(); }
  [[nodiscard]] const SpikeGuard& operator[](std::size_t place) const noexcept { return windows_[place].guard; }

  /// Where the guard of an optimizer is. One that has none yet gets the first that is nobody's, or a new one.
  [[nodiscard]] std::size_t place_of(const OptimizerId& id) {
    std::size_t place = 0;
    while (place < windows_.size() && windows_[place].owner.address != nullptr) {
      if (windows_[place].owner.same_optimizer(id)) return place;
      ++place;
    }
    if (place == windows_.size()) windows_.push_back({windows_[0].guard.emptied(), {}});
    windows_[place].owner = id;
    return place;
  }
  /// After a step of the optimizer, which may have moved since place_of.
  void adjust(std::size_t place, const OptimizerId& id, const double& norm) {
    Window& window = windows_[place];
    window.guard = std::move(window.guard).adjust(norm);
    window.owner = id;
  }

  [[nodiscard]] std::uint64_t digest_with(std::uint64_t digest, std::size_t place) const noexcept {
    for (const Window& window : windows_) digest = detail::digest_with(digest, window.guard.state_digest());
    return empty() ? digest : detail::digest_with(digest, static_cast<std::uint64_t>(place));
  }
  /// Adds "spike_guard.0.window", … to the state of a GradScaler.
  void add_to(StateDict& state) const {
    for (std::size_t place = 0; place < windows_.size(); ++place) {
      for (const auto& [key, value] : windows_[place].guard.state_dict()) state.add(prefix(place) + key, value);
    }
  }
  /// Removes them again, and returns the guards, which are nobody's yet.
  [[nodiscard]] static SpikeGuards take_from(StateDict& state) {
    SpikeGuards guards;
    for (;;) {
      const std::string start = prefix(guards.size());
      StateDict of_guard, others;
      for (const auto& [key, value] : state) {
        const bool is_of_guard = key.compare(0, start.size(), start) == 0;
        is_of_guard ? of_guard.add(key.substr(start.size()), value) : others.add(key, value);
      }
      if (of_guard.empty()) return guards;
      guards.windows_.push_back({SpikeGuard::from_state_dict(of_guard), {}});
      state = std::move(others);
    }
  }

 private:
  struct Window {
    SpikeGuard guard;
    OptimizerId owner;  // without an address: nobody, and so are those behind it
  };
  [[nodiscard]] static std::string prefix(std::size_t place) { return "spike_guard." + std::to_string(place) + "."; }

  std::vector<Window> windows_;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
