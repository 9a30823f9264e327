// The kernels that read and write 8-bit formats, on every instruction set, against slow references.
#include <headroom/dtype/float8.hpp>
#include <headroom/headroom.hpp>
#include <headroom/kernel/table.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/fp8.hpp"
#include "support/guard_page.hpp"
#include "support/isa.hpp"
#include "support/samples.hpp"

using headroom::binary16;
using headroom::binary32;
using headroom::binary64;
using headroom::brain16;
using headroom::e4m3;
using headroom::e5m2;
using headroom::MxScale;
using headroom::detail::Found;
using headroom::detail::Op;
using headroom::detail::Piece;
using headroom::detail::saturating;
using support::agrees;
using support::bits_of;
using support::hex;
using support::Mismatches;
using support::Outcome;

namespace {

template <class... Formats, class F>
void for_each_format(F f) {
  (f(Formats{}), ...);
}
template <class Format>
using Bits = std::vector<typename Format::bits_type>;

template <Op op, class In, class Out>
Found run(const void* source, void* destination, std::size_t n, double factor) {
  const Piece piece{source, destination, n};
  Found found{0, 0.0};
  headroom::detail::kernels<op, In, Out>[headroom::detail::isa_index()](&piece, &piece + 1, factor, false, found);
  return found;
}
template <class In, class F>
Found quantize_mx(const void* source, void* codes, void* scales, std::size_t n, MxScale rule) {
  const Piece pieces[] = {{source, codes, n}, {nullptr, scales, (n + 31) / 32}};
  Found found{0, 0.0};
  headroom::detail::kernels<Op::mx_quantize, In, F>[headroom::detail::isa_index()](pieces, pieces + 2,
                                                                                   static_cast<double>(rule), false, found);
  return found;
}
template <class Out>
bool same_everywhere(typename Out::bits_type a, typename Out::bits_type b) {
  return a == b || (sizeof a > 1 && support::same_bits<Out>(a, b));
}
/// The largest magnitude as Found has it.
template <class Format>
std::uint64_t largest_of(const Bits<Format>& elements) {
  typename Format::bits_type largest = 0;
  for (const auto bits : elements)
    largest = std::max(largest, static_cast<typename Format::bits_type>(bits & Format::abs_mask));
  if (!support::is_finite<Format>(largest)) return binary64::infinity_bits;
  return support::nearest<binary64>(support::decode<Format>(largest));
}

/// Runs an op on all instruction sets and compares with what is expected, and with the scalar kernel: to the bit, except that
/// the payloads of wider NaNs may differ. `Stored` is Out, or saturating<Out> for casts.
template <Op op, class In, class Out, class Stored = Out>
void check_values(const Bits<In>& elements, const std::vector<Outcome>& expected, float factor) {
  Bits<Out> scalar(elements.size()), results(elements.size());
  support::for_each_isa([&](headroom::Isa isa) {
    const Found found = run<op, In, Stored>(elements.data(), results.data(), elements.size(), static_cast<double>(factor));
    if (isa == headroom::Isa::scalar) scalar = results;
    Mismatches wrong;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      wrong.expect(agrees<Out>(results[i], expected[i]) && same_everywhere<Out>(results[i], scalar[i]),
                   [&] { return hex(elements[i]) + " became " + hex(results[i]) + ", not " + hex(expected[i].bits); });
    }
    INFO("e" << In::exponent_bits << "m" << In::mantissa_bits << " to e" << Out::exponent_bits << "m" << Out::mantissa_bits
             << ", times " << factor << ": " << wrong.first());
    CHECK(wrong.count() == 0);
    if (op == Op::quantize) CHECK(found.largest == largest_of<In>(elements));
    if (op == Op::scale) CHECK(found.largest == largest_of<Out>(results));
    if (op == Op::cast) CHECK(found.largest == 0);
  });
}

