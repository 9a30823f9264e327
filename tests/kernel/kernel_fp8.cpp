// The kernels that read and write 8-bit formats, on every instruction set, against slow references;
// and that no kernel reads or writes outside of its span.
#include <headroom/headroom.hpp>
#include <headroom/kernel/table.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
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
#include "support/kernels.hpp"
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

/// Numbers of magnitudes that fp8 has. The first of each 32 is the largest.
template <class Format>
AnyBits some_elements() {
  std::mt19937 random(seed);
  Bits<Format> elements(200);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] = random_magnitude<Format>(random, i % 32 == 0 ? 6 : -4, i % 32 == 0 ? 6 : 5);
    if (random() % 2 == 0) elements[i] |= Format::sign_mask;
    // Two elements
    if (is_packed<Format>) elements[i] = static_cast<typename Format::bits_type>(random());
  }
  return {elements.begin(), elements.end()};
}
template <class Element>
Bytes to_memory(const AnyBits& elements) {
  const std::vector<Element> narrow(elements.begin(), elements.end());
  Bytes memory(elements.size() * sizeof(Element));
  if (!memory.empty()) std::memcpy(memory.data(), narrow.data(), memory.size());
  return memory;
}
template <class Element>
AnyBits from_memory(const Bytes& memory) {
  std::vector<Element> narrow(memory.size() / sizeof(Element));
  if (!memory.empty()) std::memcpy(narrow.data(), memory.data(), memory.size());
  return {narrow.begin(), narrow.end()};
}
/// A format as an argument. The checks are compiled once for all formats, because each takes long.
struct AnyFormat {
  int exponent_bits, mantissa_bits;
  std::uint64_t quiet_nan_bits;
  support::Layout layout;
  AnyBits (*some_elements)();
  Bytes (*to_memory)(const AnyBits&);
  AnyBits (*from_memory)(const Bytes&);
  std::uint64_t (*largest_of)(const AnyBits&);

  [[nodiscard]] std::string name() const { return name_of(exponent_bits, mantissa_bits); }
  [[nodiscard]] bool is_packed() const { return bits() == 4; }
  [[nodiscard]] std::size_t bits() const {
    return 1 + static_cast<std::size_t>(exponent_bits + mantissa_bits);
  }
  [[nodiscard]] std::size_t bytes_of(std::size_t n) const { return (n * bits() + 7) / 8; }
};
template <class F>
constexpr AnyFormat any_format = {F::exponent_bits,
                                  F::mantissa_bits,
                                  F::quiet_nan_bits,
                                  support::layout_of<F>,
                                  &some_elements<F>,
                                  &to_memory<typename F::bits_type>,
                                  &from_memory<typename F::bits_type>,
                                  &largest_of<F, AnyBits>};

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
/// a guard page. `max_abs` is null for codes.
void scale_blocks(const Kernel* max_abs, const Kernel* scale, const void* source, void* destination,
                  std::size_t n, std::size_t width, bool divides) {
  static const GuardedMemory memory(4096);
  const std::size_t blocks = (n + width - 1) / width;
  auto* const factors = memory.last<float>(blocks);
  Found unused{0, 0.0};
  if (max_abs != nullptr) {
    std::memset(factors, 0, blocks * sizeof(float));
    Pass find{Op::block_max_abs};
    find.block_size = width;
    run_kernel(max_abs, find, source, factors, n);
  }
  const float nan = bit_cast<float>(binary32::quiet_nan_bits);
  for (std::size_t i = 0; i < blocks; ++i)
    factors[i] = i % 9 == 4 ? nan : 0.3F * static_cast<float>(i % 9 + 1);
  const Piece pieces[] = {{source, destination, n}, {factors, nullptr, width}};
  Pass pass{Op::scale_blocks};
  pass.divides_by_factors = divides;
  scale[isa_index()](pieces, pieces + 2, pass, unused);
}

