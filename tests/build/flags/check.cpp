// Compares every kernel of every instruction set, compiled with the flags under test, with
// references compiled without them.
#include <headroom/headroom.hpp>

#include <algorithm>
#include <cfloat>
#include <cstdio>
#include <cstring>
#include <vector>

#include "reference.hpp"

using headroom::span;
using reference::Format;
using reference::Verb;
using Bits = std::vector<std::uint64_t>;

namespace {

template <class T>
constexpr Format format_of = Format::binary64;
template <>
constexpr Format format_of<headroom::half> = Format::binary16;
template <>
constexpr Format format_of<headroom::bfloat16> = Format::brain16;
template <>
constexpr Format format_of<headroom::float8_e4m3> = Format::e4m3;
template <>
constexpr Format format_of<float> = Format::binary32;

/// The number of elements for each call: enough for all loops and a rest, and so few that most
/// calls have no Inf.
constexpr std::size_t chunk = 109;

int faults = 0;
void expect(bool right, const char* what, std::uint64_t in, std::uint64_t actual,
            std::uint64_t expected) {
  if (right) return;
  ++faults;
  if (faults > 10) return;
  std::printf("%s, %s: %llx gives %llx, not %llx\n", headroom::to_string(headroom::active_isa()),
              what, static_cast<unsigned long long>(in), static_cast<unsigned long long>(actual),
              static_cast<unsigned long long>(expected));
}

// Through memory, because some flags let a compiler assume too much about a value that it has seen.
template <class T>
std::uint64_t bits_of(const T& value) {
  __asm__ volatile("" : : "r"(&value) : "memory");
  typename headroom::detail::format_of<T>::bits_type bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
template <class T>
void set_bits(T& value, std::uint64_t source) {
  const auto bits = static_cast<typename headroom::detail::format_of<T>::bits_type>(source);
  std::memcpy(static_cast<void*>(&value), &bits, sizeof bits);
  __asm__ volatile("" : : "r"(&value) : "memory");
}
template <class T>
std::vector<T> elements_of(const std::uint64_t* bits, std::size_t n) {
  std::vector<T> elements(n);
  for (std::size_t i = 0; i < n; ++i) set_bits(elements[i], bits[i]);
  return elements;
}
/// The same bits, or two NaNs. With the x87 unit, which rounds doubles twice, neighbours count as
/// the same.
template <class T>
bool same(std::uint64_t a, std::uint64_t b) {
  using F = headroom::detail::format_of<T>;
  const bool neighbours =
      FLT_EVAL_METHOD == 2 && sizeof(T) == sizeof(double) && (a - b == 1 || b - a == 1);
  return a == b || neighbours ||
         ((a & F::abs_mask) >= F::smallest_nan_bits && (b & F::abs_mask) >= F::smallest_nan_bits);
}

template <class T>
void check_report(const headroom::GradientReport& report, const std::uint64_t* stored,
                  std::size_t n) {
  const std::uint64_t max_abs = reference::max_abs(format_of<T>, stored, n);
  const bool finite = max_abs != headroom::binary64::infinity_bits;
  expect(report.finite == finite && same<double>(bits_of(report.max_abs), max_abs), "report",
         stored[0], bits_of(report.max_abs), max_abs);
}

template <class In, class Out>
void run(Verb verb, const In* source, Out* destination, std::size_t n, std::uint32_t factor_bits,
         const std::uint64_t* expected) {
  const span<const In> from(source, n);
  const span<Out> to(destination, n);
  float factor = 0.0F;
  set_bits(factor, factor_bits);
  if (verb == Verb::cast) headroom::cast_into(from, to);
  if (verb == Verb::scale) {
    const headroom::detail::Pass by{headroom::detail::Op::scale, static_cast<double>(factor)};
    (void)
        headroom::detail::plan_and_run<headroom::detail::ScaleOps, headroom::detail::Access::into>(
            by, headroom::sequential, from, to);
  }
  if (verb == Verb::unscale)
    check_report<Out>(headroom::unscale_into(from, to, factor), expected, n);
}

template <class In, class Out>
void check_verb(const char* name, Verb verb, std::uint32_t factor) {
  const std::size_t count = reference::sample_count(format_of<In>);
  const std::uint64_t* const samples = reference::samples(format_of<In>);
  const std::vector<In> source = elements_of<In>(samples, count);
  Bits expected(count);
  reference::outcomes(verb, format_of<In>, format_of<Out>, factor, expected.data());
  for (const headroom::Isa isa : headroom::available_isas()) {
    headroom::force_isa(isa);
    std::vector<Out> destination(count);
    for (std::size_t begin = 0; begin < count; begin += chunk) {
      const std::size_t n = std::min(chunk, count - begin);
      run(verb, source.data() + begin, destination.data() + begin, n, factor,
          expected.data() + begin);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t stored = bits_of(destination[i]);
      expect(same<Out>(stored, expected[i]), name, samples[i], stored, expected[i]);
    }
  }
}

template <class In, class Out>
void check_pair() {
  check_verb<In, Out>("cast", Verb::cast, 0);
  // 2^16, 123.456, 2^126, 2^-126
  for (const std::uint32_t factor : {0x47800000U, 0x42f6e979U, 0x7e800000U, 0x00800000U}) {
    check_verb<In, Out>("scale", Verb::scale, factor);
    check_verb<In, Out>("unscale", Verb::unscale, factor);
  }
}

template <class T>
void check_measure() {
  const std::size_t count = reference::sample_count(format_of<T>);
  const std::uint64_t* const samples = reference::samples(format_of<T>);
  const std::vector<T> elements = elements_of<T>(samples, count);
  for (const headroom::Isa isa : headroom::available_isas()) {
    headroom::force_isa(isa);
    for (std::size_t begin = 0; begin < count; begin += chunk) {
      const std::size_t n = std::min(chunk, count - begin);
      const std::uint64_t norm = reference::norm(format_of<T>, samples + begin, n);
      const span<const T> values(elements.data() + begin, n);
      const headroom::GradientNorm measured = headroom::measure(values);
      check_report<T>(measured, samples + begin, n);
      expect(headroom::all_finite(values) == measured.finite, "all_finite", samples[begin],
             !measured.finite, measured.finite);
      expect(same<double>(bits_of(measured.norm), norm), "norm", samples[begin],
             bits_of(measured.norm), norm);
    }
  }
}

/// Inf and NaN are found wherever they are.
template <class T>
void check_all_finite() {
  using F = headroom::detail::format_of<T>;
  for (const headroom::Isa isa : headroom::available_isas()) {
    headroom::force_isa(isa);
    std::vector<T> elements(chunk);
    expect(headroom::all_finite(elements), "all_finite", 0, 0, 1);
    for (T& element : elements) {
      for (const auto bits : {F::overflow_bits, F::quiet_nan_bits, F::abs_mask}) {
        set_bits(element, bits);
        expect(!headroom::all_finite(elements), "all_finite", bits, 1, 0);
      }
      set_bits(element, F::largest_finite_bits);
    }
  }
}

template <class In>
void check_format() {
  check_pair<In, headroom::half>();
  check_pair<In, headroom::bfloat16>();
  check_pair<In, float>();
  check_pair<In, double>();
  check_measure<In>();
  check_all_finite<In>();
}

}  // namespace

int main() {
  check_format<headroom::half>();
  check_format<headroom::bfloat16>();
  check_format<float>();
  check_format<double>();
  check_pair<headroom::float8_e4m3, headroom::float8_e4m3>();
  check_pair<headroom::float8_e4m3, float>();
  check_pair<float, headroom::float8_e4m3>();
  check_measure<headroom::float8_e4m3>();
  check_all_finite<headroom::float8_e4m3>();
  std::printf("%d faults\n", faults);
  return faults == 0 ? 0 : 1;
}
