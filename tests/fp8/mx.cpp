#include <headroom/fp8/mx.hpp>
#include <headroom/ops/cast.hpp>
#include <headroom/ops/executor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/fp8.hpp"
#include "support/isa.hpp"
#include "support/network.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using headroom::binary32;
using headroom::e8m0;
using headroom::float8_e4m3;
using headroom::float8_e5m2;
using headroom::half;
using headroom::mx_dequantize_into;
using headroom::mx_quantize_into;
using headroom::MxScale;
using headroom::detail::format_of;
using support::bits_of;
using support::message_of;
using support::Mismatches;
using support::Network;
using support::Strided;

namespace {

using Shape = std::vector<std::ptrdiff_t>;

/// The dimensions of a tensor in a random order.
std::vector<std::size_t> random_order(std::size_t rank, std::mt19937& random) {
  std::vector<std::size_t> order(rank);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  return order;
}
/// A tensor with gaps between its elements, in memory of its own. `order` is that of its strides, from the shortest on.
template <class T>
struct RandomTensor {
  std::vector<T> memory;
  Strided<T> tensor;

  RandomTensor(const Shape& shape, const std::vector<std::size_t>& order, std::mt19937& random)
      : tensor{nullptr, shape, Shape(shape.size())} {
    const bool has_gaps = random() % 2 == 0;
    std::ptrdiff_t first = 0, span = 1;
    for (const std::size_t i : order) {
      std::ptrdiff_t& stride = tensor.strides[i];
      stride = span + (has_gaps ? static_cast<std::ptrdiff_t>(random() % 3) : 0);
      span += stride * (shape[i] - 1);
      if (random() % 4 != 0) continue;
      first += stride * (shape[i] - 1);
      stride = -stride;
    }
    memory.resize(static_cast<std::size_t>(span));
    for (T& element : memory) support::set_bits(element, 0x55);
    tensor.first = memory.data() + first;
  }
};

/// The row-major positions of the elements of a tensor, row by row: along its shortest stride, the longest one outermost.
std::vector<std::vector<std::size_t>> rows_of(const Shape& shape, const Shape& strides) {
  std::vector<std::size_t> dimensions;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) dimensions.push_back(i);
  }
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(strides[a]) > std::abs(strides[b]); });
  std::vector<std::size_t> positions = {0};
  for (const std::size_t dimension : dimensions) {
    std::size_t step = 1;
    for (std::size_t i = dimension + 1; i < shape.size(); ++i) step *= static_cast<std::size_t>(shape[i]);
    std::vector<std::size_t> more;
    for (const std::size_t position : positions) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(shape[dimension]); ++i) more.push_back(position + i * step);
    }
    positions = more;
  }
  const std::size_t row = dimensions.empty() ? 1 : static_cast<std::size_t>(shape[dimensions.back()]);
  std::vector<std::vector<std::size_t>> rows;
  for (auto at = positions.begin(); at != positions.end(); at += static_cast<std::ptrdiff_t>(row)) {
    rows.emplace_back(at, at + static_cast<std::ptrdiff_t>(row));
  }
  return rows;
}

