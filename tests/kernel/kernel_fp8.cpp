// The kernels that read and write 8-bit formats, on every instruction set, against slow references;
// and that no kernel reads or writes outside of its span.
#include <headroom/headroom.hpp>
#include <headroom/kernel/table.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/fp8.hpp"
#include "support/guard_page.hpp"
#include "support/isa.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace headroom::detail;
using namespace support;

namespace {

template <class... Formats, class F>
void for_each_format(F f) {
  (f(Formats{}), ...);
}
template <class Format>
using Bits = std::vector<typename Format::bits_type>;
using Bytes = Bits<e4m3>;

template <Op op, class In, class Out>
Found run(const void* source, void* destination, std::size_t n, double factor) {
  const Piece piece{source, destination, n};
  Found found{0, 0.0};
  kernels<op, In, Out>[isa_index()](&piece, &piece + 1, Pass{op, factor}, found);
  return found;
}
template <class F>
using element_of = std::conditional_t<
    std::is_same_v<F, binary32>, float,
    std::conditional_t<std::is_same_v<F, binary64>, double,
                       std::conditional_t<is_packed<F>, float4_e2m1x2, storage_float<F>>>>;
template <class In, class F>
Found quantize_mx(const void* source, void* codes, void* scales, std::size_t n, MxScale rule) {
  const auto report = quantize_blocks_into(span(static_cast<const element_of<In>*>(source), n),
                                           span(static_cast<element_of<F>*>(codes), bytes_of<F>(n)),
                                           span(static_cast<e8m0*>(scales), (n + 31) / 32), {1, 32},
                                           MxScaling{rule});
  const std::uint64_t largest = bit_cast<std::uint64_t>(report.max_abs);
  return {report.finite ? largest : binary64::infinity_bits, 0.0};
}
/// The scales end before a guard page.
template <class F, class Out>
void dequantize_mx(const void* codes, void* destination, std::size_t n) {
  static const GuardedMemory memory(8);
  const std::size_t blocks = (n + 31) / 32;
  for (std::size_t i = 0; i < blocks; ++i)
    memory.last<unsigned char>(blocks)[i] = static_cast<unsigned char>(120 + i);
  dequantize_blocks_into(span(static_cast<const element_of<F>*>(codes), bytes_of<F>(n)),
                         span(memory.last<const e8m0>(blocks), blocks),
                         span(static_cast<element_of<Out>*>(destination), n), {1, 32});
}
/// The kernels for blocks of `width` elements. What they read and write for each block ends before
/// a guard page.
template <class In, class Out>
void scale_blocks(const void* source, void* destination, std::size_t n, std::size_t width,
                  double exponent) {
  static const GuardedMemory memory(4096);
  const std::size_t blocks = (n + width - 1) / width, isa = isa_index();
  auto* const factors = memory.last<float>(blocks);
  Found unused{0, 0.0};
  if constexpr (!is_code<In>) {
    const Piece piece{source, factors, n};
    std::memset(factors, 0, blocks * sizeof(float));
    Pass find{Op::block_max_abs};
    find.block_size = width;
    kernels<Op::block_max_abs, In>[isa](&piece, &piece + 1, find, unused);
  }
  const float nan = bit_cast<float>(binary32::quiet_nan_bits);
  for (std::size_t i = 0; i < blocks; ++i)
    factors[i] = i % 9 == 4 ? nan : 0.3F * static_cast<float>(i % 9 + 1);
  const Piece pieces[] = {{source, destination, n}, {factors, nullptr, width}};
  Pass scale{Op::scale_blocks};
  scale.divides_by_factors = exponent < 0;
  kernels<Op::scale_blocks, In, Out>[isa](pieces, pieces + 2, scale, unused);
}

/// Runs an op on all instruction sets, compares with what is expected, and to the bit with the
/// portable kernel, except that the payloads of wider NaNs may differ. `Stored` is Out, or
/// saturating<Out> for casts.
template <Op op, class In, class Out, class Stored = Out>
void check_values(const Bits<In>& elements, const std::vector<Outcome>& expected, float factor) {
  Bits<Out> portable(elements.size()), results(elements.size());
  for_each_isa([&](Isa isa) {
    const Found found = run<op, In, Stored>(elements.data(), results.data(), elements.size(),
                                            static_cast<double>(factor));
    if (isa == Isa::portable) portable = results;
    Mismatches wrong;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const bool same = results[i] == portable[i] ||
                        (sizeof portable[i] > 1 && same_bits<Out>(results[i], portable[i]));
      wrong.expect(same && agrees<Out>(results[i], expected[i]), [&] {
        return hex(elements[i]) + " became " + hex(results[i]) + ", not " + hex(expected[i].bits);
      });
    }
    INFO("e" << In::exponent_bits << "m" << In::mantissa_bits << " to e" << Out::exponent_bits
             << "m" << Out::mantissa_bits << ", times " << factor << ": " << wrong.first());
    CHECK(wrong.count() == 0);
    CHECK(found.max_abs == (op == Op::cast       ? 0
                            : op == Op::quantize ? largest_of<In>(elements)
                                                 : largest_of<Out>(results)));
  });
}
/// Quantizes by several factors, and casts with saturation, first all elements, then the finite
/// ones.
template <class In, class F>
void check_to_fp8(Bits<In> elements, std::initializer_list<float> factors) {
  for (int pass = 0; pass < 2; ++pass) {
    for (const float factor : factors) {
      std::vector<Outcome> expected;
      for (const auto bits : elements) expected.push_back(quantized<In, F>(bits, factor));
      check_values<Op::quantize, In, F>(elements, expected, factor);
      if (factor == 1.0F) check_values<Op::cast, In, F, saturating<F>>(elements, expected, factor);
    }
    const auto is_not_finite = [](auto bits) { return !is_finite<In>(bits); };
    elements.erase(std::remove_if(elements.begin(), elements.end(), is_not_finite), elements.end());
  }
}
template <class F, class Out>
void check_from_fp8() {
  Bits<F> codes;
  for (int i = 0; i < 600; ++i) codes.push_back(static_cast<std::uint8_t>(i));
  for (const float factor :
       {1.0F, 0x1p-9F, 0.3F, 1.0F / 448.0F, 77.7F, -3.0F, 0x1p100F, 0x1p-120F}) {
    std::vector<Outcome> expected;
    for (const auto code : codes) expected.push_back(compute<F, Out>(&product, code, factor));
    check_values<Op::scale, F, Out>(codes, expected, factor);
    if (factor == 1.0F) check_values<Op::cast, F, Out>(codes, expected, factor);
  }
}