/// A kernel and what it should store for an element.
struct Tested {
  Op op;
  const Kernel* by_isa;
  AnyFormat in, out;
  Outcome (*expected)(std::uint64_t element, float factor);
};
template <class In, class Out>
Outcome expected_of(std::uint64_t element, float factor) {
  const auto bits = static_cast<typename In::bits_type>(element);
  if constexpr (is_fp8<Out>)
    return quantized<In, Out>(bits, factor);
  else
    return compute<In, Out>(&product, bits, factor);
}
/// `Stored` is Out, or saturating<Out> for casts.
template <Op op, class In, class Out, class Stored = Out>
constexpr Tested tested = {op, kernels<op, In, Stored>, any_format<In>, any_format<Out>,
                           &expected_of<In, Out>};

/// Runs an op on all instruction sets, compares with what is expected, and to the bit with the
/// portable kernel, except that the payloads of wider NaNs may differ.
void check_values(const Tested& tested, const AnyBits& elements, float factor) {
  std::vector<Outcome> expected;
  for (const auto bits : elements) expected.push_back(tested.expected(bits, factor));
  const Bytes source = tested.in.to_memory(elements);
  Bytes destination(tested.out.bytes_of(elements.size()));
  AnyBits portable;
  for_each_isa([&](Isa isa) {
    const Found found = run_kernel(tested.by_isa, {tested.op, static_cast<double>(factor)},
                                   source.data(), destination.data(), elements.size());
    const AnyBits results = tested.out.from_memory(destination);
    if (isa == Isa::portable) portable = results;
    Mismatches wrong;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const bool same =
          results[i] == portable[i] ||
          (tested.out.bits() > 8 && tested.out.layout.same_bits(results[i], portable[i]));
      wrong.expect(same && agrees(tested.out.layout, results[i], expected[i]), [&] {
        return hex(elements[i]) + " became " + hex(results[i]) + ", not " + hex(expected[i].bits);
      });
    }
    INFO(tested.in.name() << " to " << tested.out.name() << ", times " << factor << ": "
                          << wrong.first());
    CHECK(wrong.count() == 0);
    CHECK(found.max_abs == (tested.op == Op::cast       ? 0
                            : tested.op == Op::quantize ? tested.in.largest_of(elements)
                                                        : tested.out.largest_of(results)));
  });
}
/// By several factors, and casts, first all elements, then the finite ones.
void check_to_fp8(const Tested& quantize, const Tested& cast, AnyBits elements,
                  std::initializer_list<float> factors) {
  for (int pass = 0; pass < 2; ++pass) {
    for (const float factor : factors) {
      check_values(quantize, elements, factor);
      if (factor == 1.0F) check_values(cast, elements, factor);
    }
    const auto is_not_finite = [&](std::uint64_t bits) {
      return quantize.in.largest_of({bits}) == binary64::infinity_bits;
    };
    elements.erase(std::remove_if(elements.begin(), elements.end(), is_not_finite), elements.end());
  }
}
template <class In, class F>
void check_to_fp8(const AnyBits& elements, std::initializer_list<float> factors) {
  check_to_fp8(tested<Op::quantize, In, F>, tested<Op::cast, In, F, saturating<F>>, elements,
               factors);
}
void check_from_fp8(const Tested& scale, const Tested& cast) {
  AnyBits codes;
  for (std::uint64_t i = 0; i < 600; ++i) codes.push_back(i % 256);
  for (const float factor :
       {1.0F, 0x1p-9F, 0.3F, 1.0F / 448.0F, 77.7F, -3.0F, 0x1p100F, 0x1p-120F}) {
    check_values(scale, codes, factor);
    if (factor == 1.0F) check_values(cast, codes, factor);
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
    run_kernel(kernels<Op::quantize, binary32, F>, {Op::quantize}, elements.data(), results.data(),
               count);
    wrong += results == expected ? 0 : 1;
    run_kernel(kernels<Op::cast, binary32, saturating<F>>, {Op::cast}, elements.data(),
               results.data(), count);
    wrong += results == expected ? 0 : 1;
  });
  return wrong;
}