/// Quantizes a tensor, dequantizes it with other scales, and compares with the slow reference.
template <class T, class To>
void check_tensor(Mismatches& wrong, const Shape& shape, std::mt19937& random) {
  using In = format_of<T>;
  using F = format_of<To>;
  const MxScale rule = support::mx_rules[random() % 4];
  const std::vector<std::size_t> order = random_order(shape.size(), random);
  RandomTensor<T> source(shape, order, random), back(shape, order, random);
  RandomTensor<To> codes(shape, order, random);
  const std::size_t size = source.tensor.size();
  for (std::size_t i = 0; i < size; ++i) {
    auto bits = support::random_magnitude<In>(random, -9, 9);
    if (random() % 500 == 0) bits = support::random_bits<In>(random);
    support::set_bits(source.tensor.at(i), bits);
  }
  const auto rows = rows_of(shape, source.tensor.strides);
  const std::size_t blocks = (rows[0].size() + 31) / 32;
  std::vector<e8m0> scales(rows.size() * blocks), others(scales.size());
  for (e8m0& scale : others) scale = e8m0::from_bits(static_cast<std::uint8_t>(110 + random() % 30));
  const bool reported = mx_quantize_into(source.tensor, codes.tensor, scales, rule).finite;
  mx_dequantize_into(codes.tensor, others, back.tensor);
  bool finite = true;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::vector<support::bits_type<T>> elements;
    for (const std::size_t i : rows[row]) elements.push_back(bits_of(source.tensor.at(i)));
    const auto expected = support::mx_row<F, In>(elements, rule);
    finite = finite && expected.finite;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const std::size_t at = rows[row][i], block = row * blocks + i / 32;
      const std::uint8_t code = codes.tensor.at(at).bits();
      wrong.expect(support::agrees<F>(code, expected.codes[i]) && scales[block].bits() == expected.scales[i / 32],
                   [&] { return "quantize: " + support::hex(elements[i]); });
      wrong.expect(support::agrees<In>(bits_of(back.tensor.at(at)), support::mx_value<F, In>(code, others[block].bits())),
                   [&] { return "dequantize: " + support::hex(code); });
    }
  }
  wrong.expect(reported == finite, [] { return "the report"; });
  const auto gaps_of = [](const auto& bits) { return std::count(bits.begin(), bits.end(), 0x55); };
  const bool is_inside = gaps_of(bits_of(codes.memory)) >= static_cast<std::ptrdiff_t>(codes.memory.size() - size) &&
                         gaps_of(bits_of(back.memory)) >= static_cast<std::ptrdiff_t>(back.memory.size() - size);
  wrong.expect(is_inside, [] { return "a gap was written"; });
}

std::vector<float> iota(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

}  // namespace

static_assert(sizeof(e8m0) == 1 && float(e8m0(0.7F)) == 0.5F && e8m0(1.0F).bits() == 127);

TEST_CASE("e8m0: all powers of two, the nearest of other numbers, and one NaN") {
  for (int byte = 0; byte < 255; ++byte) {
    const e8m0 scale = e8m0::from_bits(static_cast<std::uint8_t>(byte));
    const std::uint32_t bits = byte == 0 ? 0x00400000 : static_cast<std::uint32_t>(byte) << 23;
    CHECK((bits_of(static_cast<float>(scale)) == bits && scale == scale));
    CHECK(e8m0(support::values_with<float>({bits})[0]).bits() == byte);
    const std::uint32_t middle = byte == 0 ? 0x00600000 : bits + 0x00400000;
    CHECK(e8m0(support::values_with<float>({middle})[0]).bits() == byte + 1);
    CHECK(e8m0(support::values_with<float>({middle - 1})[0]).bits() == byte);
  }
  CHECK(e8m0(0.0F).bits() == 0);
  for (const std::uint32_t bits : {0x7F800000U, 0x7FC00000U, 0xFF800000U, bits_of(-1.0F)}) {
    const e8m0 nan(support::values_with<float>({bits})[0]);
    CHECK((nan.bits() == 0xFF && nan != nan && !(nan == nan)));
  }
  CHECK(support::is_nan<binary32>(bits_of(static_cast<float>(e8m0::from_bits(0xFF)))));
}

TEST_CASE("MX verbs: tensors of any strides and dtypes, with blocks along the shortest stride of the values") {
  std::mt19937 random(support::seed);
  Mismatches wrong;
  support::for_each_dtype([&](auto type) {
    using T = typename decltype(type)::type;
    for (std::ptrdiff_t n = 1; n <= 100; ++n) {
      check_tensor<T, float8_e4m3>(wrong, {3, n}, random);
      Shape shape(1 + random() % 4);
      for (std::ptrdiff_t& one : shape) one = 1 + static_cast<std::ptrdiff_t>(random() % (shape.size() > 2 ? 9 : 70));
      check_tensor<T, float8_e5m2>(wrong, shape, random);
    }
  });
  check_tensor<float, float8_e4m3>(wrong, {3, 5000}, random);
  INFO(wrong.first());
  CHECK(wrong.count() == 0);
}