/// How many floats `first + step * i` are quantized or cast wrong.
template <class F>
std::size_t wrong_floats(std::uint64_t first, std::uint64_t step, std::size_t count) {
  Bits<binary32> elements(count);
  Bits<F> expected(count), results(count);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    elements[i] = static_cast<std::uint32_t>(first + step * i);
    expected[i] = static_cast<std::uint8_t>(quantized<binary32, F>(elements[i], 1.0F).bits);
  }
  for_each_isa([&](Isa) {
    run<Op::quantize, binary32, F>(elements.data(), results.data(), count, 1.0);
    wrong += results == expected ? 0 : 1;
    run<Op::cast, binary32, saturating<F>>(elements.data(), results.data(), count, 1.0);
    wrong += results == expected ? 0 : 1;
  });
  return wrong;
}

/// Numbers of magnitudes that fp8 has. The first of each 32 is the largest.
template <class Format>
Bits<Format> some_elements() {
  std::mt19937 random(seed);
  Bits<Format> elements(200);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = random_magnitude<Format>(random, i % 32 == 0 ? 6 : -4, i % 32 == 0 ? 6 : 5);
    if (random() % 2 == 0) elements[i] |= Format::sign_mask;
    // Two elements
    if (is_packed<Format>) elements[i] = static_cast<typename Format::bits_type>(random());
  }
  return elements;
}
/// Calls `f(source, destination, n)` with all lengths at some places between guard pages. The
/// results must be those of a longer call.
template <class In, class Out, class F>
void check_places(const std::string& name, const F& f) {
  static const GuardedMemory source(4096), destination(4096);
  const Bits<In> elements = some_elements<In>();
  Bits<Out> expected(200);
  f(elements.data(), expected.data(), expected.size());
  Mismatches wrong;
  for (std::size_t n = 0; n <= 200; ++n) {
    for (const std::size_t offset : {0U, 1U, 2U, 5U, 32U, 99U}) {
      unsigned char* const from =
          offset == 99 ? source.end() - bytes_of<In>(n) : source.begin() + offset;
      const std::size_t there = (offset * 3 + n) % 67, size = bytes_of<Out>(n);
      unsigned char* const to =
          offset == 99 ? destination.end() - size : destination.begin() + there;
      std::memset(destination.begin(), 0xA5, destination.size());
      if (n > 0) std::memcpy(from, elements.data(), bytes_of<In>(n));
      f(from, to, n);
      Bits<Out> here = expected;
      if (is_packed<Out> && n % 2 != 0) here[n / 2] &= 0xF;
      const auto is_untouched = [](unsigned char byte) { return byte == 0xA5; };
      const bool right = std::memcmp(to, here.data(), size) == 0 &&
                         std::all_of(destination.begin(), to, is_untouched) &&
                         std::all_of(to + size, destination.end(), is_untouched);
      wrong.expect(right, [&] {
        return name + ", n = " + std::to_string(n) + ", offset " + std::to_string(offset);
      });
    }
  }
  CHECK(wrong.first() == "");
}

