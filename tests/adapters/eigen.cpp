#include <headroom/adapters/eigen.hpp>
#include <headroom/headroom.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <initializer_list>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/adapter_conformance.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;

namespace {

constexpr int n_rows = 5, n_cols = 7;

template <class Tensor>
struct Indexed {
  using value_type = typename Tensor::Scalar;
  static constexpr std::size_t rows = n_rows, cols = n_cols;
  template <class T>
  static auto& at(T& tensor, std::size_t i, std::size_t j) {
    return tensor(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j));
  }
};

template <class Dense>
struct Plain : Indexed<Dense> {
  static Dense make() { return Dense(n_rows, n_cols); }
};
template <class Dense>
struct Fixed : Indexed<Dense> {
  static Dense make() { return Dense(); }
};

template <class S, int Order>
using Dynamic = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Order>;

/// A block with a gap after each column (or row).
template <class S, int Order>
struct BlockCase : Indexed<Dynamic<S, Order>> {
  static auto make() {
    static Dynamic<S, Order> whole(n_rows + 3, n_cols + 2);
    return whole.block(1, 2, n_rows, n_cols);
  }
};

/// A map of every third element, with 40 elements from one column (or row) to the next.
template <class S, int Order>
struct StridedMap : Indexed<Dynamic<S, Order>> {
  using strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  static auto make() {
    static std::vector<S> memory(3000);
    return Eigen::Map<Dynamic<S, Order>, 0, strides>(memory.data(), n_rows, n_cols, strides(40, 3));
  }
};

template <class S>
struct RefCase : Indexed<Dynamic<S, Eigen::ColMajor>> {
  static auto make() {
    static Dynamic<S, Eigen::ColMajor> whole(n_rows + 1, n_cols);
    return Eigen::Ref<Dynamic<S, Eigen::ColMajor>, 0, Eigen::OuterStride<>>(whole.topRows(n_rows));
  }
};

template <class S, int Order>
struct TensorCase : Indexed<Eigen::Tensor<S, 2, Order>> {
  static auto make() { return Eigen::Tensor<S, 2, Order>(n_rows, n_cols); }
};
template <class S>
struct FixedTensorCase : Indexed<Eigen::TensorFixedSize<S, Eigen::Sizes<n_rows, n_cols>>> {
  static auto make() { return Eigen::TensorFixedSize<S, Eigen::Sizes<n_rows, n_cols>>(); }
};
template <class S>
struct TensorMapCase : Indexed<Eigen::Tensor<S, 2>> {
  static auto make() {
    static std::vector<S> memory(n_rows * n_cols);
    return Eigen::TensorMap<Eigen::Tensor<S, 2>>(memory.data(), n_rows, n_cols);
  }
};

using RowHalf = Plain<Dynamic<Eigen::half, Eigen::RowMajor>>;
using ColHalf = Plain<Dynamic<Eigen::half, Eigen::ColMajor>>;
using ColFloat = Plain<Dynamic<float, Eigen::ColMajor>>;
using ColDouble = Plain<Dynamic<double, Eigen::ColMajor>>;
using TensorHalf = TensorCase<Eigen::half, Eigen::ColMajor>;

// Leaves that own their elements are not compared for overlap; views are.
static_assert(headroom::detail::owns_elements_v<Eigen::MatrixXf> &&
              headroom::detail::owns_elements_v<Eigen::Vector3f>);
static_assert(headroom::detail::owns_elements_v<Eigen::Tensor<float, 3>>);
static_assert(!headroom::detail::owns_elements_v<Eigen::Map<Eigen::VectorXf>> &&
              !headroom::detail::owns_elements_v<Eigen::TensorMap<Eigen::Tensor<float, 3>>>);

}  // namespace

TEST_CASE("fixed and dynamic Eigen matrices and arrays in both storage orders conform") {
  conformance::check_all<ColFloat, ColHalf>();
  conformance::check_all<ColFloat, RowHalf>();
  conformance::check_all<Plain<Dynamic<float, Eigen::RowMajor>>, ColHalf>();
  conformance::check_all<ColHalf, ColFloat>();
  conformance::check_all<Plain<Dynamic<Eigen::bfloat16, Eigen::RowMajor>>, ColDouble>();
  conformance::check_all<ColDouble, ColFloat>();
  conformance::check_all<Plain<Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic>>, RowHalf>();
  conformance::check_all<Fixed<Eigen::Matrix<float, n_rows, n_cols>>, ColHalf>();
  conformance::check_all<Fixed<Eigen::Array<float, n_rows, n_cols, Eigen::RowMajor>>, ColHalf>();
}

