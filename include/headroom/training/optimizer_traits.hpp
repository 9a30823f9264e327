#pragma once

#include <headroom/config.hpp>
#include <headroom/tree/facts.hpp>

#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// What an optimizer that takes one multiplies each gradient by: in deferred mode the inverse of the loss scale times the clip
/// factor, else 1. An optimizer takes one whose `step` names this type as that of its first parameter. It can also say so,
/// itself or in its optimizer_traits, by `static constexpr bool takes_gradient_factor = true;` (or false). It has to where its
/// step is a template, which would take anything; and where `unscale_` is called in deferred mode, before the other arguments
/// of the step are known, if there are more than three of them or by value and by reference.
struct GradientFactor {
  double value = 1.0;
};

namespace detail {

template <class Optimizer, class = void>
struct member_optimizer_traits {
  using not_specialized = void;
};
template <class Optimizer>
struct member_optimizer_traits<Optimizer, std::void_t<decltype(std::declval<Optimizer&>().gradients())>> {
  static decltype(auto) gradients(Optimizer& optimizer) { return optimizer.gradients(); }
  template <class... Args>
  static auto step(Optimizer& optimizer, Args&&... args) -> decltype(optimizer.step(std::forward<Args>(args)...)) {
    return optimizer.step(std::forward<Args>(args)...);
  }
};

}  // namespace detail

/// How a GradScaler reaches the gradients of an optimizer and lets it step. An optimizer with members `gradients()`, which
/// returns a reference to a tree (or a tree of views), and `step(...)` needs no specialisation; others say
///
///     template <> struct headroom::optimizer_traits<MyOptimizer> {
///       static auto& gradients(MyOptimizer& optimizer) { return optimizer.grads; }
///       template <class... Args>
///       static auto step(MyOptimizer& optimizer, Args&&... args) -> decltype(optimizer.apply(std::forward<Args>(args)...)) {
///         return optimizer.apply(std::forward<Args>(args)...);
///       }
///     };
///
/// Gradients that are not in this processor's memory need functions of their own, in the place of headroom's verbs (all three;
/// `gradients` still returns a tree: no leaf means no gradients):
///
///       static GradientReport unscale(const ParallelExecutor&, Gradients&, float scale);          // unscale_in_place
///       static GradientNorm measure(const ParallelExecutor&, const Gradients&);
///       static GradientReport scale(const ParallelExecutor&, Gradients&, double factor);
///
/// The second parameter is for specialisations of whole families by std::enable_if_t; they go before an optimizer's own
/// members.
template <class Optimizer, class Enable = void>
struct optimizer_traits : detail::member_optimizer_traits<Optimizer> {};

namespace detail {

template <class Optimizer, class = void>
struct has_optimizer_traits : std::true_type {};
template <class Optimizer>
struct has_optimizer_traits<Optimizer, std::void_t<typename optimizer_traits<Optimizer>::not_specialized>> : std::false_type {};

template <class Optimizer>
constexpr bool check_is_optimizer() {
  static_assert(has_optimizer_traits<Optimizer>::value,
                "headroom: this is no optimizer: give it members gradients(), which returns a reference to the tree of its "
                "gradients, and step(...), or specialise headroom::optimizer_traits<T>");
  if constexpr (has_optimizer_traits<Optimizer>::value) {
    using Gradients = decltype(optimizer_traits<Optimizer>::gradients(std::declval<Optimizer&>()));
    static_assert(
        std::is_lvalue_reference_v<Gradients> || !owns_elements_v<Gradients>,
        "headroom: the gradients of this optimizer come as a copy, so that what is done to them would be lost: return "
        "a reference to them, or a tree of views");
  }
  return true;
}

/// The optimizer's step, as something std::is_invocable can ask about.
struct CallStep {
  template <class Optimizer, class... Args>
  auto operator()(Optimizer& optimizer, Args&&... args) const
      -> decltype(optimizer_traits<Optimizer>::step(optimizer, std::forward<Args>(args)...)) {
    return optimizer_traits<Optimizer>::step(optimizer, std::forward<Args>(args)...);
  }
};

/// An optimizer with gradients that are not its own, which its step gets first.
template <class Optimizer, class Tree>
class WithGradients {
 public:
  WithGradients(Optimizer& optimizer, Tree gradients) : optimizer_(optimizer), gradients_(std::move(gradients)) {}

