#include <headroom/headroom.hpp>
#include <headroom/quantize.hpp>
#include <headroom/tree/any_tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/own_formats.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace headroom;
using support::bits_of;

namespace {

using Numbers = std::vector<std::int64_t>;
constexpr dtype_code fp32 = dtype_code::fp32;

template <class T>
constexpr dtype_code code_of = std::is_same_v<T, half>          ? dtype_code::fp16
                               : std::is_same_v<T, bfloat16>    ? dtype_code::bf16
                               : std::is_same_v<T, double>      ? dtype_code::fp64
                               : std::is_same_v<T, float8_e4m3> ? dtype_code::fp8_e4m3
                               : std::is_same_v<T, float8_e5m2> ? dtype_code::fp8_e5m2
                                                                : fp32;

/// Calls f with an element of each dtype of an any_tensor.
template <class F>
void for_each_dtype(const F& f) {
  std::apply([&](auto... elements) { (f(elements), ...); },
             std::tuple<float, half, bfloat16, double, float8_e4m3, float8_e5m2>());
}

/// Dimensions and strides of a random tensor: row-major, transposed, with gaps, or flat.
struct Shape {
  Numbers dimensions, strides;
  std::size_t extent = 1;  // elements from the first to the last
  bool is_row_major;

  Shape(std::mt19937& random, const Numbers& sizes)
      : dimensions(sizes), strides(sizes.size()), is_row_major(random() % 3 == 0) {
    std::vector<std::size_t> order;
    for (std::size_t d = sizes.size(); d-- > 0;) order.push_back(d);
    if (!is_row_major) std::shuffle(order.begin(), order.end(), random);
    std::int64_t stride = 1;
    for (const std::size_t d : order) {
      if (!is_row_major && random() % 4 == 0) stride += static_cast<std::int64_t>(random() % 3);
      strides[d] = stride;
      stride *= sizes[d] == 0 ? 1 : sizes[d];
    }
    for (std::size_t d = 0; d < sizes.size(); ++d)
      extent += static_cast<std::size_t>((sizes[d] - 1) * strides[d]) * (sizes[d] != 0);
  }
};
Numbers random_sizes(std::mt19937& random) {
  Numbers sizes(random() % 4);
  for (std::int64_t& size : sizes)
    size = random() % 12 == 0 ? static_cast<std::int64_t>(random() % 2)
                              : 1 + static_cast<std::int64_t>(random() % 9);
  return sizes;
}

/// One tensor in memory of its own, as a type known at compile time and as an any_tensor.
template <class T>
struct Both {
  Shape shape;
  std::vector<T> memory, copy;

  Both(std::mt19937& random, const Numbers& sizes) : shape(random, sizes), memory(shape.extent) {
    for (T& element : memory)
      support::set_bits(element, support::random_bits<detail::format_of<T>>(random));
    copy = memory;
  }
  [[nodiscard]] support::Strided<T> typed() {
    return {memory.data(),
            {shape.dimensions.begin(), shape.dimensions.end()},
            {shape.strides.begin(), shape.strides.end()}};
  }
  [[nodiscard]] any_tensor any() {
    if (shape.is_row_major) return {copy.data(), code_of<T>, shape.dimensions};
    return {copy.data(), code_of<T>, shape.dimensions, shape.strides};
  }
  [[nodiscard]] bool are_equal() const { return bits_of(memory) == bits_of(copy); }
};
template <class Tree>
GradientReport unscaled_in_place(const Tree& tree, float scale) {
  return unscale_in_place<allow_fp16_gradients>(tree, scale);
}
bool are_equal(const GradientReport& a, const GradientReport& b) {
  return a.finite == b.finite && bits_of(a.max_abs) == bits_of(b.max_abs);
}

}  // namespace