TEST_CASE("Eigen views with gaps conform") {
  conformance::check_all<BlockCase<float, Eigen::ColMajor>, ColHalf>();
  conformance::check_all<BlockCase<float, Eigen::RowMajor>, ColHalf>();
  conformance::check_all<BlockCase<Eigen::half, Eigen::RowMajor>, ColFloat>();
  conformance::check_all<StridedMap<float, Eigen::ColMajor>, RowHalf>();
  conformance::check_all<StridedMap<Eigen::half, Eigen::RowMajor>, ColFloat>();
  conformance::check_all<RefCase<float>, ColHalf>();
}

TEST_CASE("Eigen tensors conform") {
  conformance::check_all<TensorCase<float, Eigen::ColMajor>, TensorHalf>();
  conformance::check_all<TensorCase<float, Eigen::RowMajor>, TensorHalf>();
  conformance::check_all<FixedTensorCase<float>, TensorHalf>();
  conformance::check_all<TensorMapCase<float>, TensorHalf>();
}

TEST_CASE("memory between the elements of a view is not changed") {
  Eigen::MatrixXf whole = Eigen::MatrixXf::Constant(9, 8, 3.0F);
  headroom::ConstantLossScale(2.0F).scale_in_place(whole.block(2, 1, 4, 5));
  CHECK((whole.array() == 6.0F).count() == 20);
  CHECK((whole.array() == 3.0F).count() == 52);
  whole.setConstant(3.0F);
  headroom::ConstantLossScale(2.0F).scale_in_place(whole.row(4));
  CHECK((whole.row(4).array() == 6.0F).all());
  CHECK((whole.array() == 6.0F).count() == 8);
  whole.setConstant(3.0F);
  headroom::ConstantLossScale(2.0F).scale_in_place(whole.diagonal());
  CHECK((whole.diagonal().array() == 6.0F).all());
  CHECK((whole.array() == 6.0F).count() == 8);
}

TEST_CASE("a new tree made from a view owns its elements") {
  Eigen::MatrixXf whole = Eigen::MatrixXf::Constant(4, 4, 1.0F);
  const headroom::ConstantLossScale scale(8.0F);
  auto scaled = scale.scale(whole.topRows(2));  // the view is a temporary, the matrix is not
  static_assert(std::is_same_v<decltype(scaled), Eigen::MatrixXf>);
  CHECK((whole.array() == 1.0F).all());
  CHECK((scaled.array() == 8.0F).all());
  auto head = headroom::cast<Eigen::half>(whole.col(1).head(3));
  CHECK(head.size() == 3);
}

TEST_CASE("a const view of a matrix can be read") {
  const Eigen::MatrixXf matrix = Eigen::MatrixXf::Constant(3, 3, -2.0F);
  const Eigen::Map<const Eigen::VectorXf> map(matrix.data(), 9);
  const Eigen::Ref<const Eigen::MatrixXf> ref(matrix);
  CHECK(headroom::measure(map).max_abs == 2.0);
  CHECK(headroom::measure(ref).norm == Catch::Approx(6.0));
}

TEST_CASE("shapes of Eigen matrices must match") {
  Eigen::MatrixXf source = Eigen::MatrixXf::Ones(2, 3);
  Eigen::MatrixXf destination = Eigen::MatrixXf::Constant(3, 2, 7.0F);
  CHECK_THROWS_WITH(headroom::cast_into(source, destination),
                    ContainsSubstring("2x3") && ContainsSubstring("3x2"));
  CHECK((destination.array() == 7.0F).all());
  // A row may be copied into a column of the same size, and a matrix without gaps into a flat
  // vector.
  Eigen::RowVector3f row;
  headroom::cast_into(source.row(0).eval(), row);
  std::vector<headroom::half> flat(6);
  headroom::cast_into(source, flat);
  CHECK(flat[5] == headroom::half(1.0F));
  std::vector<headroom::half> rows(6);
  CHECK_THROWS_AS(headroom::cast_into(destination.topRows(2), flat), std::invalid_argument);
}

