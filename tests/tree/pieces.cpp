// Verbs on tensors with gaps and any order of dimensions reach every element once, and nothing between them.
#include <headroom/headroom.hpp>

#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/strided.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::half;
using headroom::detail::LoopNest;
using support::Strided;

namespace {

constexpr std::ptrdiff_t base = 4000;  // of the first element; the store has space on both sides
constexpr float gap = -1.0F;

struct Case {
  const char* name;
  std::vector<std::ptrdiff_t> shape, strides;
};
const Case cases[] = {
    {"scalar", {}, {}},
    {"vector", {7}, {1}},
    {"row major", {3, 5}, {5, 1}},
    {"column major", {3, 5}, {1, 3}},
    {"rows with a gap", {3, 5}, {8, 1}},
    {"every second", {7}, {2}},
    {"exactly a buffer", {256}, {2}},
    {"every second column of every second row", {3, 5}, {20, 2}},
    {"column major with both gaps", {3, 5}, {2, 9}},
    {"backwards", {7}, {-1}},
    {"backwards with gaps", {300}, {-3}},
    {"mirrored", {3, 5}, {5, -1}},
    {"three dimensions, permuted", {2, 3, 4}, {4, 8, 1}},
    {"three dimensions with gaps", {2, 3, 4}, {100, 10, 2}},
    {"a dimension of one", {3, 1, 5}, {5, 77, 1}},
    {"five dimensions", {2, 1, 2, 3, 2}, {60, 5, 30, 7, 3}},
};

/// A tensor of the case's layout in a store filled with `gap`. Elements are numbered from 1 in row-major order.
template <class T>
struct Filled {
  std::vector<T> store = std::vector<T>(2 * base, T(gap));
  Strided<T> tensor;

  explicit Filled(const Case& layout) : tensor{store.data() + base, layout.shape, layout.strides} {
    for (std::size_t i = 0; i < tensor.size(); ++i) tensor.at(i) = T(static_cast<float>(i + 1));
  }
  Filled(const Filled&) = delete;
  Filled& operator=(const Filled&) = delete;

  /// Whether the elements are factor * (1, 2, 3, …), and everything between them is still `gap`.
  [[nodiscard]] bool holds(float factor) const {
    Filled expected({"", tensor.shape, tensor.strides});
    for (std::size_t i = 0; i < tensor.size(); ++i) expected.tensor.at(i) = T(factor * static_cast<float>(i + 1));
    return support::bits_of(store) == support::bits_of(expected.store);
  }
};

const headroom::ConstantLossScale two(2.0F);

/// The reversed layout for the same shape: a row-major matrix becomes column-major.
Case transposed(const Case& layout) {
  Case result{layout.name, layout.shape, std::vector<std::ptrdiff_t>(layout.shape.size())};
  std::ptrdiff_t stride = 2;
  for (std::size_t d = 0; d < layout.shape.size(); ++d) {
    result.strides[d] = stride;
    stride *= layout.shape[d];
  }
  return result;
}

}  // namespace

TEST_CASE("a strided tensor is changed in place, its gaps are not") {
  for (const Case& layout : cases) {
    INFO(layout.name);
    Filled<float> filled(layout);
    two.scale_in_place(filled.tensor);
    CHECK(filled.holds(2.0F));
    const auto report = two.unscale_in_place(filled.tensor);
    CHECK(filled.holds(1.0F));
    CHECK(report.max_abs == static_cast<double>(filled.tensor.size()));
    Filled<half> halves(layout);
    two.scale_in_place(halves.tensor, headroom::parallel(2));
    CHECK(halves.holds(2.0F));
  }
}

TEST_CASE("a strided tensor is only read by the verbs that read") {
  for (const Case& layout : cases) {
    INFO(layout.name);
    Filled<float> filled(layout);
    const auto n = static_cast<double>(filled.tensor.size());
    const auto found = headroom::measure(filled.tensor);
    CHECK(found.max_abs == n);
    CHECK(found.norm == Catch::Approx(std::sqrt(n * (n + 1) * (2 * n + 1) / 6)).epsilon(1e-14));
    CHECK(headroom::all_finite(filled.tensor));
    CHECK(filled.holds(1.0F));
    // Inf between the elements does not count.
    for (float& element : filled.store) {
      if (support::bits_of(element) == support::bits_of(gap)) support::set_bits(element, headroom::binary32::infinity_bits);
    }
    CHECK(headroom::all_finite(filled.tensor));
    // Inf is found at each element.
    std::size_t missed = 0;
    for (std::size_t i = 0; i < filled.tensor.size(); ++i) {
      const auto before = support::bits_of(filled.tensor.at(i));
      support::set_bits(filled.tensor.at(i), headroom::binary32::infinity_bits);
      missed += headroom::all_finite(filled.tensor) ? 1 : 0;
      support::set_bits(filled.tensor.at(i), before);
    }
    CHECK(missed == 0);
  }
}

TEST_CASE("elements go to their own positions, whatever the two layouts are") {
  for (const Case& layout : cases) {
    for (const Case& other : {layout, transposed(layout)}) {
      INFO(layout.name);
      Filled<float> source(layout);
      Filled<half> destination(other);
      two.scale_in_place(destination.tensor);
      const auto report = two.unscale_into(source.tensor, destination.tensor);
      CHECK(destination.holds(0.5F));
      CHECK(source.holds(1.0F));
      CHECK(report.max_abs == static_cast<double>(source.tensor.size()) / 2);
      Filled<float> back(layout);
      headroom::cast_into(destination.tensor, back.tensor, headroom::parallel(2));
      CHECK(back.holds(0.5F));
    }
  }
}

