#pragma once

#include <headroom/config.hpp>

#include <cstddef>
#include <string>

HEADROOM_DETAIL_BEGIN_NAMESPACE

/// What one pass over gradients found in the values that it stored, or read if it stored none. accumulate_into reports the
/// values that it added.
struct GradientReport {
  bool finite = true;    ///< no Inf and no NaN; true if there are no gradients
  double max_abs = 0.0;  ///< the largest |gradient|; +Inf if not finite, 0 if there are none

  /// True if the step may be taken.
  constexpr explicit operator bool() const noexcept { return finite; }
};

/// The report of a pass that also measures the norm.
struct GradientNorm : GradientReport {
  double norm = 0.0;  ///< L2 norm over all elements, see `measure`; +Inf if not finite or beyond double
};

enum class NonFiniteKind { inf, nan };

/// The non-finite elements of a tree.
struct NonFinite {
  std::string path;           ///< of the first leaf that has one, as in for_each_leaf_with_path
  std::size_t index = 0;      ///< of its first one, in memory order: data()[index] in a leaf without gaps
  NonFiniteKind kind{};       ///< the kind of that element
  std::size_t nan_count = 0;  ///< in the whole tree
  std::size_t inf_count = 0;
  std::size_t leaf = 0;  ///< the number of that first leaf in the order of for_each_leaf
};

/// Why a step was not taken.
enum class SkipReason {
  none,         ///< it was taken
  not_finite,   ///< an unscaled gradient on some rank is Inf or NaN, or the norm for clipping exceeds double
  no_gradients  ///< the optimizer's tree has no leaf, as before the first backward
};

[[nodiscard]] constexpr const char* to_string(SkipReason reason) noexcept {
  constexpr const char* names[] = {"none", "not_finite", "no_gradients"};
  const auto i = static_cast<std::size_t>(reason);
  return i < sizeof names / sizeof *names ? names[i] : "unknown";  // of no enumerator
}

HEADROOM_DETAIL_END_NAMESPACE