/// Calls `f(source, destination, n)` with all lengths at some places between guard pages. The
/// results must be those of a longer call.
void check_places(const std::string& name, const AnyFormat& in, const AnyFormat& out,
                  const std::function<void(const void*, void*, std::size_t)>& f) {
  static const GuardedMemory source(4096), destination(4096);
  const Bytes elements = in.to_memory(in.some_elements());
  Bytes expected(out.bytes_of(200));
  f(elements.data(), expected.data(), 200);
  Mismatches wrong;
  for (std::size_t n = 0; n <= 200; ++n) {
    for (const std::size_t offset : {0U, 1U, 2U, 5U, 32U, 99U}) {
      unsigned char* const from =
          offset == 99 ? source.end() - in.bytes_of(n) : source.begin() + offset;
      const std::size_t there = (offset * 3 + n) % 67, size = out.bytes_of(n);
      unsigned char* const to =
          offset == 99 ? destination.end() - size : destination.begin() + there;
      std::memset(destination.begin(), 0xA5, destination.size());
      if (n > 0) std::memcpy(from, elements.data(), in.bytes_of(n));
      f(from, to, n);
      Bytes here = expected;
      if (out.is_packed() && n % 2 != 0) here[n / 2] &= 0xF;
      const auto is_untouched = [](unsigned char byte) { return byte == 0xA5; };
      const bool right = std::memcmp(to, here.data(), size) == 0 &&
                         std::all_of(destination.begin(), to, is_untouched) &&
                         std::all_of(to + size, destination.end(), is_untouched);
      wrong.expect(right, [&] {
        return name + ", " + in.name() + " to " + out.name() + ", n = " + std::to_string(n) +
               ", offset " + std::to_string(offset);
      });
    }
  }
  CHECK(wrong.first() == "");
}
void check_places(const char* name, const Tested& tested, double factor) {
  check_places(name, tested.in, tested.out, [&](const void* from, void* to, std::size_t n) {
    run_kernel(tested.by_isa, {tested.op, factor}, from, to, n);
  });
}
/// `measure` and `max_abs` only read.
void check_places_of_reads(const Kernel* measure, const Kernel* max_abs, const Tested& cast) {
  check_places("cast and read", cast.in, cast.out, [&](const void* from, void* to, std::size_t n) {
    run_kernel(cast.by_isa, {Op::cast}, from, to, n);
    run_kernel(measure, {Op::measure}, from, nullptr, n);
    run_kernel(max_abs, {Op::max_abs}, from, nullptr, n);
  });
}

/// MX from numbers to codes and back, and the kernels for blocks.
struct Mx {
  AnyFormat wide, code;
  Found (*quantize)(const void* source, void* codes, void* scales, std::size_t n, MxScale);
  void (*dequantize)(const void* codes, void* destination, std::size_t n);
  MxRow (*reference)(const AnyBits& row, MxScale);
  const Kernel *max_abs, *to_codes, *from_codes;
};
template <class Wide, class F>
constexpr Mx mx = {any_format<Wide>,
                   any_format<F>,
                   &quantize_mx<Wide, F>,
                   &dequantize_mx<F, Wide>,
                   &mx_row<Wide, F>,
                   kernels<Op::block_max_abs, Wide>,
                   kernels<Op::scale_blocks, Wide, F>,
                   kernels<Op::scale_blocks, F, Wide>};
void check_places(const Mx& mx) {
  check_places("blocks", mx.wide, mx.code, [&](const void* from, void* to, std::size_t n) {
    static const GuardedMemory scales(8);
    mx.quantize(from, to, scales.end() - (n + 31) / 32, n, MxScale::rceil);
  });
  check_places("blocks", mx.code, mx.wide, mx.dequantize);
  for (const std::size_t width : {6U, 16U, 32U, 128U}) {
    const std::string name = "blocks of " + std::to_string(width);
    for (const bool divides : {false, true})
      check_places(name, mx.wide, mx.code, [&](const void* from, void* to, std::size_t n) {
        scale_blocks(mx.max_abs, mx.to_codes, from, to, n, width, divides);
      });
    check_places(name, mx.code, mx.wide, [&](const void* from, void* to, std::size_t n) {
      scale_blocks(nullptr, mx.from_codes, from, to, n, width, false);
    });
  }
}