/// Quantizes by several factors, the last time without Inf and NaN; casts with saturation.
template <class In, class F>
void check_to_fp8(Bits<In> elements, std::initializer_list<float> factors) {
  const auto expected = [&](float factor) {
    std::vector<Outcome> outcomes;
    for (const auto bits : elements) outcomes.push_back(support::quantized<In, F>(bits, factor));
    return outcomes;
  };
  check_values<Op::cast, In, F, saturating<F>>(elements, expected(1.0F), 1.0F);
  for (const float factor : factors) check_values<Op::quantize, In, F>(elements, expected(factor), factor);
  const auto is_not_finite = [](auto bits) { return !support::is_finite<In>(bits); };
  elements.erase(std::remove_if(elements.begin(), elements.end(), is_not_finite), elements.end());
  check_values<Op::quantize, In, F>(elements, expected(0.75F), 0.75F);
}

/// Floats [first, first + count * step), by `step`.
template <class F>
std::size_t wrong_floats(std::uint64_t first, std::uint64_t step, std::size_t count) {
  Bits<binary32> elements(count);
  for (std::size_t i = 0; i < count; ++i) elements[i] = static_cast<std::uint32_t>(first + step * i);
  std::size_t wrong = 0;
  Bits<F> scalar(count), results(count);
  support::for_each_isa([&](headroom::Isa isa) {
    for (const bool casts : {false, true}) {
      (casts ? run<Op::cast, binary32, saturating<F>> : run<Op::quantize, binary32, F>)(elements.data(), results.data(), count,
                                                                                        1.0);
      if (isa == headroom::Isa::scalar && !casts) {
        scalar = results;
        for (std::size_t i = 0; i < count; ++i)
          wrong += agrees<F>(results[i], support::quantized<binary32, F>(elements[i], 1.0F)) ? 0 : 1;
      }
      if (results != scalar) ++wrong;
    }
  });
  return wrong;
}

template <class F, class Out>
void check_from_fp8() {
  Bits<F> codes;
  for (int i = 0; i < 600; ++i) codes.push_back(static_cast<std::uint8_t>(i));
  for (const float factor : {1.0F, 0x1p-9F, 0.3F, 1.0F / 448.0F, 77.7F, -3.0F, 0x1p100F, 0x1p-120F}) {
    std::vector<Outcome> expected;
    for (const auto code : codes) expected.push_back(support::compute<F, Out>(&support::product, code, factor));
    check_values<Op::scale, F, Out>(codes, expected, factor);
    if (factor == 1.0F) check_values<Op::cast, F, Out>(codes, expected, factor);
  }
}

/// Bytes at the end of guarded memory, or at its beginning plus an offset. All other bytes are watched.
class Guarded {
 public:
  Guarded() : memory_(4096) {}
  unsigned char* place(std::size_t size, int where) {
    size_ = size;
    begin_ = where < 0 ? memory_.end() - size : memory_.begin() + where;
    std::memset(memory_.begin(), 0xA5, memory_.size());
    return begin_;
  }
  [[nodiscard]] bool holds(const void* contents) const {
    const auto is_untouched = [](unsigned char byte) { return byte == 0xA5; };
    return std::all_of(memory_.begin(), begin_, is_untouched) && std::all_of(begin_ + size_, memory_.end(), is_untouched) &&
           std::memcmp(begin_, contents, size_) == 0;
  }

 private:
  support::GuardedMemory memory_;
  unsigned char* begin_ = nullptr;
  std::size_t size_ = 0;
};

