#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/detect.hpp>
#include <headroom/tree/facts.hpp>

#include <type_traits>
#include <utility>

namespace headroom {
inline namespace HEADROOM_BUILD {

/// What an optimizer multiplies each gradient by: in deferred mode the inverse loss scale times the clip factor, otherwise 1.
/// An optimizer gets one if the first parameter of its `step` has this type, or if it or its optimizer_traits says `static
/// constexpr bool takes_gradient_factor = true;`. It has to say so, true or false, if its step is a template, which would take
/// anything; or if the step has more than three other arguments and `unscale_` is called before those are known.
struct GradientFactor {
  double value = 1.0;
};

namespace detail {

template <class Optimizer>
using member_gradients_t = decltype(std::declval<Optimizer&>().gradients());

template <class Optimizer, bool = is_detected_v<member_gradients_t, Optimizer>>
struct member_optimizer_traits {
  using not_specialized = void;
};
template <class Optimizer>
struct member_optimizer_traits<Optimizer, true> {
  static decltype(auto) gradients(Optimizer& optimizer) { return optimizer.gradients(); }
  template <class... Args>
  static auto step(Optimizer& optimizer, Args&&... args) -> decltype(optimizer.step(std::forward<Args>(args)...)) {
    return optimizer.step(std::forward<Args>(args)...);
  }
};

}  // namespace detail

/// How a GradScaler reaches the gradients of an optimizer and lets it step. An optimizer with members `gradients()`, which
/// returns a reference to a tree (or a tree of views), and `step(...)` needs no specialisation. For others write
///
///     template <> struct headroom::optimizer_traits<MyOptimizer> {
///       static auto& gradients(MyOptimizer& optimizer) { return optimizer.grads; }
///       template <class... Args>
///       static auto step(MyOptimizer& optimizer, Args&&... args) -> decltype(optimizer.apply(std::forward<Args>(args)...)) {
///         return optimizer.apply(std::forward<Args>(args)...);
///       }
///     };
///
/// Gradients outside the CPU's memory need these three in place of headroom's verbs (`gradients` still returns a tree; no leaf
/// means no gradients). They report what they store:
///
///       static GradientReport unscale(const ParallelExecutor&, Gradients&, float loss_scale);
///       static GradientNorm measure(const ParallelExecutor&, const Gradients&);
///       static GradientReport scale(const ParallelExecutor&, Gradients&, double factor);
///
/// and, to fill StepResult::nonfinite after an overflow, one that looks for the first Inf or NaN:
///
///       static std::optional<NonFinite> find_nonfinite(const ParallelExecutor&, const Gradients&);
///
/// Where several ranks hold the same gradients, `duplicate_gradients(optimizer)`, or a member of that name, returns the tree of
/// those that another rank counts in the norm. (They are part of `gradients` all the same.)
///
/// The second parameter is for specialising families by std::enable_if_t. A specialisation comes before an optimizer's members.
template <class Optimizer, class Enable = void>
struct optimizer_traits : detail::member_optimizer_traits<Optimizer> {};

namespace detail {

template <class Optimizer>
using not_specialized_t = typename optimizer_traits<Optimizer>::not_specialized;

template <class Optimizer>
constexpr void check_is_optimizer() {
  static_assert(!is_detected_v<not_specialized_t, Optimizer>,
                "headroom: this is no optimizer: give it members gradients(), which returns a reference to the tree of its "
                "gradients, and step(...), or specialise headroom::optimizer_traits<T>");
  if constexpr (!is_detected_v<not_specialized_t, Optimizer>) {
    using Gradients = decltype(optimizer_traits<Optimizer>::gradients(std::declval<Optimizer&>()));
    static_assert(
        std::is_lvalue_reference_v<Gradients> || !owns_elements_v<Gradients>,
        "headroom: the gradients of this optimizer come as a copy, so that what is done to them would be lost: return "
        "a reference to them, or a tree of views");
  }
}

template <class Optimizer>
using duplicates_t = decltype(optimizer_traits<Optimizer>::duplicate_gradients(std::declval<Optimizer&>()));
template <class Optimizer>
using member_duplicates_t = decltype(std::declval<Optimizer&>().duplicate_gradients());

/// To see whether a class has a member of a name, whatever it is: where it does, one that inherits the name twice does not know
/// which is meant. A union or a final class is taken for one without.
struct OptionalMembers {
  int unscale, measure, scale, find_nonfinite, duplicate_gradients;
};
template <class T>
struct WithNamesTwice : T, OptionalMembers {};
template <class T>
using WithNames = std::conditional_t<std::is_class_v<T> && !std::is_final_v<T>, WithNamesTwice<T>, OptionalMembers>;
template <class T>
using no_duplicates_name_t = decltype(&WithNames<T>::duplicate_gradients);

template <class Optimizer>
inline constexpr bool names_duplicates_v =
    !is_detected_v<no_duplicates_name_t, Optimizer> || !is_detected_v<no_duplicates_name_t, optimizer_traits<Optimizer>>;
/// Whether an optimizer says which of its gradients another rank counts.
template <class Optimizer>
constexpr bool check_duplicates() {
  constexpr bool says = is_detected_v<duplicates_t, Optimizer> || is_detected_v<member_duplicates_t, Optimizer>;
  static_assert(
      says || !names_duplicates_v<Optimizer>,
      "headroom: duplicate_gradients of this optimizer cannot be called; write a public member duplicate_gradients() that "
      "returns the tree of those gradients that another rank counts, or one of its optimizer_traits that takes the optimizer");
  return says;
}
template <class Optimizer>
decltype(auto) duplicates_of(Optimizer& optimizer) {
  if constexpr (is_detected_v<duplicates_t, Optimizer>) {
    return optimizer_traits<Optimizer>::duplicate_gradients(optimizer);
  } else {
    return optimizer.duplicate_gradients();
  }
}

/// The optimizer's step, as something std::is_invocable can ask about.
struct CallStep {
  template <class Optimizer, class... Args>
  auto operator()(Optimizer& optimizer, Args&&... args) const
      -> decltype(optimizer_traits<Optimizer>::step(optimizer, std::forward<Args>(args)...)) {
    return optimizer_traits<Optimizer>::step(optimizer, std::forward<Args>(args)...);
  }
};

// ---- whether an optimizer takes a GradientFactor ----

template <class T>
using says_t = decltype(bool{T::takes_gradient_factor});

/// Like a GradientFactor, but known to nobody: a step that accepts it accepts anything.
struct NoGradientFactor {
  double value = 1.0;
};
/// Stands for an argument whose type only the user knows, by value or by reference.
struct AnyArgument {
  template <class T>
  operator T&() const&;
  template <class T>
  operator T&&() const&&;
};

enum class takes { no, yes, unsaid };
template <class Optimizer>
constexpr takes what_it_says() {
  if constexpr (is_detected_v<says_t, optimizer_traits<Optimizer>>) {
    return optimizer_traits<Optimizer>::takes_gradient_factor ? takes::yes : takes::no;
  } else if constexpr (is_detected_v<says_t, Optimizer>) {
    return Optimizer::takes_gradient_factor ? takes::yes : takes::no;
  } else {
    return takes::unsaid;
  }
}

/// Whether a step with these arguments gets a GradientFactor.
template <class Optimizer, class... Args>
constexpr bool step_takes_factor() {
  constexpr takes says = what_it_says<Optimizer>();
  if constexpr (says == takes::unsaid) {
    return std::is_invocable_v<CallStep, Optimizer&, GradientFactor, Args...> &&
           !std::is_invocable_v<CallStep, Optimizer&, NoGradientFactor, Args...>;
  } else {
    return says == takes::yes && std::is_invocable_v<CallStep, Optimizer&, GradientFactor, Args...>;
  }
}
/// The same before the arguments are known: as far as steps of up to three more can be tried.
template <class Optimizer>
constexpr bool takes_factor() {
  using A = AnyArgument;
  if constexpr (what_it_says<Optimizer>() == takes::unsaid) {
    return step_takes_factor<Optimizer>() || step_takes_factor<Optimizer, A>() || step_takes_factor<Optimizer, A, A>() ||
           step_takes_factor<Optimizer, A, A, A>();
  } else {
    return what_it_says<Optimizer>() == takes::yes;
  }
}

// ---- an optimizer and gradients that are not its own ----

template <class Optimizer, bool = is_detected_v<says_t, Optimizer>>
struct SaysTheSame {};
template <class Optimizer>
struct SaysTheSame<Optimizer, true> {
  static constexpr bool takes_gradient_factor = Optimizer::takes_gradient_factor;
};

template <class Optimizer, class Tree>
using duplicates_in_t = decltype(std::declval<Optimizer&>().duplicate_gradients(std::declval<Tree&>()));

/// Its step gets the gradients first, and so does its duplicate_gradients.
template <class Optimizer, class Tree>
class WithGradients : public SaysTheSame<Optimizer> {
  static_assert(
      is_detected_v<duplicates_in_t, Optimizer, Tree> || is_detected_v<no_duplicates_name_t, Optimizer>,
      "headroom: this optimizer has duplicate_gradients of its own gradients, but is given others: write a public member "
      "duplicate_gradients(gradients) for them");

 public:
  WithGradients(Optimizer& optimizer, Tree gradients) : optimizer_(optimizer), gradients_(std::move(gradients)) {}

  [[nodiscard]] Tree& gradients() noexcept { return gradients_; }
  [[nodiscard]] const Optimizer& optimizer() const noexcept { return optimizer_; }
  template <class O = Optimizer>
  auto duplicate_gradients() -> duplicates_in_t<O, Tree> {
    return optimizer_.duplicate_gradients(gradients_);
  }
  template <class... Args>
  auto step(Args&&... args) -> decltype(std::declval<Optimizer&>().step(std::declval<Tree&>(), std::forward<Args>(args)...)) {
    return optimizer_.step(gradients_, std::forward<Args>(args)...);
  }

 private:
  Optimizer& optimizer_;
  Tree gradients_;
};
template <class Optimizer, class Tree>
inline constexpr bool names_duplicates_v<WithGradients<Optimizer, Tree>> = false;  // it has checked its optimizer's itself

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