  [[nodiscard]] Tree& gradients() noexcept { return gradients_; }
  [[nodiscard]] const Optimizer& optimizer() const noexcept { return optimizer_; }
  template <class... Args>
  auto step(Args&&... args) -> decltype(std::declval<Optimizer&>().step(std::declval<Tree&>(), std::forward<Args>(args)...)) {
    return optimizer_.step(gradients_, std::forward<Args>(args)...);
  }

 private:
  Optimizer& optimizer_;
  Tree gradients_;
};

// ---- whether an optimizer takes a GradientFactor ----

template <class T, class = void>
struct says_what_it_takes : std::false_type {};
template <class T>
struct says_what_it_takes<T, std::void_t<decltype(bool{T::takes_gradient_factor})>> : std::true_type {};

template <class Optimizer, class Tree>
struct says_what_it_takes<WithGradients<Optimizer, Tree>, std::void_t<decltype(bool{Optimizer::takes_gradient_factor})>>
    : std::true_type {};

/// Like a GradientFactor, but known to nobody: a step that can be called with it can be called with anything.
struct NoGradientFactor {
  double value = 1.0;
};
/// Stand for arguments whose types only the user knows, by value and by reference.
struct AnyValue {
  template <class T>
  operator T&&() const;
};
struct AnyReference {
  template <class T>
  operator T&() const;
};

template <class Optimizer>
constexpr bool said_by(const Optimizer*) {
  return Optimizer::takes_gradient_factor;
}
template <class Optimizer, class Tree>
constexpr bool said_by(const WithGradients<Optimizer, Tree>*) {
  return Optimizer::takes_gradient_factor;
}

template <class Optimizer, class... Args>
inline constexpr bool names_factor_v = std::is_invocable_v<CallStep, Optimizer&, GradientFactor, Args...> &&
                                       !std::is_invocable_v<CallStep, Optimizer&, NoGradientFactor, Args...>;

template <class Optimizer>
inline constexpr bool says_v = says_what_it_takes<optimizer_traits<Optimizer>>::value || says_what_it_takes<Optimizer>::value;
template <class Optimizer>
constexpr bool what_it_says() {
  if constexpr (says_what_it_takes<optimizer_traits<Optimizer>>::value) {
    return optimizer_traits<Optimizer>::takes_gradient_factor;
  } else {
    return said_by(static_cast<const Optimizer*>(nullptr));
  }
}

/// Whether a step with these arguments gets a GradientFactor.
template <class Optimizer, class... Args>
constexpr bool step_takes_factor() {
  if constexpr (says_v<Optimizer>) {
    return what_it_says<Optimizer>() && std::is_invocable_v<CallStep, Optimizer&, GradientFactor, Args...>;
  } else {
    return names_factor_v<Optimizer, Args...>;
  }
}
/// The same before the arguments are known: as far as steps of up to three more can be tried.
template <class Optimizer>
constexpr bool takes_factor() {
  using V = AnyValue;
  using R = AnyReference;
  if constexpr (says_v<Optimizer>) {
    return what_it_says<Optimizer>();
  } else {
    return names_factor_v<Optimizer> || names_factor_v<Optimizer, V> || names_factor_v<Optimizer, R> ||
           names_factor_v<Optimizer, V, V> || names_factor_v<Optimizer, R, R> || names_factor_v<Optimizer, V, V, V> ||
           names_factor_v<Optimizer, R, R, R>;
  }
}

}  // namespace detail

}  // namespace HEADROOM_BUILD
}  // namespace headroom
