#include <headroom/ops/cast.hpp>
#include <headroom/ops/executor.hpp>
#include <headroom/quantize/mx.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/fp8.hpp"
#include "support/isa.hpp"
#include "support/network.hpp"
#include "support/samples.hpp"

using namespace headroom;
using headroom::detail::format_of;
using support::bits_of;
using support::message_of;
using support::Mismatches;
using support::RandomTensors;
using support::Shape;
using support::Strided;

namespace {

using Scales = std::vector<e8m0>;
using Bytes = std::vector<std::uint8_t>;

/// The row-major positions of the elements of a tensor, row by row: along its shortest stride, the longest one outermost.
template <class T>
std::vector<std::vector<std::size_t>> rows_of(const Strided<T>& tensor) {
  const auto& [first, shape, strides] = tensor;
  std::vector<std::size_t> dimensions;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) dimensions.push_back(i);
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [&strides = tensor.strides](auto a, auto b) { return std::abs(strides[a]) > std::abs(strides[b]); });
  std::vector<std::vector<std::size_t>> rows = {{0}};
  for (const std::size_t dimension : dimensions) {
    std::size_t step = 1;
    for (std::size_t i = dimension + 1; i < shape.size(); ++i) step *= static_cast<std::size_t>(shape[i]);
    std::vector<std::vector<std::size_t>> more;
    for (const auto& row : rows) {
      for (const std::size_t position : row) {
        more.emplace_back(static_cast<std::size_t>(shape[dimension]));
        for (std::size_t i = 0; i < more.back().size(); ++i) more.back()[i] = position + i * step;
      }
    }
    rows = more;
  }
  return rows;
}
template <class T>
Scales scales_for(const Strided<T>& tensor) {
  if (tensor.size() == 0) return {};
  const auto rows = rows_of(tensor);
  return Scales(rows.size() * ((rows[0].size() + 31) / 32));
}

/// Quantizes a tensor, dequantizes it with other scales, and compares with the slow references.
template <class T, class To>
void check_tensor(Mismatches& wrong, const Shape& shape, std::mt19937& random) {
  using In = format_of<T>;
  using F = format_of<To>;
  const MxScale rule = support::mx_rules[random() % 4];
  const auto order = static_cast<std::uint32_t>(random());
  RandomTensors<T> sources({shape}, random, order), backs({shape}, random, order);
  RandomTensors<To> all_codes({shape}, random, order);
  const auto &source = sources.leaves[0], &back = backs.leaves[0];
  const auto& codes = all_codes.leaves[0];
  support::for_each_element(source, [&](T& element) { support::randomize(element, random, -9, 9, 500); });
  const auto rows = rows_of(source);
  Scales scales = scales_for(source), others = scales;
  for (e8m0& scale : others) scale = e8m0::from_bits(static_cast<std::uint8_t>(110 + random() % 30));
  const bool reported = mx_quantize_into(source, codes, scales, rule).finite;
  mx_dequantize_into(codes, others, back);
  bool finite = true;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::vector<support::bits_type<T>> elements;
    for (const std::size_t i : rows[row]) elements.push_back(bits_of(source.at(i)));
    const auto expected = support::mx_row<In, F>(elements, rule);
    finite = finite && expected.finite;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const std::size_t at = rows[row][i], block = row * expected.scales.size() + i / 32;
      const std::uint8_t code = codes.at(at).bits();
      wrong.expect(support::agrees<F>(code, expected.codes[i]) && scales[block].bits() == expected.scales[i / 32],
                   [&] { return "quantize: " + support::hex(elements[i]); });
      wrong.expect(support::agrees<In>(bits_of(back.at(at)), support::mx_value<F, In>(code, others[block].bits())),
                   [&] { return "dequantize: " + support::hex(code); });
    }
  }
  wrong.expect(reported == finite, [] { return "the report"; });
  wrong.expect(all_codes.has_old_gaps() && backs.has_old_gaps(), [] { return "a gap was written"; });
}

std::vector<float> iota(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}
bool are_near(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) { return std::fabs(x - y) <= x / 16.0F; });
}

}  // namespace

static_assert(sizeof(e8m0) == 1 && float(e8m0(0.7F)) == 0.5F && e8m0(1.0F).bits() == 127);

