// Every Inf and NaN is found, wherever it is, and nothing finite counts as one.
#include <headroom/headroom.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/isa.hpp"
#include "support/samples.hpp"

using namespace headroom;
using namespace headroom::detail;
using namespace support;

namespace {

constexpr std::size_t widest_register = 32;  // elements: 16-bit ones in 64 bytes
constexpr std::uint64_t infinity = binary64::infinity_bits;

template <class T>
void fill(std::vector<T>& values, float value) {
  for (T& element : values) element = T(value);
}

/// The report of unscaling `source` out of place.
template <class Out, class In>
GradientReport unscaled(const std::vector<In>& source, float loss_scale) {
  std::vector<Out> destination(source.size());
  return unscale_into(source, destination, loss_scale);
}
template <class T>
GradientReport unscaled_in_place(std::vector<T> values, float loss_scale) {
  return unscale_in_place<allow_fp16_gradients>(values, loss_scale);
}

bool says_not_finite(const GradientReport& report) {
  return !report.finite && bits_of(report.max_abs) == infinity;
}

/// What every kernel that reads reports.
template <class T>
std::vector<GradientReport> reports_of(const std::vector<T>& values) {
  return {measure(values),
          unscaled_in_place(values, 2.0F),
          unscaled_in_place(values, 3.0F),
          unscaled<float>(values, 1024.0F),
          unscaled<double>(values, 1024.0F),
          unscaled<half>(values, 1.0F),
          unscaled<bfloat16>(values, 1000.0F)};
}
template <class T>
bool all_find_it(const std::vector<T>& values) {
  const auto reports = reports_of(values);
  return !all_finite(values) && bits_of(measure(values).norm) == infinity &&
         std::all_of(reports.begin(), reports.end(), says_not_finite);
}
template <class T>
bool all_find_nothing(const std::vector<T>& values) {
  const auto reports = reports_of(values);
  return all_finite(values) && std::all_of(reports.begin(), reports.end(),
                                           [](const GradientReport& r) { return r.finite; });
}

template <class T>
void check_every_position(std::size_t n, Mismatches& missed, Mismatches& made_up) {
  std::vector<T> values(n);
  fill(values, 1.5F);
  made_up.expect(all_find_nothing(values),
                 [&] { return name_of<T>() + ", n = " + std::to_string(n); });
  const auto kinds = nonfinite_bits<format_of<T>>();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      if (!is_exhaustive && kind != (i + n) % kinds.size()) continue;
      set_bits(values[i], kinds[kind]);
      missed.expect(all_find_it(values), [&] {
        return name_of<T>() + " " + hex(kinds[kind]) + " at " + std::to_string(i) + " of " +
               std::to_string(n);
      });
    }
    values[i] = T(1.5F);
  }
}

}  // namespace

TEST_CASE("T1: one non-finite value at every position of short spans is found", "[kernel]") {
  for_each_isa([&](Isa) {
    for_each_dtype([&](auto type) {
      using T = typename decltype(type)::type;
      Mismatches missed, made_up;
      for (std::size_t n = 0; n <= 3 * widest_register + 7; ++n)
        check_every_position<T>(n, missed, made_up);
      for (const std::size_t n :
           {4 * widest_register - 1, 4 * widest_register, 8 * widest_register + 19}) {
        check_every_position<T>(n, missed, made_up);
      }
      CHECK(missed.first() == "");
      CHECK(made_up.first() == "");
    });
  });
}

TEST_CASE("every non-finite pattern is found, and no finite one is taken for it", "[kernel]") {
  for_each_isa([&](Isa) {
    for_each_type<half, bfloat16, float, double, float8_e4m3, float8_e5m2>([&](auto type) {
      using T = typename decltype(type)::type;
      using Format = format_of<T>;
      Mismatches wrong;
      std::vector<T> values(19);  // two registers and a tail
      std::size_t place = 0;
      for (const auto bits : sample_bits<Format>()) {
        fill(values, 0.0F);
        set_bits(values[place = (place + 1) % values.size()], bits);
        const bool finite = is_finite<Format>(bits);
        const bool right = all_finite(values) == finite && measure(values).finite == finite &&
                           unscaled_in_place(values, 1.0F).finite == finite;
        wrong.expect(right, [&] { return name_of<T>() + " " + hex(bits); });
      }
      CHECK(wrong.first() == "");
    });
  });
}

TEST_CASE("T2: an Inf that arithmetic of this very function made is found", "[kernel]") {
  // Here the compiler sees how the values are computed and the check. So under -ffast-math it may
  // assume that they are finite.
  const volatile float large = 3e38F, tiny = 1e-38F;
  const volatile double large_double = 1e308;
  for_each_isa([&](Isa) {
    std::vector<float> overflowed{large * large, tiny, large};
    CHECK_FALSE(all_finite(overflowed));
    CHECK_FALSE(measure(overflowed).finite);
    CHECK(says_not_finite(unscale_in_place<allow_fp16_gradients>(overflowed, 1024.0F)));
    double overflowed_doubles[] = {1.0, large_double * large_double};
    CHECK_FALSE(all_finite(overflowed_doubles));
    CHECK(says_not_finite(unscale_in_place<allow_fp16_gradients>(overflowed_doubles, 1024.0F)));
    // The kernel's own arithmetic: finite before, not after.
    std::vector<float> overflowing{1.0F, large};
    CHECK(all_finite(overflowing));
    CHECK(says_not_finite(unscale_in_place<allow_fp16_gradients>(overflowing, 0x1p-10F)));
    CHECK_FALSE(all_finite(overflowing));
  });
}
