// tests/build/views.sh has std::mdspan and Kokkos::View themselves, on machines that have them.
#include <headroom/adapters/mdspan.hpp>
#include <headroom/headroom.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/adapter_conformance.hpp"
#include "support/catch.hpp"
#include "support/paths.hpp"

namespace {

constexpr std::size_t n_rows = 5, n_cols = 7;

/// Columns of floats with a gap after each, as std::mdspan has them.
struct Span {
  using element_type = float;
  using reference = float&;
  using accessor_type = void;
  float* first;

  static constexpr std::size_t rank() { return 2; }
  [[nodiscard]] float* const& data_handle() const { return first; }
  [[nodiscard]] static int extent(std::size_t i) { return i == 0 ? 5 : 7; }
  [[nodiscard]] static int stride(std::size_t i) { return i == 0 ? 1 : 6; }
};
/// The same as Kokkos::View has them.
struct View {
  using memory_space = void;
  static constexpr int rank = 2;
  float* first;

  [[nodiscard]] float* data() const { return first; }
  [[nodiscard]] static std::size_t extent(std::size_t i) { return i == 0 ? n_rows : n_cols; }
  [[nodiscard]] static std::size_t stride(std::size_t i) { return i == 0 ? 1 : n_rows + 1; }
};
template <class T>
struct Scalar {  // an mdspan without dimensions
  using element_type = T;
  using reference = T&;
  using accessor_type = void;
  T* first;

  static constexpr std::size_t rank() { return 0; }
  [[nodiscard]] T* data_handle() const { return first; }
  [[nodiscard]] static int extent(std::size_t) { return 1; }
  [[nodiscard]] static int stride(std::size_t) {
    static_assert(sizeof(T) == 0);
    return 1;
  }
};
/// A matrix that owns its elements, with members of those names.
struct Matrix {
  std::vector<float> elements = std::vector<float>(6);
  [[nodiscard]] const float* data() const { return elements.data(); }
  [[nodiscard]] static std::size_t extent(int) { return 6; }
  [[nodiscard]] static std::size_t stride(int) { return 1; }
};
struct ViewCase {
  using value_type = float;
  static constexpr std::size_t rows = n_rows, cols = n_cols;
  static View make() {
    static std::vector<float> memory((n_rows + 1) * n_cols);
    return {memory.data()};
  }
  static float& at(const View& view, std::size_t i, std::size_t j) {
    return view.first[j * (n_rows + 1) + i];
  }
};

struct Layer {
  View weight;
  float bias;
  HEADROOM_TREE(Layer, weight, bias)
};

}  // namespace

TEST_CASE("a View is a leaf with strides") { conformance::check_in_place<ViewCase>(); }

TEST_CASE("an mdspan is a leaf, also without dimensions") {
  std::vector<float> memory((n_rows + 1) * n_cols, 1.0F);
  memory[n_rows] = 100.0F;  // in a gap
  const Span span{memory.data()};
  CHECK(headroom::measure(span).norm * headroom::measure(span).norm ==
        Catch::Approx(n_rows * n_cols));
  CHECK(headroom::element_count(span) == n_rows * n_cols);
  CHECK(headroom::element_count(Scalar<float>{memory.data()}) == 1);
}

TEST_CASE("views stand beside other nodes of a tree") {
  std::vector<float> memory((n_rows + 1) * n_cols, 1.0F);
  std::map<std::string, Layer> layers{{"a", {{memory.data()}, 3.0F}}};
  const auto tree = std::make_pair(std::ref(layers), 4.0F);
  CHECK(support::paths_of(tree) ==
        std::vector<std::string>{"first[\"a\"].weight", "first[\"a\"].bias", "second"});
  CHECK(headroom::measure(tree).max_abs == 4.0);
}

TEST_CASE("other types with extent, stride and data are not taken for views") {
  CHECK(headroom::detail::node_kind_v<Matrix> == headroom::detail::node_kind::unknown);
}
