// Leaves, and what a specialisation of tensor_traits says about them.
#include <headroom/tree/tensor_traits.hpp>

#include <headroom/headroom.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace headroom;
using namespace headroom::detail;

namespace users {

/// The least that HEADROOM_TENSOR needs.
template <class T>
class Tensor {
 public:
  explicit Tensor(std::size_t size) : elements_(size) {}
  T* data() { return elements_.data(); }
  const T* data() const { return elements_.data(); }
  std::size_t size() const { return elements_.size(); }

 private:
  std::vector<T> elements_;
};

template <class T>
struct Layer {
  Tensor<T> weight{3};
  Tensor<int> shape{2};
  HEADROOM_TREE(Layer, weight, shape)
};

}  // namespace users
HEADROOM_TENSOR(users::Tensor)

namespace {

struct Matrix {
  float elements[6];
};

}  // namespace

template <>
struct headroom::tensor_traits<Matrix> {
  using value_type = float;
  static float* data(Matrix& matrix) { return matrix.elements; }
  static const float* data(const Matrix& matrix) { return matrix.elements; }
  static std::size_t size(const Matrix&) { return 6; }
  static Layout layout(const Matrix&) {
    Layout layout;
    layout.push(2, 3);
    layout.push(3, 1);
    return layout;
  }
};

namespace {

static_assert(has_layout_v<Matrix> && !has_layout_v<std::vector<float>>);
static_assert(is_view_v<span<float>> && !is_view_v<std::vector<float>> && !is_view_v<Matrix> &&
              !is_view_v<float>);

template <class Leaf>
constexpr bool is_read_only =
    std::is_const_v<std::remove_pointer_t<decltype(data_of(std::declval<Leaf&>()))>>;
static_assert(is_read_only<const Matrix> && is_read_only<const float> &&
              is_read_only<const float[3]>);
static_assert(!is_read_only<Matrix> && !is_read_only<float> && !is_read_only<std::vector<half>>);
// Const follows the elements, not the span
static_assert(is_read_only<span<const float>> && !is_read_only<const span<float>>);

}  // namespace

TEST_CASE("HEADROOM_TENSOR makes a class template a leaf, and new ones of its size") {
  users::Tensor<half> source(5);
  source.data()[4] = half(6.0F);
  const auto [grads, report] = unscale<float>(source, 2.0F);
  static_assert(std::is_same_v<decltype(grads), const users::Tensor<float>>);
  CHECK((grads.size() == 5 && grads.data()[4] == 3.0F && report.max_abs == 3.0));
  const ConstantLossScale doubling(2.0F);
  users::Tensor<float> tensor(2);
  tensor.data()[1] = 1.0F;
  const float* const elements = tensor.data();
  CHECK(doubling.scale(tensor).data()[1] == 2.0F);
  CHECK(tensor.data()[1] == 1.0F);
  // Its copies own their elements, so a temporary is reused
  CHECK(doubling.scale(std::move(tensor)).data() == elements);
  CHECK(element_count(users::Layer<float>()) == 3);
  CHECK(cast<half>(users::Layer<float>()).weight.size() == 3);
}
