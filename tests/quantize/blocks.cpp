#include <headroom/ops/executor.hpp>
#include <headroom/ops/measure.hpp>
#include <headroom/quantize/blocks.hpp>
#include <headroom/tree/std.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/fp8.hpp"
#include "support/isa.hpp"
#include "support/samples.hpp"
#include "support/strided.hpp"

using namespace headroom::detail;
using namespace headroom;
using support::bits_of;
using support::Strided;

namespace {

using Bytes = std::vector<std::uint8_t>;

std::size_t blocks_of(std::size_t n, std::size_t block) {
  return block == 0 || block >= n ? 1 : (n + block - 1) / block;
}
template <class Code>
std::size_t codes_of(std::size_t rows, std::size_t columns) {
  return rows * (std::is_same_v<Code, float4_e2m1x2> ? (columns + 1) / 2 : columns);
}
template <class T>
Bytes bytes_of(const std::vector<T>& elements) {
  Bytes bytes(elements.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

/// Codes, scales and dequantized values of a matrix, as bytes.
template <class Code, class T, class Rule>
std::vector<Bytes> results_of(const std::vector<T>& source, std::size_t columns, BlockShape shape,
                              const Rule& rule, const Executor& executor = sequential) {
  const std::size_t rows = source.size() / columns;
  std::vector<Code> codes(codes_of<Code>(rows, columns));
  std::vector<typename Rule::scale_type> scales(blocks_of(rows, shape.rows) *
                                                blocks_of(columns, shape.columns));
  std::vector<T> back(source.size());
  const auto report = quantize_blocks_into(matrix(source.data(), rows, columns), codes, scales,
                                           shape, rule, executor);
  dequantize_blocks_into(codes, scales, matrix(back.data(), rows, columns), shape, 0.3F, executor);
  for (T& value : back)
    if (support::is_nan<format_of<T>>(bits_of(value))) value = T(1.5F);  // payloads may differ
  return {bytes_of(codes), bytes_of(scales), bytes_of(back),
          bytes_of(std::vector<double>{report.max_abs})};
}
template <class F>
void for_each_scheme(const F& f) {
  f(float8_e4m3(), TeBlockScaling{}, BlockShape{128, 128});
  f(float8_e5m2(), TeBlockScaling{0.001F, false}, BlockShape{1, 128});
  f(float8_e4m3(), TorchaoBlockScaling{}, BlockShape{3, 5});
  f(float8_e4m3(), DeepSeekScaling{}, BlockShape{1, 0});
  f(float8_e5m2(), MxScaling{MxScale::even}, BlockShape{1, 32});
  f(float4_e2m1x2(), MxScaling{MxScale::floor}, BlockShape{1, 32});
  f(float4_e2m1x2(), TorchaoNvfp4{0.01F}, BlockShape{1, 16});
  f(float4_e2m1x2(), TeNvfp4{10.0F}, BlockShape{16, 16});
  f(float4_e2m1x2(), ModelOptNvfp4{0.01F}, BlockShape{0, 2});
  f(float4_e2m1x2(), Mxfp4ToNvfp4{0x1p-7F}, BlockShape{1, 16});
}
template <class T>
std::vector<T> random_values(std::size_t n, std::mt19937& random) {
  std::vector<T> values(n);
  for (T& value : values) support::randomize(value, random, -9, 9, 300);
  return values;
}

}  // namespace

static_assert(sizeof(e8m0) == 1 && float(e8m0(0.7F)) == 0.5F && e8m0(1.0F).bits() == 127);

TEST_CASE("e8m0: all powers of two, the nearest of other numbers, and one NaN") {
  const auto byte_of = [](std::uint32_t bits) {
    return e8m0(support::values_with<float>({bits})[0]).bits();
  };
  for (int byte = 0; byte < 255; ++byte) {
    const e8m0 scale = e8m0::from_bits(static_cast<std::uint8_t>(byte));
    const std::uint32_t bits = byte == 0 ? 0x00400000 : static_cast<std::uint32_t>(byte) << 23;
    const std::uint32_t middle = byte == 0 ? 0x00600000 : bits + 0x00400000;
    CHECK((bits_of(static_cast<float>(scale)) == bits && scale == scale));
    CHECK((byte_of(bits) == byte && byte_of(middle - 1) == byte && byte_of(middle) == byte + 1));
  }
  CHECK((byte_of(0) == 0 && byte_of(0x80000000) == 0));
  for (const std::uint32_t bits : {0x7F800000U, 0x7FC00000U, 0xFF800000U, bits_of(-1.0F)})
    CHECK(byte_of(bits) == 0xFF);
  const e8m0 nan = e8m0::from_bits(0xFF);
  CHECK(
      (nan != nan && !(nan == nan) && support::is_nan<binary32>(bits_of(static_cast<float>(nan)))));
}

TEST_CASE("blocks: all instruction sets have the same bits, for all dtypes, schemes and lengths") {
  std::mt19937 random(support::seed);
  support::for_each_dtype([&](auto type) {
    using T = typename decltype(type)::type;
    for (std::size_t columns = 1; columns < 150; columns += 1 + columns / 9) {
      const auto source = random_values<T>(columns * (1 + random() % 5), random);
      for_each_scheme([&](auto code, const auto& rule, BlockShape shape) {
        std::vector<Bytes> expected;
        support::for_each_isa([&](Isa) {
          const auto results = results_of<decltype(code)>(source, columns, shape, rule);
          if (expected.empty()) expected = results;
          for (std::size_t i = 0; i < results.size(); ++i) {
            INFO(columns << " columns, part " << i << ", block " << shape.rows << "x"
                         << shape.columns);
            CHECK(results[i] == expected[i]);
          }
        });
      });
    }
  });
}

TEST_CASE(
    "blocks: every code, with factors up to the ends of float, becomes the scalar kernels' bits") {
  const float nan = support::values_with<float>({binary32::quiet_nan_bits})[0];
  const std::vector<float> factors = {
      1.0F,        0.3F,       -3.0F,       0x1p-126F,
      0x1.8p-127F, -0x1p-149F, 0x1p-121F,   0.0F,
      0x1p120F,    0x1p119F,   -0x1.8p125F, nan,
      0x1.fp127F,  1e-40F,     0x1p-8F,     std::numeric_limits<float>::infinity()};
  const auto compare = [&](auto code, auto value, std::size_t block) {
    using Code = decltype(code);
    using Value = decltype(value);
    constexpr std::size_t in_byte = std::is_same_v<Code, float4_e2m1x2> ? 2 : 1;
    std::vector<Code> codes(factors.size() * 256);
    std::vector<float> scales;
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = Code::from_bits(static_cast<std::uint8_t>(i + i / 256 * 7));
    for (std::size_t i = 0; i < codes.size() * in_byte; i += block)
      scales.push_back(factors[i / block * 5 % factors.size()]);
    std::vector<Value> values(codes.size() * in_byte), expected;
    support::for_each_isa([&](Isa) {
      dequantize_blocks_into(codes, scales, values, {1, block});
      if (std::is_same_v<Code, float8_e5m2> || std::is_same_v<Code, float8_e4m3>)
        for (Value& each : values)
          if (support::is_nan<format_of<Value>>(bits_of(each))) each = Value(1.5F);
      if (expected.empty()) expected = values;
      INFO("blocks of " << block);
      CHECK(bytes_of(values) == bytes_of(expected));
    });
  };
  for (const std::size_t block : {2U, 8U, 16U, 32U, 64U, 128U, 180U}) {
    compare(float4_e2m1x2(), bfloat16(), block);
    compare(float4_e2m1x2(), half(), block);
    compare(float8_e4m3(), bfloat16(), block);
    compare(float8_e5m2(), bfloat16(), block);
    compare(float8_e4m3(), float(), block);
  }
}

TEST_CASE("blocks: tensors of any strides have the results of a dense copy") {
  std::mt19937 random(support::seed);
  const auto dense = random_values<float>(6 * 70, random);
  // [2][3][70], the first dimension innermost, with gaps of two
  std::vector<float> memory(3 * 70 * 4, 0.0F);
  const Strided<float> source{memory.data(), {2, 3, 70}, {2, 280, 4}};
  for (std::size_t i = 0; i < dense.size(); ++i) source.at(i) = dense[i];
  for_each_scheme([&](auto code, const auto& rule, BlockShape shape) {
    using Code = decltype(code);
    if (shape.rows > 3) shape.rows = 3;  // a block does not reach into the next matrix
    const auto expected = results_of<Code>(dense, 70, shape, rule);
    std::vector<Code> codes(expected[0].size());
    std::vector<typename std::decay_t<decltype(rule)>::scale_type> scales(
        blocks_of(6, shape.rows) * blocks_of(70, shape.columns));
    (void)quantize_blocks_into(source, codes, scales, shape, rule);
    CHECK((bytes_of(codes) == expected[0] && bytes_of(scales) == expected[1]));
    std::vector<float> there(memory.size(), 7.0F), values;
    const Strided<float> back{there.data(), source.shape, source.strides};
    dequantize_blocks_into(codes, scales, back, shape, 0.3F);
    for (std::size_t i = 0; i < dense.size(); ++i)
      values.push_back(support::is_nan<binary32>(bits_of(back.at(i))) ? 1.5F : back.at(i));
    CHECK(bytes_of(values) == expected[2]);
    CHECK((there[1] == 7.0F && there[3] == 7.0F));
  });
}

TEST_CASE("blocks: the number of threads changes no bit") {
  std::mt19937 random(support::seed);
  const auto source = random_values<bfloat16>(700 * 1000, random);
  for_each_scheme([&](auto code, const auto& rule, BlockShape shape) {
    const auto expected = results_of<decltype(code)>(source, 1000, shape, rule);
    for (const int threads : {2, 3})
      CHECK(results_of<decltype(code)>(source, 1000, shape, rule, parallel(threads)) == expected);
  });
}

TEST_CASE("blocks: the report has the elements of every thread's share") {
  std::vector<float> source(600'000, 1.0F);
  std::vector<float8_e4m3> codes(source.size());
  std::vector<float> scales(source.size() / 32);
  for (const std::size_t i : {std::size_t{0}, source.size() - 1}) {
    const auto run = [&] {
      return quantize_blocks_into(source, codes, scales, {1, 32}, TeBlockScaling{}, parallel(2));
    };
    source[i] = -3.0F;
    CHECK((run().finite && run().max_abs == 3.0));
    source[i] = std::numeric_limits<float>::infinity();
    CHECK_FALSE(run().finite);
    source[i] = 1.0F;
  }
}

TEST_CASE("blocks: a tensor without elements has neither codes nor scales") {
  for_each_scheme([&](auto code, const auto& rule, BlockShape shape) {
    std::vector<decltype(code)> codes;
    std::vector<typename std::decay_t<decltype(rule)>::scale_type> scales;
    for (const std::size_t columns : {0U, 7U}) {
      std::vector<float> none;
      const auto report =
          quantize_blocks_into(matrix(none.data(), 0, columns), codes, scales, shape, rule);
      CHECK((report.finite && report.max_abs == 0.0));
      dequantize_blocks_into(codes, scales, matrix(none.data(), 0, columns), shape);
    }
  });
}

TEST_CASE(
    "blocks: a block that is larger than the tensor is cut off, also an odd one of 4-bit codes") {
  std::mt19937 random(support::seed);
  const auto source = random_values<float>(5 * 7, random);
  const auto compare = [&](auto code, const auto& rule) {
    const auto of_all = results_of<decltype(code)>(source, 7, {0, 0}, rule),
               of_rows = results_of<decltype(code)>(source, 7, {1, 0}, rule);
    for (const std::size_t large : {std::size_t{7}, std::size_t{9}, std::size_t{128}, SIZE_MAX}) {
      INFO(large);
      CHECK(results_of<decltype(code)>(source, 7, {large, large}, rule) == of_all);
      CHECK(results_of<decltype(code)>(source, 7, {1, large}, rule) == of_rows);
    }
  };
  compare(float8_e4m3(), TeBlockScaling{});
  compare(float4_e2m1x2(), TorchaoNvfp4{});
}

TEST_CASE("blocks: a tensor of zeros comes back as zeros") {
  const std::vector<float> zeros(64);
  for_each_scheme([&](auto code, const auto& rule, BlockShape shape) {
    CHECK(results_of<decltype(code)>(zeros, 64, shape, rule)[2] == bytes_of(zeros));
  });
  CHECK(results_of<float4_e2m1x2>(zeros, 64, {1, 16}, TorchaoNvfp4{0.0F})[2] == bytes_of(zeros));
  CHECK(results_of<float4_e2m1x2>(zeros, 64, {1, 16}, ModelOptNvfp4{0.0F})[2] == bytes_of(zeros));
  CHECK(results_of<float4_e2m1x2>(zeros, 64, {1, 16}, TeNvfp4{0.0F})[2] == bytes_of(zeros));
}

TEST_CASE("blocks: the report, and what Inf and NaN make of a block") {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> source(64, 1.0F);
  std::vector<float8_e4m3> codes(64);
  std::vector<float> scales(2);
  CHECK(quantize_blocks_into(source, codes, scales, {1, 32}, TeBlockScaling{}).max_abs == 1.0);
  support::set_bits(source[40], binary32::quiet_nan_bits);
  source[41] = 448.0F;
  CHECK(!quantize_blocks_into(source, codes, scales, {1, 32}, TeBlockScaling{}).finite);
  // The amax passes over NaN
  CHECK((scales[1] == 1.0F && codes[40].bits() == 0x7F && codes[41].bits() == 0x7E));
  source[41] = inf;
  (void)quantize_blocks_into(source, codes, scales, {1, 32}, TeBlockScaling{});
  CHECK((scales[1] == 1.0F && codes[41].bits() == 0x7E));
  std::vector<float> large(33, std::numeric_limits<float>::max());
  large[32] = 1.0F;
  std::vector<float8_e5m2> codes_of_large(33);
  std::vector<e8m0> two(2);
  CHECK(
      !quantize_blocks_into(large, codes_of_large, two, {1, 32}, MxScaling{MxScale::even}).finite);
  CHECK(bits_of(two) == Bytes{255, 112});
  std::vector<float4_e2m1x2> codes_of_small(8);
  std::vector<float8_e4m3> one(1);  // 1 / tensor_scale is Inf, and Inf * 0 is NaN
  CHECK(!quantize_blocks_into(std::vector<float>(16), codes_of_small, one, {1, 16},
                              TorchaoNvfp4{1e-39F})
             .finite);
  const std::vector<double> beyond(33, 1e39);  // float
  std::vector<float> of_beyond(2);
  CHECK(
      !quantize_blocks_into(beyond, codes_of_large, of_beyond, {1, 32}, DeepSeekScaling{}).finite);
  CHECK(!quantize_blocks_into(beyond, codes_of_large, of_beyond, {1, 32}, TeBlockScaling{}).finite);
}

TEST_CASE("blocks: an any_tensor, and the half byte after an odd row") {
  std::vector<float> values = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  const std::int64_t shape[] = {2, 3};
  std::vector<float4_e2m1x2> codes(4, float4_e2m1x2::from_bits(0xFF));
  std::vector<e8m0> scales(2);
  (void)quantize_blocks_into(any_tensor(values.data(), dtype_code::fp32, shape), codes, scales,
                             {1, 32}, MxScaling{});
  CHECK(bytes_of(codes) == Bytes{0x64, 0x07, 0x66, 0x07});  // 1, 2, 3; 4, 5, 6
  std::vector<float> back(6);
  dequantize_blocks_into(codes, scales, any_tensor(back.data(), dtype_code::fp32, shape), {1, 32});
  CHECK(back == std::vector<float>{1.0F, 2.0F, 3.0F, 4.0F, 4.0F, 6.0F});
  std::vector<std::int64_t> integers(6);
  const any_tensor none(integers.data(), dtype_code::int64, shape);
  CHECK(MESSAGE_OF(quantize_blocks_into(none, codes, scales, {1, 32}, MxScaling{})) ==
        "headroom: the source has integers or codes as elements; it must have floats of 16 bits or "
        "more");
}

TEST_CASE("blocks: errors say what is wrong, and nothing has been written") {
  std::vector<float> values(12, 1.0F), back(12, 3.0F);
  std::vector<float8_e4m3> codes(12);
  std::vector<float> scales(4);
  const auto check = [&](const std::string& message, BlockShape shape, auto& its_codes,
                         auto& its_scales) {
    const auto codes_before = bytes_of(its_codes), scales_before = bytes_of(its_scales);
    CHECK(MESSAGE_OF(quantize_blocks_into(matrix(values.data(), 3, 4), its_codes, its_scales, shape,
                                          TeBlockScaling{})) == "headroom: " + message);
    CHECK(MESSAGE_OF(dequantize_blocks_into(its_codes, its_scales, matrix(back.data(), 3, 4),
                                            shape)) == "headroom: " + message);
    CHECK((bytes_of(its_codes) == codes_before && bytes_of(its_scales) == scales_before &&
           back[0] == 3.0F));
  };
  check("the scales are 1x4; they must be 3x2, or as many in one row", {1, 2}, codes, scales);
  codes.resize(11);
  check("the codes are 1x11; they must be 3x4, or as many in one row", {2, 2}, codes, scales);
  std::vector<float4_e2m1x2> packed(6);
  check("a block of float4_e2m1x2 has 3 columns; it must be even", {2, 3}, packed, scales);
  codes.resize(12);
  CHECK_INVALID("the codes are 4x3; they must be 3x4, or as many in one row",
                dequantize_blocks_into(matrix(codes.data(), 4, 3), scales,
                                       matrix(back.data(), 3, 4), BlockShape{2, 2}));
  scales.clear();
  check("the scales are 0x0; they must be 1x1, or as many in one row", {SIZE_MAX, 4}, codes,
        scales);
  scales.resize(4);
  const auto quantize = [&](auto&& its_codes, auto&& its_scales, const TeBlockScaling& rule) {
    const std::string message =
        MESSAGE_OF(quantize_blocks_into(values, its_codes, its_scales, {1, 3}, rule));
    CHECK((values == std::vector<float>(12, 1.0F) && codes[0].bits() == 0 && scales[0] == 0.0F));
    return message;
  };
  auto* const bytes = reinterpret_cast<float8_e4m3*>(values.data());
  CHECK(quantize(span(bytes + 36, 12), scales, {}) == "headroom: the codes overlap the source");
  CHECK(quantize(codes, span(&values[8], 4), {}) == "headroom: the scales overlap the source");
  CHECK(quantize(span(reinterpret_cast<float8_e4m3*>(&scales[1]), 12), scales, {}) ==
        "headroom: the scales overlap the codes");
  CHECK(quantize(codes, scales, TeBlockScaling{-1.0F}) ==
        "headroom: epsilon is -1; it must be finite and at least 0");
  const Strided<float> repeated{back.data(), {3, 4}, {0, 1}};
  CHECK(MESSAGE_OF(dequantize_blocks_into(codes, scales, repeated, {3, 1}))
            .find("the destination repeats elements") != std::string::npos);
}

TEST_CASE("blocks: a block that would reach into the next matrix is refused") {
  std::vector<float> values(18, 1.0F), scales(18, 1.0F);
  std::vector<float8_e4m3> codes(18);
  const auto message = [&](std::vector<std::ptrdiff_t> shape, std::size_t rows,
                           std::size_t n_scales) {
    std::vector<std::ptrdiff_t> strides(shape.size(), 1);
    for (std::size_t d = shape.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * shape[d + 1];
    const Strided<float> tensor{values.data(), std::move(shape), strides};
    const span<float> its_scales(scales.data(), n_scales);
    const BlockShape block{rows, 0};
    const std::string text =
        MESSAGE_OF(quantize_blocks_into(tensor, codes, its_scales, block, TeBlockScaling{}));
    const std::string of_dequantize =
        MESSAGE_OF(dequantize_blocks_into(codes, its_scales, tensor, block));
    CHECK((text.empty() ? of_dequantize.empty()
                        : of_dequantize == "headroom: the destination" + text.substr(20)));
    return text;
  };
  CHECK(message({2, 3, 3}, 2, 3) ==
        "headroom: the source is 2x3x3, and a block of 2 rows would reach into the next matrix; "
        "take each matrix alone");
  CHECK(message({2, 3, 3}, 128, 1) != "");
  CHECK(message({3, 2, 3}, 6, 1) != "");
  CHECK(message({3, 6, 1}, 4, 6) != "");  // columns of one element
  for (const std::size_t rows : {1U, 3U}) CHECK(message({2, 3, 3}, rows, 6 / rows) == "");
  CHECK(message({2, 3, 3}, 0, 1) == "");  // all rows
  CHECK(message({1, 6, 3}, 4, 2) == "");
  CHECK(message({6, 3}, 4, 2) == "");
}

TEST_CASE("blocks: MXFP4 becomes NVFP4 and comes back without a change") {
  std::mt19937 random(support::seed);
  std::vector<float4_e2m1x2> codes(64 * 256), nvfp4(codes.size());
  std::vector<e8m0> scales(codes.size() / 16);
  std::vector<float8_e4m3> nvfp4_scales(codes.size() / 8);
  for (auto& code : codes) code = float4_e2m1x2::from_bits(static_cast<std::uint8_t>(random()));
  for (auto& scale : scales)
    scale = e8m0::from_bits(static_cast<std::uint8_t>(110 + random() % 18));
  std::vector<float> values(codes.size() * 2), back(values.size());
  dequantize_blocks_into(codes, scales, values, {1, 32});
  const auto differences = [&](const auto& rule) {
    const auto report = quantize_blocks_into(values, nvfp4, nvfp4_scales, {1, 16}, rule);
    dequantize_blocks_into(nvfp4, nvfp4_scales, back, {1, 16}, rule.tensor_scale);
    CHECK(report.finite);
    std::size_t different = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      different += bits_of(back[i]) != bits_of(values[i]) ? 1 : 0;
    return different;
  };
  const auto amax = static_cast<float>(measure(values).max_abs);
  CHECK(differences(Mxfp4ToNvfp4{Mxfp4ToNvfp4::tensor_scale_of(amax)}) == 0);
  CHECK(differences(ModelOptNvfp4{amax / 2688.0F}) > 0);
}

TEST_CASE("blocks: codes and scales with gaps are refused, and nothing is written between them") {
  std::vector<float> values(12, 1.0F), back(12, 3.0F);
  std::vector<float8_e4m3> codes(12), wider(18, float8_e4m3::from_bits(0x55));
  std::vector<float> scales(3, 1.0F), apart(4, 3.0F);
  const auto wider_before = bytes_of(wider);
  const Strided<float8_e4m3> gaps{wider.data(), {3, 4}, {6, 1}},
      turned{wider.data(), {3, 4}, {1, 3}};
  const Strided<float> every_second{apart.data(), {2}, {2}};
  const matrix source(values.data(), 3, 4), destination(back.data(), 3, 4);
  for (const auto& bad : {gaps, turned}) {
    const std::string message = "headroom: the codes have gaps or are not row-major";
    CHECK(MESSAGE_OF(quantize_blocks_into(source, bad, scales, {1, 4}, TeBlockScaling{})) ==
          message);
    CHECK(MESSAGE_OF(dequantize_blocks_into(bad, scales, destination, {1, 4})) == message);
  }
  const std::string message = "headroom: the scales have gaps or are not row-major";
  CHECK(MESSAGE_OF(quantize_blocks_into(source, codes, every_second, {3, 2}, TeBlockScaling{})) ==
        message);
  CHECK(MESSAGE_OF(dequantize_blocks_into(codes, every_second, destination, {3, 2})) == message);
  CHECK((bytes_of(wider) == wider_before && apart == std::vector<float>(4, 3.0F) &&
         back == std::vector<float>(12, 3.0F)));
}

TEST_CASE("blocks: a tensor that is null or read-only is refused") {
  std::vector<float> values(12, 1.0F), scales(3);
  std::vector<float8_e4m3> codes(12);
  const matrix none(static_cast<float*>(nullptr), 3, 4);
  const span<float8_e4m3> no_codes(nullptr, 12);
  const span<float> no_scales(nullptr, 3);
  const auto quantize = [&](const auto& source, const auto& its_codes, const auto& its_scales) {
    return MESSAGE_OF(
        quantize_blocks_into(source, its_codes, its_scales, {1, 4}, TeBlockScaling{}));
  };
  const matrix source(values.data(), 3, 4);
  CHECK(quantize(none, span(codes), span(scales)) ==
        "headroom: the source is null, with a size of 12");
  CHECK(quantize(source, no_codes, span(scales)) ==
        "headroom: the codes is null, with a size of 12");
  CHECK(quantize(source, span(codes), no_scales) ==
        "headroom: the scales is null, with a size of 3");
  any_tensor read_only(values.data(), dtype_code::fp32, {3, 4});
  read_only.is_read_only = true;
  CHECK(quantize(read_only, span(codes), span(scales)) == "");
  CHECK(MESSAGE_OF(dequantize_blocks_into(codes, scales, read_only, {1, 4})) ==
        "headroom: the destination is read-only");
}
