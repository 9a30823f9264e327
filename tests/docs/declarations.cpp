// Surrounds a code block that declares types and functions.
#include <cstdio>
#include <headroom/headroom.hpp>
#include <stdexcept>
#include <type_traits>
#include <vector>

#if __has_include(<armadillo>)
#define ARMA_DONT_USE_WRAPPER
#include <armadillo>
#else
namespace arma {
struct fmat {
  std::size_t n_rows, n_cols, n_elem;
  std::vector<float> elements;
  fmat(std::size_t rows, std::size_t columns)
      : n_rows(rows), n_cols(columns), n_elem(rows * columns), elements(n_elem) {}
  float* memptr() { return elements.data(); }
  const float* memptr() const { return elements.data(); }
  float& operator()(std::size_t i) { return elements[i]; }
};
}  // namespace arma
#endif

#include BLOCK

static_assert(std::is_same_v<decltype(headroom::cast<headroom::half>(Layer<float>())),
                             Layer<headroom::half>>);

/// headroom notices a tensor that is there twice.
int main() {
  std::vector<arma::fmat> tree(2, arma::fmat(2, 3));
  for (arma::fmat& matrix : tree)
    for (std::size_t i = 0; i < 6; ++i) matrix(i) = 8.0F;
  if (headroom::unscale_in_place(tree, 4.0F).max_abs != 2.0 || tree[1](5) != 2.0F) return 1;
  std::vector<std::reference_wrapper<arma::fmat>> twice{tree[0], tree[0]};
  try {
    headroom::scale_in_place(twice, 2.0F);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  std::printf("scaled twice, to %g\n", static_cast<double>(tree[0](0)));
  return 1;
}