TEST_CASE("e8m0: all powers of two, the nearest of other numbers, and one NaN") {
  const auto byte_of = [](std::uint32_t bits) { return e8m0(support::values_with<float>({bits})[0]).bits(); };
  for (int byte = 0; byte < 255; ++byte) {
    const e8m0 scale = e8m0::from_bits(static_cast<std::uint8_t>(byte));
    const std::uint32_t bits = byte == 0 ? 0x00400000 : static_cast<std::uint32_t>(byte) << 23;
    const std::uint32_t middle = byte == 0 ? 0x00600000 : bits + 0x00400000;
    CHECK((bits_of(static_cast<float>(scale)) == bits && scale == scale));
    CHECK((byte_of(bits) == byte && byte_of(middle - 1) == byte && byte_of(middle) == byte + 1));
  }
  CHECK((byte_of(0) == 0 && byte_of(0x80000000) == 0));
  for (const std::uint32_t bits : {0x7F800000U, 0x7FC00000U, 0xFF800000U, bits_of(-1.0F)}) CHECK(byte_of(bits) == 0xFF);
  const e8m0 nan = e8m0::from_bits(0xFF);
  CHECK((nan != nan && !(nan == nan) && support::is_nan<binary32>(bits_of(static_cast<float>(nan)))));
}

TEST_CASE("MX verbs: maps whose orders differ") {
  std::unordered_map<std::string, std::vector<float>> source, back;
  std::unordered_map<std::string, std::vector<float8_e4m3>> codes;
  std::unordered_map<std::string, Scales> scales;
  for (std::size_t i = 0; i < 20; ++i) {
    const std::string name = std::to_string(i), other = std::to_string(19 - i);
    source[name] = std::vector<float>(i + 1, static_cast<float>(1U << i));
    codes[other].resize(20 - i);
    scales[name].resize(1);
    back[other].resize(20 - i);
  }
  CHECK(mx_quantize_into(source, codes, scales, MxScale::floor).finite);
  mx_dequantize_into(codes, scales, back);
  CHECK(back == source);
}

TEST_CASE("MX verbs: tensors of any strides and dtypes, with blocks along the shortest stride") {
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
  CHECK(wrong.first() == "");
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
        // With flush-to-zero the smallest scale, 2^-127, is zero.
        for (int byte = support::flushes_subnormals() ? 1 : 0; byte < 256; ++byte) {
          mx_dequantize_into(codes, Scales(8, e8m0::from_bits(static_cast<std::uint8_t>(byte))), values);
          for (std::size_t i = 0; i < 256; ++i) {
            const auto expected = support::mx_value<format_of<Code>, format_of<T>>(codes[i].bits(), byte);
            wrong.expect(support::agrees<format_of<T>>(bits_of(values[i]), expected),
                         [&] { return support::hex(i) + " with scale " + std::to_string(byte); });
          }
        }
      });
    });
    CHECK(wrong.first() == "");
  });
}

TEST_CASE("MX verbs: a flat tensor faces the elements of a matrix in memory; the blocks are those of the values") {
  std::vector<float> values = iota(120), back(120);
  std::vector<float8_e4m3> codes(120);
  const Strided<float> columns{values.data(), {40, 3}, {1, 40}}, columns_back{back.data(), {40, 3}, {1, 40}};
  const Strided<float8_e4m3> matrix{codes.data(), {40, 3}, {1, 40}};
  Scales scales(6), of_flat(4);
  CHECK(mx_quantize_into(columns, codes, scales, MxScale::ceil).max_abs == 120.0);
  // The largest of the blocks are 32, 40, 72, 80, 112 and 120; of the flat vector 32, 64, 96 and 120.
  CHECK(bits_of(scales) == Bytes{124, 125, 126, 126, 126, 126});
  mx_dequantize_into(codes, scales, columns_back);
  CHECK(are_near(values, back));
  (void)mx_quantize_into(values, matrix, of_flat, MxScale::ceil);
  CHECK(bits_of(of_flat) == Bytes{124, 125, 126, 126});
  std::fill(back.begin(), back.end(), 0.0F);
  mx_dequantize_into(matrix, of_flat, back);
  CHECK(are_near(values, back));
}

