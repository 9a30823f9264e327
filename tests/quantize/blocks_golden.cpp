// quantize_blocks_into and dequantize_blocks_into against data of the systems: see
// tests/golden/README.md.
#include <headroom/quantize/blocks.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/flush.hpp"
#include "support/isa.hpp"

using namespace headroom::detail;
using namespace headroom;

namespace {

using Bytes = std::vector<std::uint8_t>;
const std::string directory = std::string(HEADROOM_TEST_DATA_DIR) + "/blocks/";

struct Tensor {
  std::string dtype;
  std::size_t rows = 1, columns = 1;
  Bytes bytes;
};
struct Case {
  std::string name;
  std::map<std::string, std::string> settings;
  std::map<std::string, Tensor> tensors;

  bool is(const std::string& key, const std::string& value) const {
    const auto found = settings.find(key);
    return found != settings.end() && found->second == value;
  }
  float number(std::size_t i) const {  // of s2
    float value = 0;
    std::memcpy(&value, &tensors.at("s2").bytes[4 * i], 4);
    return value;
  }
};

Tensor tensor_at(const std::string& text, const Bytes& data) {  // dtype:shape@offset
  Tensor tensor;
  const auto colon = text.find(':'), at = text.find('@');
  tensor.dtype = text.substr(0, colon);
  std::istringstream shape(text.substr(colon + 1, at - colon - 1));
  for (std::string n; std::getline(shape, n, 'x');) {
    tensor.rows *= tensor.columns;
    tensor.columns = std::stoul(n);
  }
  const std::size_t each = tensor.dtype == "f32" ? 4 : tensor.dtype == "bf16" ? 2 : 1;
  const auto first = data.begin() + std::stol(text.substr(at + 1));
  tensor.bytes.assign(first,
                      first + static_cast<std::ptrdiff_t>(tensor.rows * tensor.columns * each));
  return tensor;
}
std::vector<Case> cases_of(const std::string& pack) {
  std::ifstream binary(directory + pack + ".bin", std::ios::binary),
      text(directory + pack + ".txt");
  const Bytes data{std::istreambuf_iterator<char>(binary), {}};
  std::vector<Case> cases;
  std::string line;
  std::getline(text, line);
  while (std::getline(text, line)) {
    std::istringstream words(line);
    Case next;
    words >> next.name;
    for (std::string word; words >> word;) {
      const auto equals = word.find('=');
      const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
      if (value.find('@') == std::string::npos) next.settings[key] = value;
      if (value.find('@') != std::string::npos) next.tensors[key] = tensor_at(value, data);
    }
    cases.push_back(next);
  }
  REQUIRE(!cases.empty());
  return cases;
}
BlockShape shape_of(const Case& one) {
  BlockShape shape{};
  char x = 0;
  std::istringstream(one.settings.at("block")) >> shape.rows >> x >> shape.columns;
  return shape;
}

template <class T>
std::vector<T> elements_of(const Tensor& tensor) {
  std::vector<T> elements(tensor.bytes.size() / sizeof(T));
  std::memcpy(elements.data(), tensor.bytes.data(), tensor.bytes.size());
  return elements;
}
template <class F>
void with_dtype(const Tensor& tensor, const F& f) {
  if (tensor.dtype == "f32") return f(elements_of<float>(tensor));
  f(elements_of<bfloat16>(tensor));
}
/// Bits that are the same for every NaN.
template <class T>
std::uint32_t comparable(const T& element) {
  using Format = format_of<T>;
  const auto bits = bit_cast<typename Format::bits_type>(element);
  if constexpr (std::is_same_v<T, e8m0>) {
    return bits;
  } else {
    return (bits & Format::abs_mask) >= Format::smallest_nan_bits ? 0xFFFFFFFF : bits;
  }
}
template <class T>
bool is_nan(const T& element) {
  return comparable(element) == (std::is_same_v<T, e8m0> ? 0xFF : 0xFFFFFFFF);
}
/// Whether a program that flushes subnormals may take it for zero.
template <class T>
bool is_tiny(const T& value) {
  return (comparable(value) & format_of<T>::abs_mask) >> format_of<T>::mantissa_bits < 16;
}
template <class Code>
std::uint32_t code_at(const std::vector<Code>& codes, std::size_t columns, std::size_t row,
                      std::size_t column) {
  if constexpr (std::is_same_v<Code, float4_e2m1x2>) {
    return codes[row * ((columns + 1) / 2) + column / 2].bits() >> column % 2 * 4 & 15U;
  } else {
    return comparable(codes[row * columns + column]);
  }
}
/// The nearest power of two that is not below.
float rounded_up(float value) {
  float power = 1.0F;
  while (power < value) power *= 2;
  while (power / 2 >= value) power /= 2;
  return power;
}

/// How a case is compared.
struct Compare {
  bool zero_signs = true;      ///< of codes
  bool finite_blocks = false;  ///< only
};

template <class Code, class Scale, class Rule>
void check_quantize(const Case& one, const Rule& rule, Compare compare = {},
                    const std::vector<Rule>& row_rules = {}) {
  constexpr bool is_packed = std::is_same_v<Code, float4_e2m1x2>;
  const auto wanted_codes = elements_of<Code>(one.tensors.at("q"));
  auto wanted = elements_of<Scale>(one.tensors.at("s"));
  with_dtype(one.tensors.at("in"), [&](const auto& source) {
    const std::size_t rows = one.tensors.at("in").rows, columns = source.size() / rows;
    const BlockShape shape = shape_of(one);
    const std::size_t across = (columns + shape.columns - 1) / shape.columns,
                      down = (rows + shape.rows - 1) / shape.rows;
    const std::size_t row_bytes = is_packed ? (columns + 1) / 2 : columns;
    // TransformerEngine repeats the scales of a 16 x 16 tile in each row
    if (one.tensors.at("s").rows > down) {
      std::vector<Scale> first_rows;
      for (std::size_t b = 0; b < down * across; ++b)
        first_rows.push_back(wanted[b / across * shape.rows * across + b % across]);
      wanted = first_rows;
    }
    support::for_each_isa([&](Isa) {
      std::vector<Code> codes(rows * row_bytes);
      std::vector<Scale> scales(down * across);
      const matrix whole(source.data(), rows, columns);
      if (row_rules.empty()) (void)quantize_blocks_into(whole, codes, scales, shape, rule);
      for (std::size_t r = 0; r < row_rules.size(); ++r) {
        (void)quantize_blocks_into(matrix(source.data() + r * columns, 1, columns),
                                   span(&codes[r * row_bytes], row_bytes),
                                   span(&scales[r * across], across), shape, row_rules[r]);
      }
      std::vector<bool> is_finite(down * across, true);
      for (std::size_t i = 0; i < source.size(); ++i) {
        const auto bits = convert_bits<format_of<std::decay_t<decltype(source[0])>>, binary32>(
            bit_cast<typename format_of<std::decay_t<decltype(source[0])>>::bits_type>(source[i]));
        if ((bits & binary32::abs_mask) >= binary32::infinity_bits)
          is_finite[i / columns / shape.rows * across + i % columns / shape.columns] = false;
      }
      std::size_t different_scales = 0, different_codes = 0;
      for (std::size_t b = 0; b < scales.size(); ++b) {
        if (compare.finite_blocks && !is_finite[b]) continue;
        different_scales += comparable(scales[b]) != comparable(wanted[b]) ? 1 : 0;
      }
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) {
          const std::size_t b = r / shape.rows * across + c / shape.columns;
          if ((compare.finite_blocks && !is_finite[b]) ||
              (is_nan(scales[b]) && !std::is_same_v<Scale, float>))
            continue;
          const auto code = code_at(codes, columns, r, c),
                     expected = code_at(wanted_codes, columns, r, c);
          const auto magnitude = format_of<Code>::abs_mask;
          const bool both_zero =
              !compare.zero_signs && (code & magnitude) == 0 && (expected & magnitude) == 0;
          const bool flushed = support::flushes_subnormals() && (code & magnitude) == 0 &&
                               is_tiny(source[r * columns + c]);
          different_codes += code != expected && !both_zero && !flushed ? 1 : 0;
        }
      }
      CHECK(different_scales == 0);
      CHECK(different_codes == 0);
    });
  });
}
template <class Code, class Scale>
void check_dequantize(const Case& one, float tensor_scale = 1.0F, bool zero_signs = true) {
  if (one.tensors.count("d") == 0) return;
  const auto codes = elements_of<Code>(one.tensors.at("q"));
  const auto scales = elements_of<Scale>(one.tensors.at("s"));
  with_dtype(one.tensors.at("d"), [&](const auto& wanted) {
    support::for_each_isa([&](Isa) {
      auto values = wanted;
      using T = std::decay_t<decltype(values[0])>;
      std::fill(values.begin(), values.end(), T{});
      const std::size_t columns = one.tensors.at("d").columns;
      dequantize_blocks_into(codes, scales, matrix(values.data(), values.size() / columns, columns),
                             shape_of(one), tensor_scale);
      std::size_t different = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool both_zero = !zero_signs && static_cast<float>(values[i]) == 0.0F &&
                               static_cast<float>(wanted[i]) == 0.0F;
        const bool is_zero = (comparable(values[i]) & format_of<T>::abs_mask) == 0;
        const bool flushed = support::flushes_subnormals() && is_zero && is_tiny(wanted[i]);
        different +=
            comparable(values[i]) != comparable(wanted[i]) && !both_zero && !flushed ? 1 : 0;
      }
      CHECK(different == 0);
    });
  });
}