/// Runs `call(source, destination, n)` for all lengths at some addresses. The expected elements are those of an array.
template <class In, class Out, class Call, class Expected>
void check_places(const std::string& name, const Bits<In>& elements, Call call, Expected expected_of) {
  static Guarded source, destination;
  Mismatches wrong;
  for (std::size_t n = 0; n <= 200; ++n) {
    const Bits<Out> expected = expected_of(n);
    for (const int where : {-1, 0, 1, 2, 5, 32}) {
      unsigned char* const from = source.place(n * sizeof elements[0], where);
      if (n > 0) std::memcpy(from, elements.data(), n * sizeof elements[0]);
      const int where_to = where < 0 ? where : (where * 3 + static_cast<int>(n)) % 67;
      call(from, destination.place(n * sizeof(typename Out::bits_type), where_to), n);
      wrong.expect(source.holds(elements.data()) && destination.holds(expected.data()),
                   [&] { return name + ", n = " + std::to_string(n) + " at " + std::to_string(where); });
    }
  }
  INFO(wrong.first());
  CHECK(wrong.count() == 0);
}
/// The expected elements are those of the same kernel, one by one.
template <Op op, class In, class Out, class Stored = Out>
void check_places(const std::string& name, const Bits<In>& elements) {
  Bits<Out> all(elements.size());
  for (std::size_t i = 0; i < elements.size(); ++i) run<op, In, Stored>(&elements[i], &all[i], 1, 0.3);
  check_places<In, Out>(
      name, elements, [](auto* from, auto* to, std::size_t n) { run<op, In, Stored>(from, to, n, 0.3); },
      [&](std::size_t n) { return Bits<Out>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)); });
}
/// Random finite elements of magnitudes that fp8 has, and a NaN.
template <class Format>
Bits<Format> some_elements(std::size_t count, bool with_nan) {
  std::mt19937 random(support::seed);
  Bits<Format> elements(count);
  for (auto& bits : elements) {
    bits = static_cast<typename Format::bits_type>(support::random_magnitude<Format>(random, -4, 6) |
                                                   (random() % 2 == 0 ? Format::sign_mask : 0));
  }
  if (with_nan) elements[count - 30] = Format::quiet_nan_bits;
  return elements;
}

/// Compares one row with the slow reference.
template <class In, class F>
void check_row(Mismatches& wrong, const Bits<In>& row, MxScale rule) {
  Bits<F> codes(row.size());
  std::vector<std::uint8_t> scales((row.size() + 31) / 32);
  const Found found = quantize_mx<In, F>(row.data(), codes.data(), scales.data(), row.size(), rule);
  const auto expected = support::mx_row<F, In>(row, rule);
  for (std::size_t i = 0; i < row.size(); ++i) {
    wrong.expect(scales[i / 32] == expected.scales[i / 32] && agrees<F>(codes[i], expected.codes[i]), [&] {
      return hex(row[i]) + " became " + hex(codes[i]) + " with scale " + std::to_string(scales[i / 32]) + ", not " +
             hex(expected.codes[i].bits) + " with " + std::to_string(expected.scales[i / 32]);
    });
  }
  const std::uint64_t largest = expected.finite ? largest_of<In>(row) : std::uint64_t{binary64::infinity_bits};
  wrong.expect(found.largest == largest, [&] { return "largest " + hex(found.largest) + ", not " + hex(largest); });
}

}  // namespace

TEST_CASE("quantize and saturating cast of a sample of all floats", "[kernel]") {
  // An odd step goes through all lower bits of the mantissa.
  const std::uint64_t step = support::is_exhaustive ? 4099 : 81929;
  CHECK(wrong_floats<e4m3>(0, step, (std::uint64_t{1} << 32) / step) == 0);
  CHECK(wrong_floats<e5m2>(1, step, (std::uint64_t{1} << 32) / step) == 0);
}

TEST_CASE("quantize and saturating cast of all floats", "[.][exhaustive]") {
  std::size_t wrong = 0;
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += 1 << 20) {
    wrong += wrong_floats<e4m3>(first, 1, 1 << 20) + wrong_floats<e5m2>(first, 1, 1 << 20);
  }
  CHECK(wrong == 0);
}