TEST_CASE("mx_dequantize_into: all codes with all scales, on every instruction set") {
  support::for_each_isa([](headroom::Isa) {
    Mismatches wrong;
    support::for_each_type<float8_e4m3, float8_e5m2>([&](auto code_type) {
      using Code = typename decltype(code_type)::type;
      std::vector<Code> codes(256);
      for (std::size_t i = 0; i < 256; ++i) codes[i] = Code::from_bits(static_cast<std::uint8_t>(i));
      support::for_each_dtype([&](auto type) {
        using T = typename decltype(type)::type;
        std::vector<T> values(256);
        for (int byte = 0; byte < 256; ++byte) {
          mx_dequantize_into(codes, std::vector<e8m0>(8, e8m0::from_bits(static_cast<std::uint8_t>(byte))), values);
          for (std::size_t i = 0; i < 256; ++i) {
            const auto expected = support::mx_value<format_of<Code>, format_of<T>>(codes[i].bits(), byte);
            wrong.expect(support::agrees<format_of<T>>(bits_of(values[i]), expected),
                         [&] { return support::hex(i) + " with scale " + std::to_string(byte); });
          }
        }
      });
    });
    INFO(wrong.first());
    CHECK(wrong.count() == 0);
  });
}

TEST_CASE("MX verbs: a flat tensor faces the elements of a matrix in memory; the blocks are those of the values") {
  std::vector<float> values = iota(120), back(120);
  std::vector<float8_e4m3> codes(120);
  const Strided<float> columns{values.data(), {40, 3}, {1, 40}}, columns_back{back.data(), {40, 3}, {1, 40}};
  std::vector<e8m0> scales(6), of_flat(4);
  CHECK(mx_quantize_into(columns, codes, scales, MxScale::ceil).max_abs == 120.0);
  // The largest of the blocks are 32, 40, 72, 80, 112 and 120; of the flat vector 32, 64, 96 and 120.
  CHECK(bits_of(scales) == std::vector<std::uint8_t>{124, 125, 126, 126, 126, 126});
  CHECK(static_cast<float>(codes[0]) == 8.0F);
  mx_dequantize_into(codes, scales, columns_back);
  for (std::size_t i = 0; i < 120; ++i) CHECK(std::fabs(back[i] - values[i]) <= values[i] / 16.0F);
  Strided<float8_e4m3> matrix{codes.data(), {40, 3}, {1, 40}};
  (void)mx_quantize_into(values, matrix, of_flat, MxScale::ceil);
  CHECK(bits_of(of_flat) == std::vector<std::uint8_t>{124, 125, 126, 126});
  CHECK(message_of([&] { mx_dequantize_into(matrix, of_flat, columns_back); }) ==
        "headroom: the trees differ: there are 6 blocks of 32 and 4 scales");
  std::fill(back.begin(), back.end(), 0.0F);
  mx_dequantize_into(matrix, of_flat, back);
  for (std::size_t i = 0; i < 120; ++i) CHECK(std::fabs(back[i] - values[i]) <= values[i] / 16.0F);
}

TEST_CASE("MX verbs: trees, and the report") {
  Network<float> source = support::network_of(3.0F);
  source.heads["encoder"].resize(70, 3.0F);
  source.heads["encoder"][65] = -1000.0F;
  auto codes = headroom::detail::make_like<float8_e5m2>(source);
  auto back = headroom::detail::make_like<half>(source);
  Network<e8m0> scales = support::network_of(e8m0(1.0F));
  scales.layers[0].weight.resize(1);
  scales.heads["decoder"].resize(1);
  scales.heads["encoder"].resize(3);
  headroom::GradientReport report = mx_quantize_into(source, codes, scales, MxScale::rceil);
  CHECK((report.finite && report.max_abs == 1000.0));
  CHECK(bits_of(scales.heads["encoder"]) == std::vector<std::uint8_t>{113, 113, 122});
  CHECK(scales.temperature->bits() == 113);
  mx_dequantize_into(codes, scales, back);
  source.heads["encoder"][65] = -1024.0F;  // has two digits
  CHECK(support::leaves_of(back) == support::leaves_of(headroom::cast<half>(source)));

  // A rule that rounds the largest magnitude to Inf makes the block NaN.
  std::vector<float> large(33, std::numeric_limits<float>::max());
  large[32] = 1.0F;
  std::vector<float8_e5m2> codes_of_large(33);
  std::vector<e8m0> two(2);
  report = mx_quantize_into(large, codes_of_large, two, MxScale::even);
  CHECK((!report.finite && bits_of(report.max_abs) == headroom::binary64::infinity_bits));
  CHECK(bits_of(two) == std::vector<std::uint8_t>{255, 112});
  CHECK(mx_quantize_into(large, codes_of_large, two, MxScale::floor).finite);
}

