#pragma once

#include <headroom/detail/detect.hpp>
#include <headroom/ops/clip.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/ops/find_nonfinite.hpp>
#include <headroom/ops/run.hpp>
#include <headroom/tree/facts.hpp>
#include <headroom/tree/visit.hpp>

#include <optional>
#include <type_traits>
#include <utility>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// The factor by which a deferred optimizer multiplies each gradient: the inverse loss scale times the clip factor.
///
/// An optimizer is deferred if it, or its optimizer_traits, says `static constexpr bool takes_gradient_factor = true;`. A
/// GradScaler only measures its gradients and passes a GradientFactor as the first argument of its step, whose loop multiplies
/// them. Multiply in float, or in double if the gradients are doubles.
struct GradientFactor {
  double value = 1.0;
};

/// Tells a GradScaler how to reach an optimizer's gradients and how to call its step. An optimizer needs no specialisation if
/// it has members `step(...)` and `gradients()`, which returns a reference to a tree, or a tree of views. For others write
///
///     template <> struct headroom::optimizer_traits<MyOptimizer> {
///       static auto& gradients(MyOptimizer& optimizer) { return optimizer.grads; }
///       template <class... Args>
///       static auto step(MyOptimizer& optimizer, Args&&... args) -> decltype(optimizer.apply(std::forward<Args>(args)...)) {
///         return optimizer.apply(std::forward<Args>(args)...);
///       }
///     };
///
/// Optional, here or as members of the optimizer:
///
///       static constexpr bool takes_gradient_factor = true;  // see GradientFactor
///       static constexpr bool allow_fp16_gradients = true;   // unscale fp16 and 8-bit gradients in place; small ones become 0
///       static auto duplicate_gradients(MyOptimizer&);       // gradients that another rank has too and counts in the norm;
///                                                            // a member has no parameter
///
/// Gradients outside the CPU's memory need these three instead of headroom's verbs. `gradients` still returns a tree; if it has
/// no leaf, there are no gradients. Each returns a report of the values it has stored:
///
///       static GradientReport unscale(const ParallelExecutor&, Gradients&, float loss_scale);
///       static GradientNorm measure(const ParallelExecutor&, const Gradients&);
///       static GradientReport scale(const ParallelExecutor&, Gradients&, double factor);
///
/// A fourth function, which is optional, fills StepResult::nonfinite after an overflow:
///
///       static std::optional<NonFinite> find_nonfinite(const ParallelExecutor&, const Gradients&);
///
/// The second parameter allows specialisations by std::enable_if_t. A specialisation takes precedence over members.
template <class Optimizer, class Enable = void>
struct optimizer_traits {
  template <class O>
  static auto gradients(O& optimizer) -> decltype(optimizer.gradients()) {
    return optimizer.gradients();
  }
  template <class O, class... Args>
  static auto step(O& optimizer, Args&&... args) -> decltype(optimizer.step(std::forward<Args>(args)...)) {
    return optimizer.step(std::forward<Args>(args)...);
  }
};

namespace detail {

template <class Optimizer>
using gradients_t = decltype(optimizer_traits<Optimizer>::gradients(std::declval<Optimizer&>()));
template <class Optimizer, class... Args>
using step_t = decltype(optimizer_traits<Optimizer>::step(std::declval<Optimizer&>(), std::declval<Args>()...));

// ---- what an optimizer, or its traits, may say ----

template <class T>
using takes_factor_t = std::enable_if_t<T::takes_gradient_factor>;
template <class T>
using allows_fp16_t = std::enable_if_t<T::allow_fp16_gradients>;
template <template <class> class What, class Optimizer>
inline constexpr bool says_v = is_detected_v<What, optimizer_traits<Optimizer>> || is_detected_v<What, Optimizer>;

template <class Traits>
using names_unscale_t = decltype(&Traits::unscale);
template <class Traits, class Tree>
using calls_unscale_t = decltype(Traits::unscale(std::declval<const ParallelExecutor&>(), std::declval<Tree&>(), 1.0F));
template <class Traits, class Tree>
using finds_t = decltype(Traits::find_nonfinite(std::declval<const ParallelExecutor&>(), std::declval<Tree&>()));

template <class Optimizer>
using traits_duplicates_t = decltype(optimizer_traits<Optimizer>::duplicate_gradients(std::declval<Optimizer&>()));
template <class Optimizer>
using member_duplicates_t = decltype(std::declval<Optimizer&>().duplicate_gradients());

// ---- gradients, during one call ----

struct GradientsSeen {
  bool has_leaf = false;
  bool has_elements = false;
  bool has_narrow_leaf = false;
  const void* first = nullptr;  // address of an element; null if there is none
};

template <class Tree>
[[nodiscard]] GradientsSeen look_at(Tree& gradients) {
  GradientsSeen seen;
  headroom::for_each_leaf(gradients, [&seen](auto& leaf) {
    seen.has_leaf = true;
    seen.has_narrow_leaf = seen.has_narrow_leaf || has_narrow_leaf_v<decltype(leaf)>;
    if (seen.has_elements || detail::size_of(leaf) == 0) return;
    seen.has_elements = true;
    seen.first = detail::data_of(leaf);
  });
  return seen;
}

/// What has been done to one optimizer in an iteration.
struct OptimizerState {
  const void* optimizer = nullptr;  // its address; null if it is not remembered
  GradientsSeen seen;               // at `unscale_`, then at `step`
  bool stepped = false;
  SkipReason reason = SkipReason::not_finite;  // until GradScaler::decide
  GradientNorm found = overflow();             // in the unscaled gradients of all ranks
  GradientFactor factor{};                     // for a deferred optimizer
};

/// The norm after division by the scale of gradients measured as `scaled`. An overflow if a multiplication in float by the
/// inverse scale, as in a deferred optimizer, would make one of them Inf.
[[nodiscard]] inline GradientNorm once_unscaled(const GradientNorm& scaled, double scale) noexcept {
  const double factor = scale < 1.0 ? static_cast<double>(rounded_to_float(divided(1.0, scale))) : 1.0;
  return scaled.max_abs * factor >= rounds_to_infinity && scale < 1.0 ? overflow() : detail::unscaled(scaled, scale);
}

/// The verbs on gradients: those of `Traits`, or headroom's own, which share the plan of one walk. `Traits` may be void.
/// `Clips`: whether the gradients may be clipped, for which their norm is measured.
template <class Traits, class Tree, bool Clips>
class GradientVerbs {
  static constexpr bool are_own = is_detected_v<names_unscale_t, Traits> || is_detected_v<calls_unscale_t, Traits, Tree>;
  using PassOps = Ops<Op::scale, Op::unscale, Clips ? Op::measure : Op::max_abs>;

