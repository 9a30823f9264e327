#include <headroom/adapters/valarray.hpp>
#include <headroom/headroom.hpp>

#include <cstddef>
#include <utility>
#include <valarray>
#include <vector>

#include "support/adapter_conformance.hpp"
#include "support/catch.hpp"

namespace {

template <class S>
struct Case {
  using value_type = S;
  static constexpr std::size_t rows = 5, cols = 7;
  static std::valarray<S> make() { return std::valarray<S>(rows * cols); }
  template <class T>
  static auto& at(T& tensor, std::size_t i, std::size_t j) {
    return tensor[i * cols + j];
  }
};

}  // namespace

TEST_CASE("std::valarray keeps the contract") {
  conformance::check_all<Case<float>, Case<headroom::half>>();
  conformance::check_all<Case<headroom::half>, Case<double>>();
}

TEST_CASE("an empty valarray is a leaf, one of integers is skipped") {
  std::pair<std::vector<std::valarray<float>>, std::valarray<int>> tree{{{1.0F, 2.0F}, {}, {3.0F}},
                                                                        {7}};
  CHECK(headroom::leaf_count(tree) == 3);
  CHECK(headroom::measure(std::as_const(tree)).max_abs == 3.0);
}
