#pragma once

#include <headroom/config.hpp>
#include <headroom/policy/loss_scale_config.hpp>
#include <headroom/state/fields.hpp>

#include <cstdint>

namespace headroom {
inline namespace HEADROOM_BUILD {

// When a scale backs off: the second parameter of BasicDynamicLossScale. Such a piece is a value with
//
//     using Config = …;                                  // its settings: see growth.hpp
//     static constexpr const char* name;                 // in the name of the policy
//     constexpr explicit Piece(const Config&);
//     constexpr bool backs_off(bool grads_finite, std::int64_t counter, const Config&);  // on every step; `counter` is that of
//                                                                                        // the growth piece before the step
//     constexpr void grow(const Config&);                // the scale has grown
//     constexpr void configure(const Config&);           // the settings have changed, to valid ones
//     template <class Visit> static constexpr void fields(Visit&&, const Config&);
//
// All are noexcept.

/// Every overflow backs off at once, as in jmp, torch.amp and Emily.
struct BackOffAtOnce {
  using Config = LossScaleConfig;
  static constexpr const char* name = "dynamic";
  constexpr explicit BackOffAtOnce(const Config&) noexcept {}

  [[nodiscard]] constexpr bool backs_off(bool grads_finite, std::int64_t, const Config&) noexcept { return !grads_finite; }
  constexpr void grow(const Config&) noexcept {}
  constexpr void configure(const Config&) noexcept {}

  template <class Visit>
  static constexpr void fields(Visit&&, const Config&) {}
};

}  // namespace HEADROOM_BUILD
}  // namespace headroom