 public:
  static constexpr bool clips = Clips;
  GradientsSeen seen;

  template <bool Writes>
  GradientVerbs(const ParallelExecutor& executor, Tree& gradients, std::bool_constant<Writes>)
      : executor_(executor), gradients_(gradients) {
    if constexpr (!are_own) detail::make_plan<PassOps, Writes ? Access::in_place : Access::read>(plan_, gradients);
    if constexpr (are_own || has_dynamic_node_v<Tree>) {
      seen = detail::look_at(gradients);
    } else {
      const void* const first = plan_.first_element();
      seen = {plan_.pieces().size() != 0, first != nullptr, false, first};
    }
  }

  [[nodiscard]] GradientNorm measure() const {
    if constexpr (are_own) {
      const GradientNorm found = Traits::measure(executor_, gradients_);
      return {found, Clips ? found.norm : 0.0};
    }
    return norm_of(detail::run(executor_, plan_, Pass{2}));
  }
  GradientReport unscale(float loss_scale) {
    if constexpr (are_own) return Traits::unscale(executor_, gradients_, loss_scale);
    return report_of(detail::run(executor_, plan_, unscale_pass(loss_scale)));
  }
  GradientReport scale(double factor) {
    if constexpr (are_own) return Traits::scale(executor_, gradients_, factor);
    return detail::scale_by_any(executor_, plan_, 0, factor);
  }
  [[nodiscard]] static std::optional<NonFinite> find_nonfinite(const ParallelExecutor& executor, const Tree& gradients) {
    if constexpr (is_detected_v<finds_t, Traits, const Tree>) {
      return Traits::find_nonfinite(executor, gradients);
    } else if constexpr (!are_own) {
      return headroom::find_nonfinite(executor, gradients);
    }
    return std::nullopt;
  }

 private:
  const ParallelExecutor& executor_;
  Tree& gradients_;
  Plan plan_;
};

struct HowToUnscale {
  bool is_deferred, allows_narrow, is_step, is_temporary;
  double max_norm = -1.0;   // below 0: no clipping
  double duplicates = 0.0;  // norm of the scaled gradients that another rank counts
};

/// What an optimizer's type says. `IsNoop`: the policy is NoOpLossScale, so gradients are not scaled.
template <class Optimizer, bool IsNoop>
struct OptimizerProperties {
  static_assert(is_detected_v<gradients_t, Optimizer>,
                "headroom: this is no optimizer: give it members gradients(), which returns a reference to the tree of its "
                "gradients, and step(...), or specialise headroom::optimizer_traits<T>");
  using Traits = optimizer_traits<Optimizer>;
  using Gradients = gradients_t<Optimizer>;
  using Tree = std::remove_reference_t<Gradients>;
  static_assert(std::is_lvalue_reference_v<Gradients> || !owns_elements_v<Gradients>,
                "headroom: the gradients of this optimizer come as a copy, so that what is done to them would be lost: "
                "return a reference to them, or a tree of views");
  template <bool Clips>
  using GradientVerbs = detail::GradientVerbs<Traits, Tree, Clips>;
  static constexpr bool is_deferred = says_v<takes_factor_t, Optimizer>;
  static constexpr bool allows_narrow = IsNoop || is_deferred || says_v<allows_fp16_t, Optimizer>;
  static constexpr std::bool_constant<!is_deferred && !IsNoop> writes{};
  static_assert(allows_narrow || !has_narrow_leaf_v<Tree>,
                "headroom: fp16 and 8-bit gradients that are unscaled in place become 0: use step_gradients, which makes them "
                "float, let step take a GradientFactor, or say `static constexpr bool allow_fp16_gradients = true;`");
  [[nodiscard]] static HowToUnscale how(bool is_step, bool is_temporary) {
    return {is_deferred, allows_narrow, is_step, is_temporary};
  }
};

/// The norm of duplicate_gradients, which another rank counts; 0 if there are none.
template <class Optimizer>
[[nodiscard]] double duplicates_norm(const ParallelExecutor& executor, Optimizer& optimizer) {
  using Traits = optimizer_traits<Optimizer>;
  const auto norm = [&executor](auto&& tree) {
    using Tree = std::remove_reference_t<decltype(tree)>;
    return GradientVerbs<Traits, Tree, true>(executor, tree, std::false_type()).measure().norm;
  };
  if constexpr (is_detected_v<traits_duplicates_t, Optimizer>) {
    return norm(Traits::duplicate_gradients(optimizer));
  } else if constexpr (is_detected_v<member_duplicates_t, Optimizer>) {
    return norm(optimizer.duplicate_gradients());
  } else {
    return 0.0;
  }
}

}  // namespace detail
HEADROOM_DETAIL_END_NAMESPACE