/// Quantizes one row in blocks and compares with the slow reference.
void check_row(Mismatches& wrong, const Mx& mx, const AnyBits& row, MxScale rule) {
  Bytes codes(row.size()), scales((row.size() + 31) / 32);
  const Found found =
      mx.quantize(mx.wide.to_memory(row).data(), codes.data(), scales.data(), row.size(), rule);
  const auto expected = mx.reference(row, rule);
  for (std::size_t i = 0; i < row.size(); ++i) {
    // One pattern, with the sign of the element
    const bool is_nan = expected.codes[i].bits == mx.code.quiet_nan_bits;
    const bool is_negative = (row[i] & mx.wide.layout.sign_mask) != 0;
    const std::uint64_t nan = mx.code.quiet_nan_bits | (is_negative ? mx.code.layout.sign_mask : 0);
    const bool right =
        is_nan ? codes[i] == nan : agrees(mx.code.layout, codes[i], expected.codes[i]);
    wrong.expect(right && scales[i / 32] == expected.scales[i / 32], [&] {
      return mx.wide.name() + " to " + mx.code.name() + ": " + hex(row[i]) + " became " +
             hex(codes[i]) + " with scale " + std::to_string(scales[i / 32]) + ", not " +
             hex(expected.codes[i].bits) + " with " + std::to_string(expected.scales[i / 32]);
    });
  }
  const std::uint64_t largest =
      expected.finite ? mx.wide.largest_of(row) : std::uint64_t{binary64::infinity_bits};
  wrong.expect(found.max_abs == largest,
               [&] { return "largest " + hex(found.max_abs) + ", not " + hex(largest); });
}
template <class T>
AnyBits random_row(std::size_t n, std::mt19937& random) {
  std::vector<T> row(n);
  for (T& element : row) randomize(element, random, -9, 9, 100);
  return any_bits_of(row);
}
void check_random_rows(const Mx& mx, AnyBits (*random_row)(std::size_t, std::mt19937&)) {
  for_each_isa([&](Isa) {
    std::mt19937 random(seed);
    Mismatches wrong;
    for (std::size_t n = 0; n <= 300; ++n)
      check_row(wrong, mx, random_row(n, random), mx_rules[n % 4]);
    CHECK(wrong.first() == "");
  });
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
    AnyBits floats = any_sample_bits<binary32>(), doubles = any_sample_bits<binary64>();
    for (const auto& boundary : boundaries<binary32, F>()) floats.push_back(boundary.wide);
    for (const auto& boundary : boundaries<binary64, F>()) doubles.push_back(boundary.wide);
    check_to_fp8<binary32, F>(floats, {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F, 0x1p126F, 0x1p-126F});
    check_to_fp8<binary64, F>(doubles, {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F});
    check_to_fp8<binary16, F>(any_sample_bits<binary16>(),
                              {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F, 0x1p20F});
    check_to_fp8<brain16, F>(any_sample_bits<brain16>(),
                             {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F, 0x1p126F});
  });
}

TEST_CASE("scale and cast from 8 bits, all codes", "[kernel]") {
  for_each_format<e4m3, e5m2>([](auto format) {
    using F = decltype(format);
    for_each_format<binary32, binary16, brain16, binary64>([](auto out) {
      using Out = decltype(out);
      check_from_fp8(tested<Op::scale, F, Out>, tested<Op::cast, F, Out>);
    });
  });
}

