// examples/cuda/unscale.cuh on the CPU, against headroom's own kernels.
#define RUN_ON_CPU

#include <headroom/headroom.hpp>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "../../examples/cuda/unscale.cuh"
#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/samples.hpp"

using headroom::bfloat16;
using headroom::half;
using support::bits_of;

namespace {

template <class T>
std::vector<T> random_values(std::mt19937& random, std::size_t n, bool may_overflow) {
  using Format = headroom::detail::format_of<T>;
  std::vector<T> values(n);
  for (T& value : values)
    support::set_bits(value, may_overflow ? support::random_bits<Format>(random) : support::random_finite_bits<Format>(random));
  return values;
}
template <class T>
Gradient gradient_of(Dtype dtype, const std::vector<T>& scaled, std::vector<float>& unscaled) {
  unscaled.assign(scaled.size(), -1.0F);
  return {scaled.data(), unscaled.data(), scaled.size(), dtype, 0};
}

}  // namespace

TEST_CASE("the kernel gives the bits of headroom for every 16-bit pattern, and for any list of tensors") {
  std::mt19937 random(support::seed);
  std::vector<half> all16(65536);
  std::vector<bfloat16> all_brain(65536);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    support::set_bits(all16[bits], static_cast<std::uint16_t>(bits));
    support::set_bits(all_brain[bits], static_cast<std::uint16_t>(bits));
  }
  for (int run = 0; run < support::cases(40); ++run) {
    const bool may_overflow = run % 4 == 0;
    const auto size = [&] { return random() % 3 == 0 ? random() % 3 : random() % 20000; };
    const auto a = run == 0 ? all16 : random_values<half>(random, size(), may_overflow);
    const auto b = run == 0 ? all_brain : random_values<bfloat16>(random, size(), may_overflow);
    const auto c = random_values<float>(random, size(), may_overflow);
    std::vector<float> results[3], expected[3] = {std::vector<float>(a.size()), std::vector<float>(b.size()), c};
    const GradientList list({gradient_of(Dtype::fp16, a, results[0]), gradient_of(Dtype::bf16, b, results[1]),
                             gradient_of(Dtype::fp32, c, results[2])});
    float scale = 1024.0F;
    if (run % 2 == 1) support::set_bits(scale, support::random_magnitude<headroom::binary32>(random, -40, 40));
    unsigned largest = 77;
    list.unscale(scale, &largest, 0);
    const auto report = headroom::unscale_into(std::tie(a, b, c), std::tie(expected[0], expected[1], expected[2]), scale);
    for (int i = 0; i < 3; ++i) {
      const auto is_same = [&](std::size_t j) {  // headroom keeps the payload of NaN, a GPU need not
        const std::uint32_t got = bits_of(results[i][j]), want = bits_of(expected[i][j]);
        return got == want || (support::is_nan<headroom::binary32>(got) && support::is_nan<headroom::binary32>(want));
      };
      std::size_t wrong = 0;
      for (std::size_t j = 0; j < results[i].size(); ++j) wrong += is_same(j) ? 0U : 1U;
      CHECK(wrong == 0);
    }
    CHECK(is_finite(&largest) == report.finite);
    float magnitude = 0.0F;
    support::set_bits(magnitude, largest);
    if (report.finite) CHECK(static_cast<double>(magnitude) == report.max_abs);
  }
}

TEST_CASE("a late policy adjusts by the report of the step before, and lowers the scale once for an overflow") {
  LateLossScale scaler(headroom::DynamicLossScale({1024.0F, 1000}));
  const auto step = [&](unsigned bits) {
    *scaler.largest() = bits;
    scaler.update(0);
    return scaler.loss_scale();
  };
  CHECK(step(0x3F800000) == 1024.0F);
  CHECK(step(0x7F800000) == 1024.0F);  // known in the next step
  CHECK(step(0x7FC00000) == 512.0F);   // still scaled by 1024
  CHECK(step(0x3F800000) == 512.0F);
  CHECK(step(0x7F800000) == 512.0F);
  CHECK(step(0x3F800000) == 256.0F);
  CHECK(scaler.policy().counter() == 0);
}