TEST_CASE("MX verbs: trees, and the report") {
  auto source = support::network_of(3.0F);
  source.heads["encoder"].resize(70, 3.0F);
  source.heads["encoder"][65] = -1000.0F;
  auto codes = headroom::detail::make_like<float8_e5m2>(source);
  auto back = source;
  auto scales = support::network_of(e8m0(1.0F));
  scales.layers[0].weight.resize(1);
  scales.heads["decoder"].resize(1);
  scales.heads["encoder"].resize(3);
  headroom::GradientReport report = mx_quantize_into(source, codes, scales, MxScale::rceil);
  CHECK((report.finite && report.max_abs == 1000.0));
  CHECK((bits_of(scales.heads["encoder"]) == Bytes{113, 113, 122} && scales.temperature->bits() == 113));
  mx_dequantize_into(codes, scales, back);
  source.heads["encoder"][65] = -1024.0F;  // -1000 with three digits
  CHECK(support::leaves_of(back) == support::leaves_of(source));

  // A rule that rounds the largest magnitude to Inf makes the block NaN.
  std::vector<float> large(33, std::numeric_limits<float>::max());
  large[32] = 1.0F;
  std::vector<float8_e5m2> codes_of_large(33);
  Scales two(2);
  report = mx_quantize_into(large, codes_of_large, two, MxScale::even);
  CHECK((!report.finite && bits_of(report.max_abs) == headroom::binary64::infinity_bits));
  CHECK(bits_of(two) == Bytes{255, 112});
  CHECK(mx_quantize_into(large, codes_of_large, two, MxScale::floor).finite);
}

TEST_CASE("MX verbs: -65504 comes back to fp16 as -Inf, except by floor, and the report says finite") {
  support::for_each_type<float8_e4m3, float8_e5m2>([](auto type) {
    for (const MxScale rule : support::mx_rules) {
      const std::vector<headroom::half> source = {headroom::half(-65504.0F)};
      std::vector<headroom::half> back(1);
      std::vector<typename decltype(type)::type> codes(1);
      Scales scales(1);
      CHECK(mx_quantize_into(source, codes, scales, rule).finite);
      mx_dequantize_into(codes, scales, back);
      CHECK(back[0].bits() == (rule == MxScale::floor ? headroom::half(-57344.0F).bits() : 0xFC00));
    }
  });
}

TEST_CASE("MX verbs: the number of threads changes no bit") {
  std::mt19937 random(support::seed);
  RandomTensors<float> source(support::large_shapes, random, 1), back(support::large_shapes, random, 1);
  RandomTensors<float8_e4m3> codes(support::large_shapes, random, 1);
  std::vector<Scales> scales;
  for (const auto& leaf : source.leaves) {
    support::for_each_element(leaf, [&](float& element) { support::randomize(element, random); });
    scales.push_back(scales_for(leaf));
  }
  support::set_bits(source.leaves[6].at(299999), binary32::quiet_nan_bits);
  std::vector<Bytes> expected, expected_scales;
  std::vector<std::vector<std::uint32_t>> expected_values;
  for (int threads = 1; threads <= 4; ++threads) {
    CHECK(!mx_quantize_into(source.leaves, codes.leaves, scales, MxScale::even, headroom::parallel(threads)).finite);
    mx_dequantize_into(codes.leaves, scales, back.leaves, headroom::parallel(threads));
    for (std::size_t leaf = 0; leaf < scales.size(); ++leaf) {
      if (threads == 1) {
        expected.push_back(bits_of(codes.memories[leaf]));
        expected_scales.push_back(bits_of(scales[leaf]));
        expected_values.push_back(bits_of(back.memories[leaf]));
      }
      CHECK((bits_of(codes.memories[leaf]) == expected[leaf] && bits_of(scales[leaf]) == expected_scales[leaf]));
      CHECK(bits_of(back.memories[leaf]) == expected_values[leaf]);
      std::fill(scales[leaf].begin(), scales[leaf].end(), e8m0(1.0F));
    }
    codes.clear();
    back.clear();
  }
}

TEST_CASE("MX verbs: errors name what is wrong, and nothing has been written") {
  const std::vector<std::vector<float>> source = {iota(40), iota(70)};
  std::vector<std::vector<float8_e4m3>> codes = {std::vector<float8_e4m3>(40), std::vector<float8_e4m3>(70)};
  std::vector<Scales> scales = {Scales(2, e8m0(8.0F)), Scales(2, e8m0(8.0F))};
  auto back = source;
  const auto check = [&](const std::string& message) {
    const auto codes_before = codes;
    const auto scales_before = scales;
    const auto contains_it = Catch::Matchers::ContainsSubstring(message);
    CHECK_THAT(message_of([&] { (void)mx_quantize_into(source, codes, scales, MxScale::floor); }), contains_it);
    CHECK_THAT(message_of([&] { mx_dequantize_into(codes, scales, back); }), contains_it);
    CHECK((codes == codes_before && scales == scales_before && back == source));
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
  Scales memory(3);
  const Strided<e8m0> with_gaps{memory.data(), {2}, {2}};
  CHECK(message_of([&] { (void)mx_quantize_into(source[0], codes[0], with_gaps, MxScale::floor); }) ==
        "headroom: the scale tree has gaps");
}
