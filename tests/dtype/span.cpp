#include <headroom/dtype/half.hpp>
#include <headroom/dtype/span.hpp>

#include <array>
#include <deque>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

using namespace headroom;

static_assert(std::is_trivially_copyable_v<span<float>>);
static_assert(std::is_same_v<span<const half>::element_type, const half> &&
              std::is_same_v<span<const half>::value_type, half>);

TEST_CASE("an empty span", "[dtype]") {
  constexpr span<float> nothing;
  static_assert(nothing.empty() && nothing.size() == 0 && nothing.data() == nullptr &&
                nothing.begin() == nothing.end());
  constexpr span<const half> null_of_size_0(nullptr, 0);
  static_assert(null_of_size_0.empty());
  const std::vector<float> no_floats;
  CHECK(span(no_floats).empty());
}

TEST_CASE("what a span is made from, and of which element type it is then", "[dtype]") {
  std::vector<float> vector{1, 2, 3};
  const std::vector<float> const_vector{1, 2, 3};
  std::array<half, 4> array{};
  double c_array[5] = {};
  const double const_c_array[5] = {};
  static_assert(std::is_same_v<decltype(span(vector)), span<float>>);
  static_assert(std::is_same_v<decltype(span(const_vector)), span<const float>>);
  static_assert(std::is_same_v<decltype(span(array)), span<half>>);
  static_assert(std::is_same_v<decltype(span(c_array)), span<double>>);
  static_assert(std::is_same_v<decltype(span(const_c_array)), span<const double>>);
  static_assert(std::is_same_v<decltype(span(vector.data(), vector.size())), span<float>>);
  static_assert(std::is_same_v<decltype(span(span<const float>())), span<const float>>,
                "a copy, not a span of spans");

  CHECK((span(vector).data() == vector.data() && span(vector).size() == 3));
  CHECK((span(const_vector).data() == const_vector.data() && span(array).data() == array.data() &&
         span(array).size() == 4));
  CHECK((span(c_array).data() == c_array && span(c_array).size() == 5));
}

// What a span is not made from.
static_assert(std::is_convertible_v<std::vector<float>&, span<const float>> &&
              std::is_convertible_v<span<float>, span<const float>>);
static_assert(!std::is_constructible_v<span<float>, const std::vector<float>&>, "const is kept");
template <class Container>
using deduced = decltype(span{std::declval<Container>()});
static_assert(std::is_same_v<deduced<const std::vector<float>&>, span<const float>>);
static_assert(std::is_same_v<deduced<std::vector<float>&>, span<float>> &&
              std::is_same_v<deduced<span<int>>, span<int>>);
static_assert(!detail::is_detected_v<deduced, std::vector<float>>,
              "it would outlive its elements, as std::span");
static_assert(!std::is_constructible_v<span<float>, span<const float>>);
static_assert(!std::is_constructible_v<span<float>, std::vector<double>&> &&
              !std::is_constructible_v<span<float>, std::vector<half>&>);
static_assert(!std::is_constructible_v<span<float>, std::deque<float>&>, "not contiguous");
static_assert(!std::is_constructible_v<span<bool>, std::vector<bool>&>);
struct Base {};
struct Derived : Base {};
static_assert(!std::is_constructible_v<span<Base>, std::vector<Derived>&>,
              "the elements are further apart");
static_assert(!std::is_constructible_v<span<float>, float&> &&
              !std::is_constructible_v<span<float>, float*>);

TEST_CASE("elements are read, written and walked", "[dtype]") {
  std::vector<float> values{1, 2, 3, 4};
  const span<float> view(values);
  view[2] = 10.0F;
  float sum = 0.0F;
  for (const float value : span<const float>(view)) sum += value;
  CHECK((values[2] == 10.0F && sum == 17.0F && view.end() - view.begin() == 4));
}

// A span in constant expressions.
static constexpr float values[] = {1.0F, 2.0F};
constexpr span<const float> view(values);
static_assert(view.size() == 2 && view[1] == 2.0F && !view.empty());
