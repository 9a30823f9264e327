// Tensors whose dtype is known only at run time, as in libtorch: branch_kind::dynamic, without a
// library.

#include <headroom/headroom.hpp>

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace headroom;

namespace {

/// Elements of one of three types, which copies share. Null is an undefined array.
struct Array {
  using Elements = std::variant<std::vector<float>, std::vector<half>, std::vector<int>>;
  std::shared_ptr<Elements> elements;
  int scaled = 0;  // the number of `scaled` calls that led to it

  template <class T>
  Array(std::vector<T> values) : elements(std::make_shared<Elements>(std::move(values))) {}
  Array() = default;

  template <class T>
  [[nodiscard]] const std::vector<T>& as() const {
    return std::get<std::vector<T>>(*elements);
  }
};

}  // namespace

template <>
struct headroom::tree_traits<Array> {
  static constexpr branch_kind kind = branch_kind::dynamic;

  static any_tensor view(const Array& array) {
    if (array.elements == nullptr) return {nullptr, dtype_code::int32, 0};
    return std::visit(
        [](auto& elements) {
          using T = typename std::decay_t<decltype(elements)>::value_type;
          const auto code = std::is_same_v<T, float>  ? dtype_code::fp32
                            : std::is_same_v<T, half> ? dtype_code::fp16
                                                      : dtype_code::int32;
          return any_tensor(elements.data(), code, elements.size());
        },
        *array.elements);
  }
  template <class To>
  static Array like(const Array& array) {
    if (array.elements == nullptr) return array;
    return std::visit(
        [&](auto& elements) {
          using T = typename std::decay_t<decltype(elements)>::value_type;
          if constexpr (std::is_integral_v<T>) {
            return Array(elements);
          } else {
            return Array(std::vector<std::conditional_t<std::is_same_v<To, same_dtype>, T, To>>(
                elements.size()));
          }
        },
        *array.elements);
  }
  static Array scaled(const Array& array, float factor) {
    Array result = like<same_dtype>(array);
    (void)ConstantLossScale(1.0F / factor).unscale_into(array, result);
    result.scaled = array.scaled + 1;
    return result;
  }
};

namespace {

struct Model {
  Array weight, bias;
};
HEADROOM_TREE(Model, weight, bias)

std::vector<half> halves(std::vector<float> values) { return cast<half>(values); }

}  // namespace

TEST_CASE("a dynamic node is a leaf of the dtype it has, or none") {
  const std::vector<Array> arrays = {Array(std::vector<float>{1.0F, 2.0F}), Array(halves({3.0F})),
                                     Array(std::vector<int>{7}), Array()};
  CHECK(leaf_count(arrays) == 2);
  CHECK(element_count(arrays) == 3);
  CHECK(measure(arrays).max_abs == 3.0);
  std::string paths;
  for_each_leaf_with_path(Model{arrays[0], arrays[1]}, [&](const std::string& path, auto& leaf) {
    paths += path + ":" + std::to_string(sizeof(*leaf.data())) + " ";
  });
  CHECK(paths == "weight:4 bias:2 ");
  CHECK_THAT(
      support::logic_error_of([&] { (void)ConstantLossScale(2.0F).unscale_in_place(arrays); }),
      ContainsSubstring("[1]: fp16 and 8-bit gradients that are unscaled in place become 0"));
  CHECK(arrays[0].as<float>() == std::vector<float>{1.0F, 2.0F});
  CHECK(ConstantLossScale(2.0F).unscale_in_place<allow_fp16_gradients>(arrays).max_abs == 1.5);
  CHECK(arrays[0].as<float>() == std::vector<float>{0.5F, 1.0F});
  CHECK(arrays[1].as<half>() == halves({1.5F}));
  CHECK(arrays[2].as<int>() == std::vector<int>{7});
}

TEST_CASE("new trees with dynamic nodes have elements of their own") {
  const Model model{Array(std::vector<float>{1.0F, 2.0F}), Array(halves({3.0F}))};
  const Model narrow = cast<half>(model);
  CHECK(narrow.weight.as<half>() == halves({1.0F, 2.0F}));
  CHECK(narrow.bias.as<half>() == halves({3.0F}));
  CHECK(narrow.bias.elements != model.bias.elements);
  const auto [grads, report] = ConstantLossScale(2.0F).unscale(model);
  CHECK(grads.bias.as<float>() == std::vector<float>{1.5F});
  CHECK(grads.weight.as<float>() == std::vector<float>{0.5F, 1.0F});
  CHECK(model.bias.as<half>() == halves({3.0F}));
  const Model same = ConstantLossScale(2.0F).unscale<same_dtype>(model).grads;
  CHECK(same.bias.as<half>() == halves({1.5F}));
  CHECK(NoOpLossScale().unscale<float>(model).grads.bias.as<float>() == std::vector<float>{3.0F});
}

TEST_CASE("two trees may have other dtypes, but not other structures") {
  const std::vector<Array> source = {Array(std::vector<float>{4.0F}), Array(halves({8.0F}))};
  const std::vector<Array> swapped = {Array(halves({0.0F})), Array(std::vector<float>{0.0F})};
  (void)ConstantLossScale(2.0F).unscale_into(source, swapped);
  CHECK(swapped[0].as<half>() == halves({2.0F}));
  CHECK(swapped[1].as<float>() == std::vector<float>{4.0F});
  std::vector<std::vector<half>> plain = {{half(0.0F)}, {half(0.0F)}};
  cast_into(source, plain);
  CHECK(plain[1] == halves({8.0F}));
  cast_into(plain, swapped);
  CHECK(swapped[1].as<float>() == std::vector<float>{8.0F});

  for (const Array& other : {Array(std::vector<int>{7}), Array()}) {
    const std::vector<Array> wrong = {source[0], other};
    CHECK_INVALID("the trees differ at [1]", cast_into(source, wrong));
    CHECK_INVALID("the trees differ at [1]", cast_into(wrong, plain));
  }
  CHECK(source[0].as<float>() == std::vector<float>{4.0F});
}

TEST_CASE("scaling replaces dynamic nodes by what their library makes of them") {
  const Array array(std::vector<float>{1.0F});
  const auto [model, number, count] = ConstantLossScale(4.0F).scale(
      std::make_tuple(Model{array, Array()}, std::vector<float>{2.0F}, 3));
  CHECK(model.weight.scaled == 1);
  CHECK(model.weight.as<float>() == std::vector<float>{4.0F});
  CHECK(model.bias.elements == nullptr);
  CHECK(number == std::vector<float>{8.0F});
  CHECK(count == 3);
  CHECK(array.as<float>() == std::vector<float>{1.0F});
  GradScaler<> disabled(DynamicLossScale(), false);
  CHECK(disabled.scale(array).elements == array.elements);
}