TEST_CASE("quantize and saturating cast at every boundary and of every 16-bit pattern", "[kernel]") {
  for_each_format<e4m3, e5m2>([](auto format) {
    using F = decltype(format);
    Bits<binary32> floats = support::sample_bits<binary32>();
    Bits<binary64> doubles = support::sample_bits<binary64>();
    for (const auto& boundary : support::boundaries<binary32, F>()) floats.push_back(boundary.wide);
    for (const auto& boundary : support::boundaries<binary64, F>()) doubles.push_back(boundary.wide);
    check_to_fp8<binary32, F>(floats, {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F, 0x1p126F, 0x1p-126F});
    check_to_fp8<binary64, F>(doubles, {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F});
    check_to_fp8<binary16, F>(support::sample_bits<binary16>(), {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F, 0x1p20F});
    check_to_fp8<brain16, F>(support::sample_bits<brain16>(), {1.0F, 448.0F / 3.0F, 0x1p-10F, 0.1F, 0x1p126F});
  });
}

TEST_CASE("doubles are rounded to 8 bits once", "[kernel]") {
  // Just above the middle between 1 and 1.125, by less than a float can show. Rounded to float first, it would become 1.
  const Bits<binary64> above_middle(20, bits_of(1.0625 + 0x1p-40));
  support::for_each_isa([&](headroom::Isa) {
    Bits<e4m3> codes(20);
    run<Op::quantize, binary64, e4m3>(above_middle.data(), codes.data(), 20, 1.0);
    CHECK(codes == Bits<e4m3>(20, 0x39));
  });
}

TEST_CASE("scale and cast from 8 bits, all codes", "[kernel]") {
  for_each_format<e4m3, e5m2>([](auto format) {
    using F = decltype(format);
    for_each_format<binary32, binary16, brain16, binary64>([](auto out) { check_from_fp8<F, decltype(out)>(); });
  });
}

TEST_CASE("8 bits: nothing outside the span is read or written, whatever the length and the address", "[kernel]") {
  support::for_each_isa([](headroom::Isa) {
    for_each_format<e4m3, e5m2>([](auto format) {
      using F = decltype(format);
      Bits<F> codes(200);
      for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 37);
      for_each_format<binary32, binary16, brain16, binary64>([&](auto wide) {
        using Wide = decltype(wide);
        check_places<Op::quantize, Wide, F>("quantize", some_elements<Wide>(200, true));
        check_places<Op::cast, Wide, F, saturating<F>>("saturating cast", some_elements<Wide>(200, true));
        check_places<Op::scale, F, Wide>("scale", codes);
        check_places<Op::cast, F, Wide>("cast", codes);
      });
    });
  });
}

TEST_CASE("MX: nothing outside the spans is read or written, whatever the length and the address", "[kernel]") {
  support::for_each_isa([](headroom::Isa) {
    for_each_format<e4m3, e5m2>([](auto format) {
      using F = decltype(format);
      for_each_format<binary32, binary16, brain16, binary64>([](auto wide) {
        using Wide = decltype(wide);
        const Bits<Wide> elements = some_elements<Wide>(200, false);
        Guarded scales;
        std::vector<std::uint8_t> expected_scales;
        const auto quantize = [&](auto* from, auto* to, std::size_t n) {
          const std::size_t count = (n + 31) / 32;
          quantize_mx<Wide, F>(from, to, scales.place(count, n % 2 == 0 ? -1 : 0), n, MxScale::rceil);
          CHECK(scales.holds(expected_scales.data()));
        };
        check_places<Wide, F>("mx_quantize", elements, quantize, [&](std::size_t n) {
          const auto end = elements.begin() + static_cast<std::ptrdiff_t>(n);
          const auto row = support::mx_row<F, Wide>({elements.begin(), end}, MxScale::rceil);
          expected_scales.assign(row.scales.begin(), row.scales.end());
          Bits<F> codes;
          for (const Outcome& code : row.codes) codes.push_back(static_cast<std::uint8_t>(code.bits));
          return codes;
        });
      });
    });
  });
}