/// Quantizes one row in blocks and compares with the slow reference.
template <class In, class F>
void check_row(Mismatches& wrong, const Bits<In>& row, MxScale rule) {
  Bits<F> codes(row.size());
  Bytes scales((row.size() + 31) / 32);
  const Found found = quantize_mx<In, F>(row.data(), codes.data(), scales.data(), row.size(), rule);
  const auto expected = mx_row<In, F>(row, rule);
  for (std::size_t i = 0; i < row.size(); ++i) {
    // One pattern, with the sign of the element
    const bool is_nan = expected.codes[i].bits == F::quiet_nan_bits;
    const auto nan = static_cast<std::uint8_t>(F::quiet_nan_bits |
                                               ((row[i] & In::sign_mask) != 0 ? F::sign_mask : 0));
    const bool right = is_nan ? codes[i] == nan : agrees<F>(codes[i], expected.codes[i]);
    wrong.expect(right && scales[i / 32] == expected.scales[i / 32], [&] {
      return hex(row[i]) + " became " + hex(codes[i]) + " with scale " +
             std::to_string(scales[i / 32]) + ", not " + hex(expected.codes[i].bits) + " with " +
             std::to_string(expected.scales[i / 32]);
    });
  }
  const std::uint64_t largest =
      expected.finite ? largest_of<In>(row) : std::uint64_t{binary64::infinity_bits};
  wrong.expect(found.max_abs == largest,
               [&] { return "largest " + hex(found.max_abs) + ", not " + hex(largest); });
}

