#pragma once

#include <headroom/report.hpp>

#include <type_traits>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE
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

/// Whether P is a policy: a value with
///
///     float loss_scale() const;                     // the factor, in [2^-126, 2^126]
///     P adjust(bool grads_finite) const;            // the policy of the next step
///     P adjust(const GradientReport&) const;
///
/// This is the interface of jmp.LossScale. Derive your own policy from LossScaleVerbs<P> to give it the verbs.
template <class P>
inline constexpr bool is_loss_scale_v = detail::is_loss_scale<P>;

// The free verbs that policies call: see ops/. Policies know nothing of trees.
struct same_dtype;
template <class Tree>
auto scale(Tree&& tree, const double& factor);
template <class Executor, class Tree>
auto scale(const Executor& executor, Tree&& tree, const double& factor);
template <class Tree>
void scale_in_place(Tree&& tree, const double& factor);
template <class Executor, class Tree>
void scale_in_place(const Executor& executor, Tree&& tree, const double& factor);
template <class To, class Tree>
auto unscale(Tree&& tree, const float& loss_scale);
template <class To, class Executor, class Tree>
auto unscale(const Executor& executor, Tree&& tree, const float& loss_scale);
template <class Tree>
GradientReport unscale_in_place(Tree&& tree, const float& loss_scale);
template <class Executor, class Tree>
GradientReport unscale_in_place(const Executor& executor, Tree&& tree, const float& loss_scale);
template <class Source, class Destination>
GradientReport unscale_into(const Source& source, Destination&& destination, const float& loss_scale);
template <class Executor, class Source, class Destination>
GradientReport unscale_into(const Executor& executor, const Source& source, Destination&& destination, const float& loss_scale);
template <class Source, class Destination>
GradientReport accumulate_into(const Source& source, Destination&& destination, const float& loss_scale);
template <class Executor, class Source, class Destination>
GradientReport accumulate_into(const Executor& executor, const Source& source, Destination&& destination,
                               const float& loss_scale);
template <class Tree>
GradientNorm unscale_and_clip_in_place(Tree&& tree, const float& loss_scale, const double& max_norm);
template <class Executor, class Tree>
GradientNorm unscale_and_clip_in_place(const Executor& executor, Tree&& tree, const float& loss_scale, const double& max_norm);

/// The verbs of a policy that has `loss_scale()`: `class MyPolicy : public LossScaleVerbs<MyPolicy>`. Each passes its arguments
/// and the policy's scale to the free verb of the same name. An executor may come first. The policy stays as it is. Include the
/// headers of the free verbs, or <headroom/headroom.hpp>, to call them.
template <class Policy>
class LossScaleVerbs {
 public:
  [[nodiscard]] constexpr float inv_scale() const noexcept { return 1.0F / own_scale(); }

  /// scale(tree, loss_scale): a copy of the tree, usually the loss, times the scale.
  template <class... Args>
  [[nodiscard]] auto scale(Args&&... args) const {
    return headroom::scale(std::forward<Args>(args)..., static_cast<double>(own_scale()));
  }
  template <class... Args>
  void scale_in_place(Args&&... args) const {
    headroom::scale_in_place(std::forward<Args>(args)..., static_cast<double>(own_scale()));
  }

  /// unscale<To>(tree, loss_scale): `auto [grads, report] = policy.unscale<float>(gradients);`
  template <class To = same_dtype, class... Args>
  [[nodiscard]] auto unscale(Args&&... args) const {
    return headroom::unscale<To>(std::forward<Args>(args)..., own_scale());
  }
  template <class... Args>
  [[nodiscard]] GradientReport unscale_in_place(Args&&... args) const {
    return headroom::unscale_in_place(std::forward<Args>(args)..., own_scale());
  }
  template <class... Args>
  [[nodiscard]] GradientReport unscale_into(Args&&... args) const {
    return headroom::unscale_into(std::forward<Args>(args)..., own_scale());
  }
  template <class... Args>
  [[nodiscard]] GradientReport accumulate_into(Args&&... args) const {
    return headroom::accumulate_into(std::forward<Args>(args)..., own_scale());
  }
  template <class Tree>
  [[nodiscard]] GradientNorm unscale_and_clip_in_place(Tree&& tree, const double& max_norm) const {
    return headroom::unscale_and_clip_in_place(tree, own_scale(), max_norm);
  }
  template <class Executor, class Tree>
  [[nodiscard]] GradientNorm unscale_and_clip_in_place(const Executor& executor, Tree&& tree, const double& max_norm) const {
    return headroom::unscale_and_clip_in_place(executor, tree, own_scale(), max_norm);
  }

 private:
  [[nodiscard]] constexpr float own_scale() const { return static_cast<const Policy&>(*this).loss_scale(); }
};

HEADROOM_DETAIL_END_NAMESPACE