TEST_CASE("verbs on one tree do the same for an any_tensor as for a tensor of a static dtype") {
  std::mt19937 random(support::seed);
  for_each_dtype([&](auto element) {
    using T = decltype(element);
    for (int run = 0; run < support::cases(60); ++run) {
      Both<T> a(random, random_sizes(random)), b(random, random_sizes(random));
      std::vector<support::Strided<T>> typed = {a.typed(), b.typed()};
      const std::map<std::string, any_tensor> any = {{"a", a.any()}, {"b", b.any()}};
      const float scale = run % 2 == 0 ? 8.0F : 3.0F;
      CHECK(are_equal(measure(typed), measure(any)));
      CHECK(bits_of(global_norm(typed)) == bits_of(global_norm(any)));
      CHECK(are_equal(unscaled_in_place(typed, scale), unscaled_in_place(any, scale)));
      CHECK((a.are_equal() && b.are_equal()));
      const auto place = find_nonfinite(typed), found = find_nonfinite(any);
      REQUIRE(place.has_value() == found.has_value());
      if (place)
        CHECK(std::tie(place->leaf, place->index, place->nan_count) ==
              std::tie(found->leaf, found->index, found->nan_count));
      if (place) CHECK(found->path == (place->leaf == 0 ? "[\"a\"]" : "[\"b\"]"));
    }
  });
}

TEST_CASE("verbs from one tree into another do the same for each pair of dtypes and any strides") {
  std::mt19937 random(support::seed);
  for_each_dtype([&](auto from) {
    for_each_dtype([&](auto to) {
      for (int run = 0; run < support::cases(20); ++run) {
        const Numbers sizes = random_sizes(random);
        Both<decltype(from)> source(random, sizes);
        Both<decltype(to)> destination(random, sizes);
        const auto there = destination.any();
        CHECK(are_equal(unscale_into(source.typed(), destination.typed(), 3.0F),
                        unscale_into(source.any(), there, 3.0F)));
        CHECK(destination.are_equal());
        CHECK(are_equal(accumulate_into(source.typed(), destination.typed(), 0.5F),
                        accumulate_into(source.any(), there, 0.5F)));
        CHECK(destination.are_equal());
        cast_into(source.typed(), destination.typed(), saturate);
        // One of them of a static dtype
        cast_into(source.typed(), there, saturate);
        CHECK(destination.are_equal());
        cast_into(source.typed(), destination.typed());
        cast_into(source.any(), destination.typed());
        std::swap(destination.memory, destination.copy);
        cast_into(source.typed(), destination.typed());
        CHECK(destination.are_equal());
      }
    });
  });
}

TEST_CASE("quantize_into writes the fp8 dtype that an any_tensor has, and no other") {
  std::vector<float> values = {1.0F, -3.0F, 1000.0F}, scales = {0.5F}, max_abs = {0.0F};
  std::vector<float8_e5m2> expected(3), codes(3);
  const any_tensor from(values.data(), fp32, 3);
  (void)quantize_into(values, expected, scales, max_abs);
  CHECK(quantize_into(from, any_tensor(codes.data(), dtype_code::fp8_e5m2, 3), scales, max_abs)
            .max_abs == 1000.0);
  CHECK(bits_of(codes) == bits_of(expected));
  dequantize_into(any_tensor(codes.data(), dtype_code::fp8_e5m2, 3), values,
                  std::vector<float>{2.0F});
  CHECK(values == std::vector<float>{1.0F, -3.0F, 1024.0F});
  CHECK_INVALID("the destination has a dtype that this verb does not write",
                quantize_into(from, from, scales, max_abs));
}

TEST_CASE("integers are left alone, and face only integers") {
  std::vector<float> values = {2.0F, 4.0F}, elsewhere = {7.0F, 7.0F};
  std::vector<std::int32_t> integers = {0x7F800000, -1};
  for (const std::uint32_t code : {0x020U, 0x008U, 0x140U, 0x608U}) {  // int32, int8, uint64, bool
    const auto dtype = static_cast<dtype_code>(code);
    const std::vector<any_tensor> tree = {
        {integers.data(), dtype, 2}, {values.data(), fp32, 2}, {nullptr, dtype, 9}};
    CHECK(leaf_count(tree) == 1);
    CHECK(unscale_in_place(tree, 1.0F).max_abs == 4.0);
    const std::vector<any_tensor> other = {
        {nullptr, dtype, 1}, {elsewhere.data(), fp32, 2}, {nullptr, dtype, 1}};
    CHECK(unscale_into(tree, other, 2.0F).max_abs == 2.0);
    CHECK(elsewhere == std::vector<float>{1.0F, 2.0F});
    const std::vector<any_tensor> turned = {tree[1], tree[0], tree[2]};
    CHECK_INVALID("the trees differ at [0]: a floating-point tensor faces something else",
                  cast_into(tree, turned));
  }
  CHECK(integers == std::vector<std::int32_t>{0x7F800000, -1});
  values[1] = -std::numeric_limits<float>::infinity();
  const auto found = find_nonfinite(std::pair(any_tensor(integers.data(), dtype_code::int32, 2),
                                              any_tensor(values.data(), fp32, 2)));
  CHECK((found && found->path == "second" && found->leaf == 0 && found->index == 1));
}