TEST_CASE("a tensor that repeats elements is read, and refused where it would be written") {
  std::vector<float> store = {1.0F, 2.0F, 3.0F};
  const Strided<float> broadcast{store.data(), {4, 3}, {0, 1}};
  CHECK(headroom::measure(broadcast).norm == Catch::Approx(std::sqrt(56.0)));
  CHECK(two.unscale(std::vector<Strided<float>>{}).grads.empty());
  std::vector<float> destination_store(12);
  headroom::cast_into(broadcast, Strided<float>{destination_store.data(), {4, 3}, {3, 1}});
  CHECK(destination_store == std::vector<float>{1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3});

  const auto says_so = ContainsSubstring("repeats elements");
  CHECK_THAT(support::message_of([&] { two.scale_in_place(broadcast); }), says_so);
  CHECK_THAT(support::message_of([&] { headroom::cast_into(broadcast, broadcast); }), says_so);
  CHECK(store == std::vector<float>{1.0F, 2.0F, 3.0F});
  // A stride of 0 does not matter if there is only one element.
  CHECK(support::message_of([&] { two.scale_in_place(Strided<float>{store.data(), {1, 3}, {0, 1}}); }) == "");
}

TEST_CASE("no tensor that reaches an element twice is written, and every view of a dense one is") {
  // All shapes and strides of three dimensions within these bounds, compared with a set of the elements that they reach.
  int written = 0;
  for (int code = 0; code < 3 * 3 * 3 * 17 * 17 * 17; ++code) {
    std::ptrdiff_t shape[3], stride[3];
    int rest = code;
    headroom::Layout layout;
    std::set<std::ptrdiff_t> reached;
    for (int i = 0; i < 3; ++i, rest /= 3) shape[i] = 1 + rest % 3;
    for (int i = 0; i < 3; ++i, rest /= 17) stride[i] = rest % 17 - 8;
    for (int i = 0; i < 3; ++i) layout.push(shape[i], stride[i]);
    for (std::ptrdiff_t a = 0; a < shape[0]; ++a) {
      for (std::ptrdiff_t b = 0; b < shape[1]; ++b) {
        for (std::ptrdiff_t c = 0; c < shape[2]; ++c) reached.insert(a * stride[0] + b * stride[1] + c * stride[2]);
      }
    }
    const bool repeats = static_cast<std::ptrdiff_t>(reached.size()) != layout.size();
    if (repeats && !LoopNest(layout, layout).repeats_elements()) FAIL("not noticed: code " << code);
    written += LoopNest(layout, layout).repeats_elements() ? 0 : 1;
  }
  CHECK(written > 10000);
}

TEST_CASE("tensors without elements") {
  for (const Case& layout : {Case{"none", {0}, {1}}, Case{"no rows", {0, 3}, {3, 1}}, Case{"no columns", {3, 0}, {5, 2}}}) {
    INFO(layout.name);
    Filled<float> filled(layout);
    two.scale_in_place(filled.tensor);
    CHECK(filled.holds(1.0F));
    CHECK(headroom::measure(Strided<float>{nullptr, layout.shape, layout.strides}).norm == 0.0);
    headroom::cast_into(filled.tensor, filled.tensor);
  }
}

TEST_CASE("a tensor of more dimensions than there may be is refused") {
  std::vector<float> store(1 << 17, 1.0F);
  std::vector<std::ptrdiff_t> shape(16, 2), strides(16);
  for (std::size_t d = 0; d < 16; ++d) strides[d] = std::ptrdiff_t{1} << d;
  CHECK(headroom::measure(Strided<float>{store.data(), shape, strides}).norm == 256.0);
  shape.push_back(2);
  strides.push_back(1 << 16);
  const std::string says = " has 17 dimensions, not counting those of one element; there may be 16";
  const Strided<float> tensor{store.data(), shape, strides};
  std::pair<std::vector<float>, Strided<float>> tree{{1.0F}, tensor};
  CHECK(support::message_of([&] { two.scale_in_place(tree); }) == "headroom: second" + says);
  CHECK(tree.first[0] == 1.0F);
  std::vector<half> flat(1 << 17);
  CHECK(support::message_of([&] { headroom::cast_into(tensor, flat); }) == "headroom: the source" + says);
  CHECK(support::message_of([&] { headroom::cast_into(flat, tensor); }) == "headroom: the destination" + says);
}

TEST_CASE("a tensor type that cannot be made anew is changed in place, copied into, and moved through") {
  support::Bare<float> tensor{{2.0F, 4.0F}};
  CHECK(two.unscale_in_place(tensor).max_abs == 2.0);
  support::Bare<half> halves{{half(0.0F), half(0.0F)}};
  headroom::cast_into(tensor, halves);
  CHECK(halves.elements == std::vector<half>{half(1.0F), half(2.0F)});
  const auto doubled = two.scale(tensor);
  CHECK(doubled.elements == std::vector<float>{2.0F, 4.0F});
  CHECK(tensor.elements == std::vector<float>{1.0F, 2.0F});
  CHECK_FALSE(headroom::find_nonfinite(std::vector<support::Bare<float>>{tensor}).has_value());
}
