#include <headroom/adapters/xtensor.hpp>
#include <headroom/headroom.hpp>

#include <vector>

#include "support/adapter_conformance.hpp"
#include "support/catch.hpp"

namespace {

constexpr std::size_t n_rows = 5, n_cols = 7;

template <class S>
struct Indexed {
  using value_type = S;
  static constexpr std::size_t rows = n_rows, cols = n_cols;
  template <class T>
  static auto& at(T& tensor, std::size_t i, std::size_t j) {
    return tensor(i, j);
  }
};

template <class S, xt::layout_type L>
struct ArrayCase : Indexed<S> {
  static auto make() { return xt::xarray<S, L>::from_shape({n_rows, n_cols}); }
};
template <class S, xt::layout_type L>
struct TensorCase : Indexed<S> {
  static auto make() { return xt::xtensor<S, 2, L>::from_shape({n_rows, n_cols}); }
};
template <class S>
struct DynamicCase : Indexed<S> {
  static auto make() {
    xt::xarray<S, xt::layout_type::dynamic> array;
    array.resize({n_rows, n_cols}, xt::layout_type::column_major);
    return array;
  }
};
template <class S>
struct FixedCase : Indexed<S> {
  static auto make() { return xt::xtensor_fixed<S, xt::xshape<n_rows, n_cols>>(); }
};
template <class S>
struct AdaptedPointer : Indexed<S> {
  static auto make() {
    static std::vector<S> memory(n_rows * n_cols);
    return xt::adapt(memory.data(), memory.size(), xt::no_ownership(),
                     std::array<std::size_t, 2>{n_rows, n_cols});
  }
};
template <class S>
struct AdaptedVector : Indexed<S> {
  static auto make() {
    static std::vector<S> memory(n_rows * n_cols);
    return xt::adapt(memory, std::vector<std::size_t>{n_rows, n_cols});
  }
};
template <class S>
struct ViewCase : Indexed<S> {
  static auto make() {
    static xt::xtensor<S, 2> whole = xt::xtensor<S, 2>::from_shape({n_rows + 2, n_cols + 4});
    return xt::view(whole, xt::range(1, 1 + n_rows), xt::range(2, 2 + n_cols));
  }
};
/// Every second row, with the columns in reverse order.
template <class S>
struct StridedView : Indexed<S> {
  static auto make() {
    static xt::xarray<S> whole = xt::xarray<S>::from_shape({2 * n_rows, n_cols});
    return xt::strided_view(
        whole, {xt::range(0, 2 * n_rows, 2), xt::range(n_cols - 1, xt::placeholders::_, -1)});
  }
};

constexpr auto row_major = xt::layout_type::row_major;
constexpr auto column_major = xt::layout_type::column_major;
using HalfArray = ArrayCase<xtl::half_float, row_major>;

// Leaves that own their elements are not compared for overlap.
static_assert(headroom::detail::owns_elements_v<xt::xarray<float>> &&
              headroom::detail::owns_elements_v<xt::xtensor<float, 2>> &&
              headroom::detail::owns_elements_v<xt::xtensor_fixed<float, xt::xshape<2, 3>>>);

}  // namespace

TEST_CASE("xtensor containers of both layouts conform") {
  conformance::check_all<ArrayCase<float, row_major>, HalfArray>();
  conformance::check_all<ArrayCase<float, column_major>, HalfArray>();
  conformance::check_all<TensorCase<float, row_major>, TensorCase<xtl::half_float, column_major>>();
  conformance::check_all<TensorCase<xtl::half_float, column_major>,
                         TensorCase<double, row_major>>();
  conformance::check_all<DynamicCase<float>, HalfArray>();
  conformance::check_all<FixedCase<float>, HalfArray>();
  conformance::check_all<ArrayCase<headroom::bfloat16, row_major>,
                         ArrayCase<float, column_major>>();
}

TEST_CASE("xtensor adaptors and strided views conform") {
  conformance::check_all<AdaptedPointer<float>, HalfArray>();
  conformance::check_all<AdaptedVector<float>, HalfArray>();
  conformance::check_all<ViewCase<float>, HalfArray>();
  conformance::check_all<ViewCase<xtl::half_float>, ArrayCase<float, row_major>>();
  conformance::check_all<StridedView<float>, HalfArray>();
}

TEST_CASE("memory between the elements of an xtensor view is not changed") {
  xt::xarray<float> whole = xt::ones<float>({9, 8});
  auto view = xt::strided_view(whole, {xt::range(0, 9, 2), xt::range(1, 8, 3)});
  headroom::ConstantLossScale(2.0F).scale_in_place(view);
  std::size_t doubled = 0;
  for (const float value : whole) doubled += value == 2.0F ? 1U : 0U;
  CHECK(doubled == 15);
}

TEST_CASE("a new tree made from an xtensor view owns its elements and has the view's rank") {
  xt::xtensor<float, 3> whole = xt::ones<float>({2, 3, 4});
  auto halves = headroom::cast<headroom::half>(xt::view(whole, 1, xt::all(), xt::all()));
  static_assert(std::is_same_v<decltype(halves), xt::xtensor<headroom::half, 2>>);
  CHECK(halves.shape(0) == 3);
  CHECK(halves.shape(1) == 4);
}

TEST_CASE("shapes of xtensor arrays must match") {
  xt::xarray<float> source = xt::ones<float>({2, 3});
  xt::xarray<float> destination = xt::zeros<float>({3, 2});
  CHECK_THROWS_WITH(
      headroom::cast_into(source, destination),
      Catch::Matchers::ContainsSubstring("2x3") && Catch::Matchers::ContainsSubstring("3x2"));
  CHECK(headroom::measure(destination).max_abs == 0.0);
}

TEST_CASE("integer arrays are no leaves, and empty arrays are finite") {
  xt::xarray<int> integers = {1, 2, 3};
  CHECK(headroom::leaf_count(integers) == 0);
  xt::xarray<float> none = xt::zeros<float>({0, 3});
  CHECK(headroom::all_finite(none));
}