TEST_CASE("nothing outside the span is read or written, whatever the length and the address",
          "[kernel]") {
  for_each_isa([](Isa) {
    for_each_format<binary32, binary16, brain16, binary64>([](auto wide) {
      using Wide = decltype(wide);
      for_each_format<binary32, binary16, brain16, binary64>([](auto out) {
        using Out = decltype(out);
        check_places("scale", tested<Op::scale, Wide, Out>, 0.5);
        check_places("unscale", tested<Op::unscale, Wide, Out>, 3.0);
        check_places_of_reads(kernels<Op::measure, Wide>, kernels<Op::max_abs, Wide>,
                              tested<Op::cast, Wide, Out>);
      });
      for_each_format<e4m3, e5m2>([](auto format) {
        using F = decltype(format);
        check_places("quantize", tested<Op::quantize, Wide, F>, 0.3);
        check_places("cast", tested<Op::cast, Wide, F, saturating<F>>, 1.0);
        check_places("scale", tested<Op::scale, F, Wide>, 0.3);
        check_places("cast", tested<Op::cast, F, Wide>, 1.0);
      });
      for_each_format<e4m3, e5m2, e2m1>(
          [](auto format) { check_places(mx<Wide, decltype(format)>); });
    });
  });
}

TEST_CASE("MX equals torchao", "[kernel]") {
  const auto elements = golden_bytes<std::uint32_t>("mx_in.bin");
  const char* const names[] = {"floor", "rceil", "ceil", "even"};  // in the order of MxScale
  for (const Mx& mx : {mx<binary32, e4m3>, mx<binary32, e5m2>}) {
    for (const MxScale rule : mx_rules) {
      const std::string name = "mx_" + mx.code.name() + "_" + names[static_cast<std::size_t>(rule)];
      const Bytes golden_codes = golden_bytes<std::uint8_t>(name + ".q"),
                  golden_scales = golden_bytes<std::uint8_t>(name + ".s");
      for_each_isa([&](Isa) {
        Bytes codes(elements.size()), scales(elements.size() / 32);
        mx.quantize(elements.data(), codes.data(), scales.data(), elements.size(), rule);
        Mismatches wrong;
        for (std::size_t i = 0; i < elements.size(); ++i) {
          const bool is_subnormal = (elements[i] & binary32::abs_mask) < 0x00800000;
          wrong.expect(agrees(mx.code.layout, codes[i], {golden_codes[i], is_subnormal}), [&] {
            return hex(elements[i]) + " became " + hex(codes[i]) + ", not " + hex(golden_codes[i]);
          });
        }
        INFO(name << ": " << wrong.first());
        CHECK((wrong.count() == 0 && scales == golden_scales));
      });
    }
  }
}

TEST_CASE("MX: the four rules for all exponents and the mantissas where a scale changes",
          "[kernel]") {
  Bits<binary32> mantissas = {0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF};
  // 1.75, and what rounds up with two and three digits
  for (const std::uint32_t edge : {0x600000U, 0x700000U, 0x780000U}) {
    for (const std::uint32_t near : {edge - 1, edge, edge + 1}) mantissas.push_back(near);
  }
  for (const Mx& mx : {mx<binary32, e4m3>, mx<binary32, e5m2>}) {
    for_each_isa([&](Isa) {
      Mismatches wrong;
      for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
        // Each block has one magnitude at another place, and smaller ones, some of them subnormal.
        AnyBits row;
        for (std::size_t i = 0; i < mantissas.size(); ++i) {
          const std::uint32_t largest = exponent << 23 | mantissas[i];
          Bits<binary32> block(32, largest < 0x05000000 ? largest / 3 : largest - 0x01900000);
          block[(i * 5 + exponent) % 32] = largest | (i % 2 == 0 ? binary32::sign_mask : 0U);
          block[(i * 5 + exponent + 1) % 32] = largest / 2 | binary32::sign_mask;
          block[(i * 5 + exponent + 2) % 32] = 0;
          row.insert(row.end(), block.begin(), block.end());
        }
        for (const MxScale rule : mx_rules) check_row(wrong, mx, row, rule);
      }
      CHECK(wrong.first() == "");
    });
  }
}

TEST_CASE("MX: random rows of all lengths and dtypes", "[kernel]") {
  for_each_format<e4m3, e5m2>([&](auto format) {
    using F = decltype(format);
    for_each_dtype([&](auto type) {
      using T = typename decltype(type)::type;
      check_random_rows(mx<format_of<T>, F>, &random_row<T>);
    });
  });
}
