#pragma once

#include <headroom/config.hpp>
#include <headroom/report.hpp>

#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

template <class P, class = void>
inline constexpr bool is_loss_scale = false;
template <class P>
inline constexpr bool
    is_loss_scale<P, std::enable_if_t<std::is_same_v<decltype(std::declval<const P&>().loss_scale()), float> &&
                                      std::is_same_v<decltype(std::declval<const P&>().adjust(true)), P> &&
                                      std::is_same_v<decltype(std::declval<const P&>().adjust(GradientReport())), P>>> =
        std::is_copy_constructible_v<P>&& std::is_copy_assignable_v<P>;

}  // namespace detail

/// What a policy is: a value with
///
///     float loss_scale() const;                     // the factor, in [2^-126, 2^126]
///     P adjust(bool grads_finite) const;            // the policy of the next step
///     P adjust(const GradientReport&) const;
///
/// A type of your own with these three is as good as one of headroom's; inheriting LossScaleVerbs<P> gives it the verbs (scale,
/// unscale, …). The interface is that of jmp.LossScale.
template <class P>
inline constexpr bool is_loss_scale_v = detail::is_loss_scale<P>;

}  // namespace HEADROOM_BUILD
}  // namespace headroom