TEST_CASE("what is wrong with an any_tensor is said by path, and nothing is written") {
  std::vector<float> values = {2.0F, 4.0F}, more(6, 1.0F);
  const Numbers shape = {2, 3};
  const auto message = [&](const any_tensor& wrong) {
    const std::vector<any_tensor> tree = {{values.data(), fp32, 2}, wrong};
    std::string text = MESSAGE_OF(unscale_in_place(tree, 2.0F));
    CHECK(values == std::vector<float>{2.0F, 4.0F});
    CHECK(more == std::vector<float>(6, 1.0F));
    return text;
  };
  any_tensor tensor(more.data(), fp32, shape);
  const auto with = [&tensor](auto any_tensor::*member, auto value) {
    any_tensor changed = tensor;
    changed.*member = value;
    return changed;
  };
  CHECK(message(with(&any_tensor::dtype, static_cast<dtype_code>(0x540))) ==
        "headroom: [1] has a dtype that is not supported: dtype code 5 of 64 bits, size 6, ndim 2, "
        "shape 2x3");
  const auto check = [&](const std::string& words, const any_tensor& wrong) {
    CHECK_THAT(message(wrong), StartsWith("headroom: [1] " + words));
  };
  const std::int64_t huge = std::int64_t{1} << 40;
  const auto complex = static_cast<dtype_code>(0x220 | 1 << 16);
  check("has a dtype that is not supported", with(&any_tensor::dtype, dtype_code{}));
  check("has a dtype that is not supported", with(&any_tensor::dtype, complex));
  check("has a negative shape: dtype code 2 of 32 bits, size 2, ndim 3, shape 2x-3",
        {more.data(), fp32, {1, 2, -3}});
  check("has a negative shape", {more.data(), fp32, std::vector<std::size_t>{2, SIZE_MAX}});
  check("has a shape that is too large", {more.data(), fp32, {huge, huge}});
  check("has not as many strides as dimensions: dtype code 2 of 32 bits, size 6, ndim 2",
        {more.data(), fp32, shape, Numbers{1}});
  check("has 17 dimensions, not counting those of one element; there may be 16",
        {more.data(), fp32, Numbers(17, 2)});
  check("repeats elements", {more.data(), fp32, shape, {3, 0}});
  check("is far away: dtype code 2", with(&any_tensor::obstacle, "is far away"));
  any_tensor resized(more.data(), fp32, shape, {1, 2});
  resized.size = 40;
  check("has a size of 40, and a shape of 2x3", resized);
  CHECK_INVALID("the destination has a size of 40, and a shape of 2x3",
                cast_into(std::vector<float>(40), resized));
  CHECK(message(with(&any_tensor::data, nullptr)) == "headroom: [1] is null, with a size of 6");
  CHECK(message(with(&any_tensor::is_read_only, true)) == "headroom: [1] is read-only");
  CHECK_THAT(message(any_tensor(values.data(), dtype_code::bf16, 4)),
             ContainsSubstring("[0] and [1] share elements"));

  const any_tensor read_only = with(&any_tensor::is_read_only, true);
  CHECK(measure(read_only).max_abs == 1.0);
  std::vector<float> target(6, 9.0F);
  CHECK(unscale_into(read_only, target, 1.0F).max_abs == 1.0);
  CHECK_INVALID("the destination is read-only", cast_into(target, read_only));
  CHECK_INVALID("the destination has a dtype that is not supported",
                cast_into(target, with(&any_tensor::dtype, complex)));
  CHECK_INVALID("the tree is read-only",
                for_each_leaf(read_only, [](auto& leaf) { scale_in_place(leaf, 2.0); }));
  const Numbers empty = {0, std::int64_t{1} << 40, std::int64_t{1} << 40}, steps = {1, 1, 1};
  CHECK(unscale_in_place(any_tensor(nullptr, fp32, empty, steps), 2.0F).finite);
  const Numbers extreme = {INT64_MAX, INT64_MIN, INT64_MIN};
  CHECK(unscale_in_place(any_tensor(nullptr, fp32, empty, extreme), 2.0F).finite);
  const Numbers other = {3, 2};
  CHECK_INVALID("the source is 2x3, the destination is 3x2",
                cast_into(tensor, any_tensor(target.data(), fp32, other)));
  std::vector<float> five(5);
  CHECK_INVALID("the source is 2x3, the destination is 5", cast_into(tensor, five));
  CHECK_INVALID("source and destination overlap",
                cast_into(tensor, any_tensor(more.data() + 1, fp32, shape)));
  CHECK(more == std::vector<float>(6, 1.0F));
}