namespace {

using Matrix = Eigen::SparseMatrix<float>;
using ByRows = Eigen::SparseMatrix<float, Eigen::RowMajor>;
using Vector = Eigen::SparseVector<float>;

template <class Sparse>
Sparse with(Eigen::Index rows, Eigen::Index columns,
            std::initializer_list<Eigen::Triplet<float>> values) {
  Sparse sparse(rows, columns);
  sparse.setFromTriplets(values.begin(), values.end());
  return sparse;
}
Vector vector_with(Eigen::Index size, Eigen::Index place) {
  Vector vector(size);
  vector.insert(place) = 1.0F;
  return vector;
}

template <class Source, class Destination>
void check_refused(const Source& source, Destination destination) {
  const std::string text = "source and destination have their elements in different places";
  CHECK_INVALID(text, headroom::cast_into(source, destination));
  CHECK_INVALID(text, headroom::ConstantLossScale(2.0F).unscale_into(source, destination));
}

}  // namespace

TEST_CASE("sparse matrices and vectors must have their elements in the same places") {
  const auto matrix = with<Matrix>(4, 4, {{0, 0, 2.0F}, {2, 1, 3.0F}});
  auto same = with<Matrix>(4, 4, {{0, 0, 1.0F}, {2, 1, 1.0F}});
  headroom::cast_into(matrix, same);
  CHECK(same.coeff(2, 1) == 3.0F);
  check_refused(matrix, with<Matrix>(5, 4, {{0, 0, 1.0F}, {2, 1, 1.0F}}));  // rows
  check_refused(matrix, with<Matrix>(4, 5, {{0, 0, 1.0F}, {2, 1, 1.0F}}));  // columns
  check_refused(matrix, with<Matrix>(4, 4, {{0, 0, 1.0F}, {2, 2, 1.0F}}));  // outer index
  // Inner index of the last element
  check_refused(matrix, with<Matrix>(4, 4, {{0, 0, 1.0F}, {3, 1, 1.0F}}));
  // The transpose, stored by rows: its arrays are the same.
  check_refused(matrix, with<ByRows>(4, 4, {{0, 0, 1.0F}, {1, 2, 1.0F}}));

  check_refused(vector_with(6, 4), vector_with(7, 4));
  check_refused(vector_with(6, 4), vector_with(6, 5));
  Vector vector = vector_with(6, 4);
  headroom::cast_into(Vector(vector * 3.0F), vector);
  CHECK(vector.coeff(4) == 3.0F);
}

TEST_CASE("the elements of a sparse matrix are its stored values, and it must be compressed") {
  Matrix sparse(4, 5);
  sparse.insert(1, 1) = 2.0F;
  sparse.insert(3, 4) = -6.0F;
  const std::string text =
      "<0> is a sparse matrix that is not compressed: call makeCompressed() on it";
  CHECK_INVALID(text, headroom::all_finite(std::tie(sparse)));
  CHECK_INVALID(text, headroom::cast<Eigen::half>(std::tie(sparse)));
  sparse.makeCompressed();
  CHECK(headroom::element_count(sparse) == 2);
  auto [grads, report] = headroom::ConstantLossScale(2.0F).unscale<Eigen::half>(sparse);
  static_assert(std::is_same_v<decltype(grads), Eigen::SparseMatrix<Eigen::half>>);
  CHECK((report.finite && report.max_abs == 3.0));
  CHECK(static_cast<float>(grads.coeff(3, 4)) == -3.0F);
  CHECK(static_cast<float>(grads.coeff(0, 0)) == 0.0F);
  CHECK(static_cast<float>(headroom::cast<Eigen::half>(vector_with(10, 7)).coeff(7)) == 1.0F);
}

namespace {
struct Bias : Eigen::VectorXf {
  using Eigen::VectorXf::VectorXf;
};
}  // namespace

TEST_CASE("a class derived from a matrix works as the matrix, and new trees have the matrix") {
  Bias bias(3);
  bias.setConstant(4.0F);
  CHECK(headroom::ConstantLossScale(2.0F).unscale_in_place(bias).max_abs == 2.0);
  CHECK(bias(2) == 2.0F);
  static_assert(std::is_same_v<decltype(headroom::cast<double>(bias)), Eigen::VectorXd>);
}
