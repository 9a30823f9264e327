#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/ops/find_nonfinite.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/ops/unscale.hpp>
#include <headroom/training/optimizer_traits.hpp>
#include <headroom/training/reducer.hpp>

#include <optional>
#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

// ---- the passes of optimizer_traits ----

GradientReport as_report(GradientReport);
GradientNorm as_norm(GradientNorm);
template <class Traits, class Tree>
using unscale_pass_t =
    decltype(detail::as_report(Traits::unscale(std::declval<const ParallelExecutor&>(), std::declval<Tree&>(), float{})));
template <class Traits, class Tree>
using measure_pass_t =
    decltype(detail::as_norm(Traits::measure(std::declval<const ParallelExecutor&>(), std::declval<Tree&>())));
template <class Traits, class Tree>
using scale_pass_t =
    decltype(detail::as_report(Traits::scale(std::declval<const ParallelExecutor&>(), std::declval<Tree&>(), double{})));

template <class Traits>
using no_passes_t = std::void_t<decltype(&WithNames<Traits>::unscale), decltype(&WithNames<Traits>::measure),
                                decltype(&WithNames<Traits>::scale)>;
template <class Traits>
using no_find_nonfinite_t = decltype(&WithNames<Traits>::find_nonfinite);

/// Whether optimizer_traits has passes of its own. Some of the three, or some that cannot be called, are an error.
template <class Traits, class Tree>
constexpr bool has_own_passes() {
  constexpr bool has_none = is_detected_v<no_passes_t, Traits>;
  static_assert(has_none || is_detected_v<unscale_pass_t, Traits, Tree>,
                "headroom: optimizer_traits has passes of its own, but no unscale that can be called; write: static "
                "GradientReport unscale(const ParallelExecutor&, Gradients&, float loss_scale);");
  static_assert(has_none || is_detected_v<measure_pass_t, Traits, Tree>,
                "headroom: optimizer_traits has passes of its own, but no measure that can be called; write: static "
                "GradientNorm measure(const ParallelExecutor&, const Gradients&);");
  static_assert(has_none || is_detected_v<scale_pass_t, Traits, Tree>,
                "headroom: optimizer_traits has passes of its own, but no scale that can be called; write: static "
                "GradientReport scale(const ParallelExecutor&, Gradients&, double factor);");
  return !has_none;
}

std::optional<NonFinite> as_found(std::optional<NonFinite>);
template <class Traits, class Tree>
using find_nonfinite_t =
    decltype(detail::as_found(Traits::find_nonfinite(std::declval<const ParallelExecutor&>(), std::declval<Tree&>())));

/// Whether optimizer_traits looks for Inf and NaN itself.
template <class Traits, class Tree>
constexpr bool check_finds_nonfinite() {
  constexpr bool finds = is_detected_v<find_nonfinite_t, Traits, Tree>;
  static_assert(finds || is_detected_v<no_find_nonfinite_t, Traits>,
                "headroom: optimizer_traits has a find_nonfinite that cannot be called; write: static "
                "std::optional<NonFinite> find_nonfinite(const ParallelExecutor&, const Gradients&);");
  return finds;
}

// ---- the passes over the gradients of one optimizer ----

/// They report what they store. Callers need not know the types of optimizer and gradients.
class GradientPasses {
 public:
  virtual GradientReport unscale(float loss_scale) = 0;
  virtual GradientNorm measure() = 0;
  virtual GradientReport scale(double factor) = 0;
  /// Whether something may have been written, by a pass that threw, too. headroom's verbs check first and then write.
  virtual bool may_have_written() noexcept = 0;
  /// The norm of the gradients that another rank counts: see optimizer_traits.
  virtual double duplicates_norm() = 0;
  /// The first that is not finite; nothing where nobody can look.
  virtual std::optional<NonFinite> find_nonfinite() = 0;

  /// What gradients measured as `scaled` will be once unscaled. What the optimizer's multiplication makes Inf is an overflow,
  /// although nothing has been multiplied yet. (A clip factor makes the product no larger, and neither does its rounding.)
  [[nodiscard]] GradientNorm unscaled(const GradientNorm& scaled, float loss_scale) {
    const auto by = static_cast<double>(loss_scale);
    const GradientNorm result = detail::unscaled(scaled, by);
    return by >= 1.0 || result.max_abs < rounds_to_infinity ? result : overflow();
  }

 protected:
  ~GradientPasses() = default;
};

/// headroom's verbs. Those that read share a walk, and so do those that write, for each is compiled for each type of tree.
struct VerbPasses {
  using ReadOps = Ops<Op::max_abs, Op::measure>;

  template <class Tree>
  static GradientReport unscale(const ParallelExecutor& executor, Tree& gradients, float loss_scale) {
    if (loss_scale != 1.0F) return headroom::unscale_in_place(executor, gradients, loss_scale);
    return report_of(detail::plan_and_run<ReadOps, false>(executor, Pass{0}, std::as_const(gradients)));  // writes nothing
  }
  template <class Tree>
  static GradientNorm measure(const ParallelExecutor& executor, const Tree& gradients) {
    return norm_of(detail::plan_and_run<ReadOps, false>(executor, Pass{1}, gradients));
  }
  template <class Tree>
  static GradientReport scale(const ParallelExecutor& executor, Tree& gradients, double factor) {
    return detail::scale_and_report(executor, gradients, factor);
  }
};

/// By the passes of optimizer_traits, or else by the verbs.
template <class Optimizer>
class PassesOf final : public GradientPasses {
  using Traits = optimizer_traits<Optimizer>;
  using Gradients = decltype(Traits::gradients(std::declval<Optimizer&>()));
  using Tree = std::remove_reference_t<Gradients>;
  static constexpr bool has_own = has_own_passes<Traits, Tree>();
  using Passes = std::conditional_t<has_own, Traits, VerbPasses>;

 public:
  PassesOf(const ParallelExecutor& executor, Optimizer& optimizer)
      : executor_(executor), optimizer_(optimizer), gradients_(Traits::gradients(optimizer)) {}

  [[nodiscard]] Tree& gradients() noexcept { return gradients_; }
  GradientReport unscale(float loss_scale) override {
    may_have_written_ = true;
    return Passes::unscale(executor_, gradients_, loss_scale);
  }
  GradientNorm measure() override { return Passes::measure(executor_, gradients_); }
  GradientReport scale(double factor) override {
    may_have_written_ = true;
    return Passes::scale(executor_, gradients_, factor);
  }
  bool may_have_written() noexcept override {
#if HEADROOM_EXCEPTIONS
    try {
      if constexpr (!has_own) {
        if (may_have_written_) detail::check_can_be_scaled(gradients_);
      }
    } catch (...) {
      return false;  // as the pass was
    }
#endif
    return may_have_written_;
  }
  double duplicates_norm() override {
    if constexpr (check_duplicates<Optimizer>()) {
      auto&& duplicates = detail::duplicates_of(optimizer_);
      return Passes::measure(executor_, duplicates).norm;
    } else {
      return 0.0;
    }
  }
  std::optional<NonFinite> find_nonfinite() override {
    if constexpr (check_finds_nonfinite<Traits, Tree>()) {
      return Traits::find_nonfinite(executor_, gradients_);
    } else if constexpr (has_own) {
      return std::nullopt;
    } else {
      return headroom::find_nonfinite(executor_, gradients_);
    }
  }

 private:
  const ParallelExecutor& executor_;
  Optimizer& optimizer_;
  Gradients gradients_;
  bool may_have_written_ = false;
};

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
