// Sparse values go from matrix to matrix where all else is the same.
#include <headroom/adapters/eigen.hpp>
#include <headroom/headroom.hpp>

#include <Eigen/SparseCore>

#include <initializer_list>
#include <string>

#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using support::message_of;

namespace {

using Matrix = Eigen::SparseMatrix<float>;
using ByRows = Eigen::SparseMatrix<float, Eigen::RowMajor>;
using Vector = Eigen::SparseVector<float>;

// They own their elements, so no two leaves of a tree are compared.
static_assert(headroom::detail::owns_elements_v<Matrix> && headroom::detail::owns_elements_v<Vector>);

template <class Sparse>
Sparse with(Eigen::Index rows, Eigen::Index columns, std::initializer_list<Eigen::Triplet<float>> values) {
  Sparse sparse(rows, columns);
  sparse.setFromTriplets(values.begin(), values.end());
  return sparse;
}
Vector vector_with(Eigen::Index size, std::initializer_list<Eigen::Index> places) {
  Vector vector(size);
  for (const Eigen::Index place : places) vector.insert(place) = 1.0F;
  return vector;
}

template <class Source, class Destination>
void check_refused(const Source& source, Destination destination) {
  const auto says_so = ContainsSubstring("source and destination have their elements in different places");
  CHECK_THAT(message_of([&] { headroom::cast_into(source, destination); }), says_so);
  CHECK_THAT(message_of([&] { (void)headroom::ConstantLossScale(2.0F).unscale_into(source, destination); }), says_so);
}

}  // namespace

TEST_CASE("sparse matrices that differ in one thing only") {
  const auto matrix = with<Matrix>(4, 4, {{0, 0, 2.0F}, {2, 1, 3.0F}});
  auto same = with<Matrix>(4, 4, {{0, 0, 1.0F}, {2, 1, 1.0F}});
  headroom::cast_into(matrix, same);
  CHECK(same.coeff(2, 1) == 3.0F);
  check_refused(matrix, with<Matrix>(5, 4, {{0, 0, 1.0F}, {2, 1, 1.0F}}));  // rows
  check_refused(matrix, with<Matrix>(4, 5, {{0, 0, 1.0F}, {2, 1, 1.0F}}));  // columns
  check_refused(matrix, with<Matrix>(4, 3, {{0, 0, 1.0F}, {2, 1, 1.0F}}));
  check_refused(matrix, with<Matrix>(4, 4, {{0, 0, 1.0F}, {2, 2, 1.0F}}));  // outer index
  check_refused(matrix, with<Matrix>(4, 4, {{0, 0, 1.0F}, {3, 1, 1.0F}}));  // inner index, of the last element
  // The same numbers in all arrays, by rows: the transpose.
  check_refused(matrix, with<ByRows>(4, 4, {{0, 0, 1.0F}, {1, 2, 1.0F}}));
}

TEST_CASE("sparse vectors that differ in one thing only") {
  const Vector vector = vector_with(6, {1, 4});
  Vector same = vector_with(6, {1, 4});
  headroom::cast_into(Vector(vector * 3.0F), same);
  CHECK(same.coeff(4) == 3.0F);
  check_refused(vector, vector_with(7, {1, 4}));
  check_refused(vector, vector_with(6, {1, 5}));
  check_refused(vector, vector_with(6, {0, 4}));
}

TEST_CASE("a new tree of a sparse matrix that is not compressed is refused before it is made") {
  Matrix loose(4, 4);
  loose.insert(1, 1) = 2.0F;
  const std::string message = message_of([&] { (void)headroom::cast<Eigen::half>(loose); });
  CHECK(message == "headroom: the tree is a sparse matrix that is not compressed: call makeCompressed() on it");
}