/// A file of tests/golden/fp8 as it is.
template <class T>
std::vector<T> golden_bytes(const std::string& file) {
  std::ifstream in(std::string(HEADROOM_TEST_DATA_DIR) + "/fp8/" + file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (bytes.empty()) throw std::runtime_error("cannot read " + file);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

TEST_CASE("quantize and saturating cast of a sample of all floats", "[kernel]") {
  // An odd step goes through all lower bits of the mantissa.
  const std::uint64_t step = is_exhaustive ? 4099 : 81929;
  CHECK(wrong_floats<e4m3>(0, step, (std::uint64_t{1} << 32) / step) == 0);
  CHECK(wrong_floats<e5m2>(1, step, (std::uint64_t{1} << 32) / step) == 0);
}

TEST_CASE("quantize and saturating cast of all floats", "[.exhaustive]") {
  std::size_t wrong = 0;
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += 1 << 20) {
    wrong += wrong_floats<e4m3>(first, 1, 1 << 20) + wrong_floats<e5m2>(first, 1, 1 << 20);
  }
  CHECK(wrong == 0);
}

TEST_CASE("quantize and saturating cast at every boundary and of every 16-bit pattern",
          "[kernel]") {
  for_each_format<e4m3, e5m2>([](auto format) {
    using F = decltype(format);
    Bits<binary32> floats = sample_bits<binary32>();
    Bits<binary64> doubles = sample_bits<binary64>();
    for (const auto& boundary : boundaries<binary32, F>()) floats.push_back(boundary.wide);
    for (const auto& boundary : boundaries<binary64, F>()) doubles.push_back(boundary.wide);
    check_to_fp8<binary32, F>(floats, {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F, 0x1p126F, 0x1p-126F});
    check_to_fp8<binary64, F>(doubles, {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F});
    check_to_fp8<binary16, F>(sample_bits<binary16>(),
                              {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F, 0x1p20F});
    check_to_fp8<brain16, F>(sample_bits<brain16>(),
                             {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F, 0x1p126F});
  });
}

TEST_CASE("scale and cast from 8 bits, all codes", "[kernel]") {
  for_each_format<e4m3, e5m2>([](auto format) {
    using F = decltype(format);
    for_each_format<binary32, binary16, brain16, binary64>(
        [](auto out) { check_from_fp8<F, decltype(out)>(); });
  });
}

TEST_CASE("nothing outside the span is read or written, whatever the length and the address",
          "[kernel]") {
  for_each_isa([](Isa) {
    for_each_format<binary32, binary16, brain16, binary64>([](auto wide) {
      using Wide = decltype(wide);
      for_each_format<binary32, binary16, brain16, binary64>([](auto out) {
        using Out = decltype(out);
        check_places<Wide, Out>("scale",
                                [](auto... args) { run<Op::scale, Wide, Out>(args..., 0.5); });
        check_places<Wide, Out>("unscale",
                                [](auto... args) { run<Op::unscale, Wide, Out>(args..., 3.0); });
        check_places<Wide, Out>("cast and read", [](auto* from, auto* to, std::size_t n) {
          run<Op::cast, Wide, Out>(from, to, n, 1.0);
          run<Op::measure, Wide, Wide>(from, nullptr, n, 1.0);
          run<Op::max_abs, Wide, Wide>(from, nullptr, n, 1.0);
        });
      });
      for_each_format<e4m3, e5m2>([](auto format) {
        using F = decltype(format);
        check_places<Wide, F>("quantize",
                              [](auto... args) { run<Op::quantize, Wide, F>(args..., 0.3); });
        check_places<Wide, F>(
            "cast to fp8", [](auto... args) { run<Op::cast, Wide, saturating<F>>(args..., 1.0); });
        check_places<F, Wide>("scale", [](auto... args) { run<Op::scale, F, Wide>(args..., 0.3); });
        check_places<F, Wide>("cast", [](auto... args) { run<Op::cast, F, Wide>(args..., 1.0); });
      });
      for_each_format<e4m3, e5m2, e2m1>([](auto format) {
        using F = decltype(format);
        check_places<Wide, F>("blocks", [](auto* from, auto* to, std::size_t n) {
          static const GuardedMemory scales(8);
          quantize_mx<Wide, F>(from, to, scales.end() - (n + 31) / 32, n, MxScale::rceil);
        });
        check_places<F, Wide>("blocks to numbers",
                              [](auto... args) { dequantize_mx<F, Wide>(args...); });
        for (const std::size_t width : {6, 16, 32, 128}) {
          const std::string name = "blocks of " + std::to_string(width);
          for (const double exponent : {1.0, -1.0})
            check_places<Wide, F>(
                name, [&](auto... args) { scale_blocks<Wide, F>(args..., width, exponent); });
          check_places<F, Wide>(name + " to numbers",
                                [&](auto... args) { scale_blocks<F, Wide>(args..., width, 1.0); });
        }
      });
    });
  });
}

TEST_CASE("MX equals torchao", "[kernel]") {
  const auto elements = golden_bytes<std::uint32_t>("mx_in.bin");
  const char* const names[] = {"floor", "rceil", "ceil", "even"};  // in the order of MxScale
  for_each_format<e4m3, e5m2>([&](auto format) {
    using F = decltype(format);
    for (const MxScale rule : mx_rules) {
      const std::string name = std::string(F::mantissa_bits == 3 ? "mx_e4m3_" : "mx_e5m2_") +
                               names[static_cast<std::size_t>(rule)];
      const Bytes golden_codes = golden_bytes<std::uint8_t>(name + ".q"),
                  golden_scales = golden_bytes<std::uint8_t>(name + ".s");
      for_each_isa([&](Isa) {
        Bits<F> codes(elements.size());
        Bytes scales(elements.size() / 32);
        quantize_mx<binary32, F>(elements.data(), codes.data(), scales.data(), elements.size(),
                                 rule);
        Mismatches wrong;
        for (std::size_t i = 0; i < elements.size(); ++i) {
          const bool is_subnormal = (elements[i] & binary32::abs_mask) < 0x00800000;
          wrong.expect(agrees<F>(codes[i], {golden_codes[i], is_subnormal}), [&] {
            return hex(elements[i]) + " became " + hex(codes[i]) + ", not " + hex(golden_codes[i]);
          });
        }
        INFO(name << ": " << wrong.first());
        CHECK((wrong.count() == 0 && scales == golden_scales));
      });
    }
  });
}

TEST_CASE("MX: the four rules for all exponents and the mantissas where a scale changes",
          "[kernel]") {
  Bits<binary32> mantissas = {0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF};
  // 1.75, and what rounds up with two and three digits
  for (const std::uint32_t edge : {0x600000U, 0x700000U, 0x780000U}) {
    for (const std::uint32_t near : {edge - 1, edge, edge + 1}) mantissas.push_back(near);
  }
  for_each_format<e4m3, e5m2>([&](auto format) {
    using F = decltype(format);
    for_each_isa([&](Isa) {
      Mismatches wrong;
      for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
        // Each block has one magnitude at another place, and smaller ones, some of them subnormal.
        Bits<binary32> row;
        for (std::size_t i = 0; i < mantissas.size(); ++i) {
          const std::uint32_t largest = exponent << 23 | mantissas[i];
          Bits<binary32> block(32, largest < 0x05000000 ? largest / 3 : largest - 0x01900000);
          block[(i * 5 + exponent) % 32] = largest | (i % 2 == 0 ? binary32::sign_mask : 0U);
          block[(i * 5 + exponent + 1) % 32] = largest / 2 | binary32::sign_mask;
          block[(i * 5 + exponent + 2) % 32] = 0;
          row.insert(row.end(), block.begin(), block.end());
        }
        for (const MxScale rule : mx_rules) check_row<binary32, F>(wrong, row, rule);
      }
      CHECK(wrong.first() == "");
    });
  });
}

TEST_CASE("MX: random rows of all lengths and dtypes", "[kernel]") {
  for_each_format<e4m3, e5m2>([&](auto format) {
    using F = decltype(format);
    for_each_dtype([&](auto type) {
      using T = typename decltype(type)::type;
      for_each_isa([&](Isa) {
        std::mt19937 random(seed);
        Mismatches wrong;
        for (std::size_t n = 0; n <= 300; ++n) {
          std::vector<T> row(n);
          for (T& element : row) randomize(element, random, -9, 9, 100);
          check_row<format_of<T>, F>(wrong, bits_of(row), mx_rules[n % 4]);
        }
        CHECK(wrong.first() == "");
      });
    });
  });
}