TEST_CASE("shapes and strides are of any integer type, and need not outlive the constructor") {
  std::vector<float> memory(12);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  const auto check = [&](const auto& shape, const auto& strides) {
    using Shape = std::decay_t<decltype(shape)>;
    const auto view = [&](const Shape& of) {
      const Shape local(of);  // gone when the view is used
      return any_tensor(memory.data(), fp32, local);
    };
    std::vector<float> out(12);
    CHECK(unscale_into(std::vector{view(shape)}, std::vector{std::ref(out)}, 1.0F).max_abs == 11.0);
    CHECK(out == memory);
    std::vector<float> turned(12);
    cast_into(any_tensor(memory.data(), fp32, shape, strides),
              any_tensor(turned.data(), fp32, shape));
    CHECK(turned == std::vector<float>{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11});
  };
  check(std::vector<std::size_t>{3, 4}, std::vector<int>{1, 3});
  check(std::vector<int>{3, 4}, std::array<short, 2>{1, 3});
  check(std::array<unsigned char, 2>{3, 4}, std::vector<std::ptrdiff_t>{1, 3});
  check(std::array<std::uint64_t, 3>{3, 1, 4}, std::array<std::int8_t, 3>{1, 99, 3});
  const any_tensor braces(memory.data(), fp32, {3, 4}, {1, 3}), flat(memory.data(), fp32, 12);
  CHECK((braces.size == 12 && !braces.is_dense() && braces.layout().shape_text() == "3x4" &&
         braces.layout().stride(1) == 3));
  CHECK((flat.is_dense() && flat.layout().shape_text() == "12"));
  const any_tensor scalar(memory.data(), fp32, {}), none;
  CHECK((none.ndim == 0 && flat.ndim == 0 && braces.ndim == 2));
  CHECK((scalar.size == 1 && none.size == 0 && measure(std::vector{scalar, none}).finite));
  static_assert(!std::is_constructible_v<any_tensor, float*, dtype_code, std::vector<float>>);
  std::vector<any_tensor> copies{braces, flat};
  copies.insert(copies.begin(), copies[1]);
  CHECK(copies[1].layout().same_shape(braces.layout()));
}