template <class Code>
void check_fp8(const Case& one) {
  if (one.is("rule", "te"))
    check_quantize<Code, float>(
        one, TeBlockScaling{std::stof(one.settings.at("eps")), one.is("pow2", "1")}, {true, true});
  if (one.is("rule", "torchao")) check_quantize<Code, float>(one, TorchaoBlockScaling{});
  if (one.is("rule", "deepseek") && !one.is("expect", "differs"))
    check_quantize<Code, float>(one, DeepSeekScaling{one.is("ue8m0", "1")});
  check_dequantize<Code, float>(one);
}

}  // namespace

TEST_CASE("blocks: fp8 of TransformerEngine, torchao and DeepSeek") {
  for (const Case& one : cases_of("fp8_block")) {
    INFO(one.name);
    if (one.tensors.at("q").dtype == "e5m2") {
      check_fp8<float8_e5m2>(one);
    } else {
      check_fp8<float8_e4m3>(one);
    }
  }
}

TEST_CASE("blocks: MXFP4 of torchao, gpt-oss and ModelOpt") {
  const std::map<std::string, MxScale> rules = {{"floor", MxScale::floor},
                                                {"ceil", MxScale::ceil},
                                                {"rceil", MxScale::rceil},
                                                {"even", MxScale::even}};
  for (const Case& one : cases_of("mxfp4")) {
    // ModelOpt's logarithm is not exact; gpt-oss reads scales of NaN as numbers
    if (one.is("expect", "differs")) continue;
    INFO(one.name);
    const auto rule = rules.find(one.settings.at("rule"));
    if (rule != rules.end()) check_quantize<float4_e2m1x2, e8m0>(one, MxScaling{rule->second});
    check_dequantize<float4_e2m1x2, e8m0>(one);
  }
}

