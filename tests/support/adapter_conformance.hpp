#pragma once

#include <headroom/headroom.hpp>

#include <cmath>
#include <cstddef>
#include <limits>

#include "support/catch.hpp"

// The checks that every adapter has to pass, for a tensor type with rows and columns. A case
// defines
//
//   value_type            the element type
//   rows, cols
//   make()                a tensor with undefined elements, or a view of a tensor that stays alive
//   at(tensor, i, j)      a reference to an element
//
// The checks access elements through `at`, the library's own indexing. So they find an adapter that
// reads strides wrongly.

namespace conformance {

/// Distinct values, exact in every dtype.
inline float value_at(std::size_t i, std::size_t j) { return static_cast<float>(i * 16 + j + 1); }

template <class Case, class Tensor>
void fill(Tensor& tensor) {
  for (std::size_t i = 0; i < Case::rows; ++i) {
    for (std::size_t j = 0; j < Case::cols; ++j)
      Case::at(tensor, i, j) = typename Case::value_type(value_at(i, j));
  }
}

/// The number of elements that differ from value_at * factor.
template <class Case, class Tensor>
std::size_t wrong_elements(Tensor& tensor, float factor) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < Case::rows; ++i) {
    for (std::size_t j = 0; j < Case::cols; ++j) {
      wrong += static_cast<float>(Case::at(tensor, i, j)) != value_at(i, j) * factor ? 1U : 0U;
    }
  }
  return wrong;
}

template <class Case>
void check_in_place() {
  auto tensor = Case::make();
  fill<Case>(tensor);
  CHECK(headroom::leaf_count(tensor) == 1);
  CHECK(headroom::element_count(tensor) == Case::rows * Case::cols);

  const headroom::ConstantLossScale scale(4.0F);
  scale.scale_in_place(tensor);
  CHECK(wrong_elements<Case>(tensor, 4.0F) == 0);
  const headroom::GradientReport report =
      scale.template unscale_in_place<headroom::allow_fp16_gradients>(tensor);
  CHECK(report.finite);
  CHECK(report.max_abs == static_cast<double>(value_at(Case::rows - 1, Case::cols - 1)));
  CHECK(wrong_elements<Case>(tensor, 1.0F) == 0);

  double sum = 0.0;
  for (std::size_t i = 0; i < Case::rows; ++i) {
    for (std::size_t j = 0; j < Case::cols; ++j)
      sum += std::pow(static_cast<double>(value_at(i, j)), 2);
  }
  CHECK(headroom::measure(tensor).norm == Catch::Approx(std::sqrt(sum)).epsilon(1e-14));
}

template <class Case>
void check_every_element_is_seen() {
  std::size_t missed = 0;
  for (std::size_t i = 0; i < Case::rows; ++i) {
    for (std::size_t j = 0; j < Case::cols; ++j) {
      auto tensor = Case::make();
      fill<Case>(tensor);
      Case::at(tensor, i, j) = typename Case::value_type(std::numeric_limits<float>::infinity());
      const auto found = headroom::find_nonfinite(tensor);
      const bool seen =
          !headroom::all_finite(tensor) && found && found->inf_count == 1 && found->nan_count == 0;
      missed += seen ? 0U : 1U;
    }
  }
  CHECK(missed == 0);
}

/// Destinations of another dtype: new tensors, and existing ones that may have another storage
/// order.
template <class Case, class Other>
void check_other_dtype() {
  auto tensor = Case::make();
  fill<Case>(tensor);
  const headroom::ConstantLossScale scale(2.0F);

  auto [grads, report] = scale.template unscale<typename Other::value_type>(tensor);
  CHECK(report.finite);
  CHECK(wrong_elements<Other>(grads, 0.5F) == 0);
  CHECK(wrong_elements<Case>(tensor, 1.0F) == 0);
  static_assert(headroom::detail::owns_elements_v<decltype(grads)>);

  auto other = Other::make();
  CHECK(scale.unscale_into(tensor, other).finite);
  CHECK(wrong_elements<Other>(other, 0.5F) == 0);
  headroom::cast_into(other, tensor);
  CHECK(wrong_elements<Case>(tensor, 0.5F) == 0);

  auto scaled = scale.scale(tensor);
  CHECK(wrong_elements<Case>(scaled, 1.0F) == 0);
  CHECK(wrong_elements<Case>(tensor, 0.5F) == 0);
}

template <class Case, class Other>
void check_all() {
  check_in_place<Case>();
  check_every_element_is_seen<Case>();
  check_other_dtype<Case, Other>();
}

}  // namespace conformance