TEST_CASE("MX verbs: the number of threads changes no bit") {
  std::mt19937 random(support::seed);
  std::vector<RandomTensor<float>> sources, backs;
  std::vector<RandomTensor<float8_e4m3>> all_codes;
  std::vector<Strided<float>> source, back;
  std::vector<Strided<float8_e4m3>> codes;
  std::vector<std::vector<e8m0>> scales;
  for (const Shape& shape : {Shape{1}, Shape{250001}, Shape{33}, Shape{1000, 300}, Shape{5, 7, 3}}) {
    const std::vector<std::size_t> order = random_order(shape.size(), random);
    sources.emplace_back(shape, order, random);
    all_codes.emplace_back(shape, order, random);
    backs.emplace_back(shape, order, random);
    for (float& one : sources.back().memory) support::set_bits(one, support::random_magnitude<binary32>(random, -9, 9));
    const auto rows = rows_of(shape, sources.back().tensor.strides);
    scales.emplace_back(rows.size() * ((rows[0].size() + 31) / 32));
    source.push_back(sources.back().tensor);
    codes.push_back(all_codes.back().tensor);
    back.push_back(backs.back().tensor);
  }
  support::set_bits(source[3].at(299999), binary32::quiet_nan_bits);
  std::vector<support::AnyBits> expected_codes, expected_scales, expected_values;
  for (int threads = 1; threads <= 4; ++threads) {
    const headroom::ParallelExecutor executor = headroom::parallel(threads);
    CHECK(!mx_quantize_into(executor, source, codes, scales, MxScale::even).finite);
    mx_dequantize_into(executor, codes, scales, back);
    if (threads == 1) {
      expected_codes = support::leaves_of(codes);
      expected_scales = support::leaves_of(scales);
      expected_values = support::leaves_of(back);
    }
    CHECK(support::leaves_of(codes) == expected_codes);
    CHECK(support::leaves_of(scales) == expected_scales);
    CHECK(support::leaves_of(back) == expected_values);
    for (std::vector<e8m0>& one : scales) std::fill(one.begin(), one.end(), e8m0(1.0F));
  }
}

TEST_CASE("MX verbs: errors name what is wrong, and nothing has been written") {
  const std::vector<std::vector<float>> source = {iota(40), iota(70)};
  std::vector<std::vector<float8_e4m3>> codes = {std::vector<float8_e4m3>(40), std::vector<float8_e4m3>(70)};
  std::vector<std::vector<e8m0>> scales = {std::vector<e8m0>(2, e8m0(8.0F)), std::vector<e8m0>(2, e8m0(8.0F))};
  std::vector<std::vector<float>> back = source;
  const auto check = [&](const std::string& message) {
    const auto codes_before = codes;
    const auto scales_before = scales;
    CHECK_THAT(message_of([&] { (void)mx_quantize_into(source, codes, scales, MxScale::floor); }),
               Catch::Matchers::ContainsSubstring(message));
    CHECK((codes == codes_before && scales == scales_before));
    CHECK(!message_of([&] { mx_dequantize_into(codes, scales, back); }).empty());
    CHECK(back == source);
  };
  check("the trees differ at [1]: there are 3 blocks of 32 and 2 scales");
  scales[1].resize(4);
  check("the trees differ at [1]: there are 3 blocks of 32 and 4 scales");
  scales[1].resize(3);
  codes[1].resize(69);
  check("the trees differ at [1]: ");
  codes.pop_back();
  check("the trees differ: ");
  codes.emplace_back(70);
  scales.pop_back();
  check("the trees differ: ");
  const Strided<float> by_rows{back[0].data(), {4, 10}, {10, 1}};
  const Strided<float8_e4m3> by_columns{codes[0].data(), {4, 10}, {1, 4}};
  CHECK(message_of([&] { (void)mx_quantize_into(by_rows, by_columns, scales[0], MxScale::floor); }) ==
        "headroom: the trees differ: the values and the codes have different orders in memory");
  std::vector<e8m0> memory(5);
  const std::vector<Strided<e8m0>> with_gaps = {{memory.data(), {2}, {2}}, {memory.data(), {3}, {1}}};
  CHECK(message_of([&] { (void)mx_quantize_into(source, codes, with_gaps, MxScale::floor); }) ==
        "headroom: the scales's [0] have gaps");
}