TEST_CASE("a flat tensor stands for a matrix with as many elements and no gaps, and for no other") {
  std::vector<float> values(16), there(8);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::vector<float> first(values.begin(), values.begin() + 8);
  const any_tensor flat(values.data(), fp32, 8), vector(values.data(), fp32, {8}),
      matrix(values.data(), fp32, {2, 4});
  const any_tensor to_flat(there.data(), fp32, 8), to_matrix(there.data(), fp32, {2, 4});
  for (const any_tensor& from : {flat, vector, matrix}) {
    for (const any_tensor& to : {to_flat, any_tensor(there.data(), fp32, {8}), to_matrix}) {
      there.assign(8, -1.0F);
      cast_into(from, to);
      CHECK(there == first);
    }
  }
  there.assign(8, -1.0F);
  const any_tensor gaps(values.data(), fp32, {2, 4}, {8, 1});
  any_tensor wrong_ndim = gaps;
  wrong_ndim.ndim = 0;  // only for messages
  for (const any_tensor& wrong :
       {gaps, wrong_ndim, any_tensor(values.data(), fp32, {9}), any_tensor(values.data(), fp32, 7)})
    CHECK_INVALID("the trees differ", cast_into(wrong, to_flat));
  for (const any_tensor& wrong :
       {any_tensor(values.data(), fp32, {2, 2, 2}), any_tensor(values.data(), fp32, {4, 2})})
    CHECK_INVALID("the trees differ", cast_into(wrong, to_matrix));
  CHECK(there == std::vector<float>(8, -1.0F));
  CHECK((flat.is_dense() && vector.is_dense() && matrix.is_dense() && !gaps.is_dense()));
  CHECK((flat.same_shape(to_flat) && !flat.same_shape(matrix) &&
         !flat.same_shape(any_tensor(values.data(), fp32, 7))));
}

TEST_CASE("an any_tensor stands beside tensors of static dtypes, also of a user's own") {
  std::vector<float> values = {1.5F, -2.0F}, wide(2);
  std::vector<support::own8> own(2), expected(2);
  cast_into(any_tensor(values.data(), fp32, 2), own);
  cast_into(values, expected);
  CHECK(bits_of(own) == bits_of(expected));
  cast_into(own, any_tensor(wide.data(), fp32, 2));
  CHECK(wide == values);
  const auto pair =
      std::make_tuple(any_tensor(values.data(), fp32, 2), std::vector<half>{half(8.0F)}, 3);
  CHECK(measure(pair).max_abs == 8.0);
  std::vector<std::vector<float>> lists(2);
  CHECK_INVALID("a floating-point tensor faces something else",
                cast_into(any_tensor(values.data(), fp32, 2), lists));
}

TEST_CASE("for_each_leaf passes a view with the elements of an any_tensor") {
  std::vector<half> values = {half(1.0F), half(2.0F)};
  const Numbers shape = {2, 1};
  int count = 0;
  for_each_leaf(std::vector<any_tensor>{{values.data(), dtype_code::fp16, shape},
                                        {nullptr, dtype_code::int64, 3}},
                [&](auto& leaf) {
                  using T = typename tensor_traits<std::decay_t<decltype(leaf)>>::value_type;
                  CHECK((std::is_same_v<T, half> && leaf.size() == 2 &&
                         static_cast<const void*>(leaf.data()) == values.data()));
                  ++count;
                });
  CHECK(count == 1);
  double sum = 0.0;
  for_each_block(any_tensor(values.data(), dtype_code::fp16, 2),
                 [&](std::size_t, std::size_t, auto block) {
                   for (const float element : block) sum += static_cast<double>(element);
                 });
  CHECK(sum == 3.0);
}

namespace {

struct Engine {
  std::vector<float> memory = {4.0F, 8.0F};
  dtype_code dtype = fp32;
  int steps = 0;
  [[nodiscard]] std::vector<any_tensor> gradients() {
    return {{memory.data(), dtype, 2}, {nullptr, dtype_code::int64, 1}};
  }
  void step() { ++steps; }
};

}  // namespace

TEST_CASE("a GradScaler unscales the any_tensors of an optimizer, and refuses fp16 ones") {
  Engine engine;
  GradScaler<> scaler(DynamicLossScale(LossScaleConfig{4.0F}));
  CHECK(scaler.unscale_and_clip_(engine, 1.0).max_abs == 2.0);
  CHECK_FALSE(scaler.step(engine).skipped);
  CHECK(engine.memory[1] < 1.0F);
  scaler.update();
  support::set_bits(engine.memory[1], binary32::infinity_bits);
  const auto result = scaler.step(engine);
  CHECK((result.skipped && result.nonfinite && result.nonfinite->path == "[0]" &&
         result.nonfinite->index == 1));
  scaler.update();
  CHECK((scaler.get_scale() == 2.0F && engine.steps == 1));
  engine.dtype = dtype_code::fp16;
  CHECK_THAT(support::logic_error_of([&] { (void)scaler.step(engine); }),
             ContainsSubstring("fp16 and 8-bit gradients"));
}