TEST_CASE("MX equals torchao", "[kernel]") {
  const auto elements = support::golden_bytes<std::uint32_t>("mx_in.bin");
  for_each_format<e4m3, e5m2>([&](auto format) {
    using F = decltype(format);
    for (const MxScale rule : support::mx_rules) {
      const std::string name =
          std::string(F::mantissa_bits == 3 ? "mx_e4m3_" : "mx_e5m2_") + support::mx_rule_names[static_cast<std::size_t>(rule)];
      const auto golden_codes = support::golden_bytes<std::uint8_t>(name + ".q");
      const auto golden_scales = support::golden_bytes<std::uint8_t>(name + ".s");
      INFO(name);
      support::for_each_isa([&](headroom::Isa) {
        Bits<F> codes(elements.size());
        std::vector<std::uint8_t> scales(elements.size() / 32);
        quantize_mx<binary32, F>(elements.data(), codes.data(), scales.data(), elements.size(), rule);
        CHECK(scales == golden_scales);
        Mismatches wrong;
        for (std::size_t i = 0; i < elements.size(); ++i) {
          const bool is_subnormal = (elements[i] & binary32::abs_mask) < 0x00800000;
          wrong.expect(agrees<F>(codes[i], {golden_codes[i], is_subnormal}),
                       [&] { return hex(elements[i]) + " became " + hex(codes[i]) + ", not " + hex(golden_codes[i]); });
        }
        INFO(wrong.first());
        CHECK(wrong.count() == 0);
      });
    }
  });
}

TEST_CASE("MX: the four rules for all exponents and the mantissas where a scale changes", "[kernel]") {
  std::vector<std::uint32_t> mantissas = {0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF};
  for (const std::uint32_t edge : {0x600000U, 0x700000U, 0x780000U}) {  // 1.75 and what rounds up with two and three digits
    for (const std::uint32_t near : {edge - 1, edge, edge + 1}) mantissas.push_back(near);
  }
  for_each_format<e4m3, e5m2>([&](auto format) {
    using F = decltype(format);
    for (const MxScale rule : support::mx_rules) {
      INFO("rule " << static_cast<int>(rule));
      support::for_each_isa([&](headroom::Isa) {
        Mismatches wrong;
        for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
          // Each block has one magnitude at another place, and smaller ones, some of them subnormal.
          Bits<binary32> row;
          for (std::size_t i = 0; i < mantissas.size(); ++i) {
            const std::uint32_t largest = exponent << 23 | mantissas[i];
            const std::uint32_t below = largest < 0x05000000 ? largest / 3 : largest - 0x01900000;
            Bits<binary32> block(32, below);
            block[(i * 5 + exponent) % 32] = largest | (i % 2 == 0 ? binary32::sign_mask : 0U);
            block[(i * 5 + exponent + 1) % 32] = largest / 2 | 0x80000000;
            block[(i * 5 + exponent + 2) % 32] = 0;
            row.insert(row.end(), block.begin(), block.end());
          }
          check_row<binary32, F>(wrong, row, rule);
        }
        INFO(wrong.first());
        CHECK(wrong.count() == 0);
      });
    }
  });
}

TEST_CASE("MX: random rows of all lengths and dtypes", "[kernel]") {
  for_each_format<e4m3, e5m2>([&](auto format) {
    using F = decltype(format);
    for_each_format<binary32, binary16, brain16, binary64>([&](auto wide) {
      using Wide = decltype(wide);
      support::for_each_isa([&](headroom::Isa) {
        std::mt19937 random(support::seed);
        Mismatches wrong;
        for (std::size_t n = 0; n <= 300; ++n) {
          Bits<Wide> row(n);
          for (auto& bits : row) {
            bits = random() % 40 == 0 ? support::random_bits<Wide>(random) : support::random_magnitude<Wide>(random, -9, 9);
            if (n % 7 == 0 && random() % 50 == 0) bits = Wide::infinity_bits;
            if (n % 7 == 1 && random() % 50 == 0) bits = Wide::sign_mask | Wide::quiet_nan_bits;
          }
          check_row<Wide, F>(wrong, row, support::mx_rules[n % 4]);
        }
        INFO(wrong.first());
        CHECK(wrong.count() == 0);
      });
    });
  });
}