TEST_CASE("blocks: NVFP4 of torchao, TransformerEngine and ModelOpt") {
  for (const Case& one : cases_of("nvfp4")) {
    if (one.is("expect", "differs")) continue;
    INFO(one.name);
    const float level = one.tensors.count("s2") != 0 ? one.number(0) : 1.0F;
    if (one.is("rule", "torchao") && level != 0.0F)  // of zeros: torchao's codes are NaN
      check_quantize<float4_e2m1x2, float8_e4m3>(one, TorchaoNvfp4{level});
    if (one.is("rule", "modelopt"))
      check_quantize<float4_e2m1x2, float8_e4m3>(one, ModelOptNvfp4{level}, {false});
    std::vector<TeNvfp4> row_rules;
    for (std::size_t r = 0; one.is("row_scaled", "1") && r < one.tensors.at("in").rows; ++r)
      row_rules.push_back({one.number(r)});
    if (one.is("rule", "te") && one.is("four_over_six", "none"))
      check_quantize<float4_e2m1x2, float8_e4m3>(one, TeNvfp4{level}, {false}, row_rules);
    check_dequantize<float4_e2m1x2, float8_e4m3>(one, level, !one.is("rule", "modelopt"));
  }
}

TEST_CASE("TeBlockScaling: the scales of TransformerEngine's device code") {
  std::FILE* const file = std::fopen((directory + "te_block_scales.txt").c_str(), "r");
  REQUIRE(file != nullptr);
  char comment[256];
  REQUIRE(std::fgets(comment, sizeof comment, file) != nullptr);
  unsigned source_max = 0, amax = 0, scale = 0, lines = 0, different = 0;
  float largest = 0, epsilon = 0;
  for (int power = 0; std::fscanf(file, "%x %g %g %d %x %x", &source_max, &largest, &epsilon,
                                  &power, &amax, &scale) == 6;) {
    const TeBlockScaling rule{epsilon, power != 0};
    const auto as_float = [](unsigned bits) { return bit_cast<float>(bits); };
    const BlockScale<float> made = largest == 448.0F
                                       ? rule.scale<e4m3>(as_float(amax), as_float(source_max))
                                       : rule.scale<e5m2>(as_float(amax), as_float(source_max));
    different += bit_cast<unsigned>(made.factor) != scale ? 1 : 0;
    ++lines;
  }
  (void)std::fclose(file);
  CHECK(lines == 440);
  CHECK(different == 0);
}

TEST_CASE("DeepSeekScaling: ue8m0 rounds up exactly, where DeepSeek's logarithm does not") {
  for (const Case& one : cases_of("fp8_block")) {
    if (!one.is("rule", "deepseek") || !one.is("ue8m0", "1") || one.tensors.at("in").dtype != "f32")
      continue;
    const auto source = elements_of<float>(one.tensors.at("in"));
    std::vector<float8_e4m3> codes(source.size());
    std::vector<float> scales(source.size() / 128), powers(scales.size());
    (void)quantize_blocks_into(source, codes, scales, {1, 128}, DeepSeekScaling{});
    (void)quantize_blocks_into(source, codes, powers, {1, 128}, DeepSeekScaling{true});
    for (std::size_t b = 0; b < scales.size(); ++b)
      CHECK((scales[b] > 1e30F || powers[b] == rounded_up(scales[b])));
  }
}
