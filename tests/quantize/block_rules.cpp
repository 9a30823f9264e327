#include <headroom/quantize/block_rules.hpp>

#include <cstdint>
#include <limits>

#include "support/catch.hpp"

using namespace headroom;

TEST_CASE("a scale of e4m3 is what the conversion rounds to, from subnormal numbers to those that saturate") {
  unsigned different = 0;
  const auto compare = [&](std::uint32_t bits) {
    const std::uint8_t expected = detail::convert_bits<binary32, detail::saturating<e4m3>>(bits);
    different += detail::to_e4m3(bits).bits() != expected ? 1 : 0;
  };
  for (std::uint32_t code = 0; code <= 0x7F; ++code) {  // each number, each tie, and their neighbours
    const std::uint32_t bits = detail::bits_of(float8_e4m3::from_bits(static_cast<std::uint8_t>(code)));
    for (const std::uint32_t half : {0U, 1U << 19})
      for (const std::uint32_t step : {0U, 1U, ~0U}) compare(bits + half + step);
  }
  for (std::uint32_t bits = 0; bits <= binary32::quiet_nan_bits; bits += 0xFFFF) compare(bits);
  CHECK(different == 0);
}

TEST_CASE("NVFP4: a scale that e4m3 does not have saturates") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float amax : {6.0F * 448.0F, 6.0F * 470.0F, 6.0F * 480.0F, 1e30F, infinity}) {
    INFO(amax);
    const auto of_torchao = TorchaoNvfp4{}.scale<e2m1>(amax, infinity),
               of_modelopt = ModelOptNvfp4{}.scale<e2m1>(amax, infinity);
    const auto of_te = TeNvfp4{2688.0F}.scale<e2m1>(amax, infinity);
    CHECK((of_torchao.stored.bits() == 0x7E && of_torchao.factor == 1.0F / 448.0F));
    CHECK((of_modelopt.stored.bits() == 0x7E && of_modelopt.factor == 448.0F));
    CHECK((of_te.stored.bits() == 0x7E && of_te.factor == 1.0F / 448.0F));
  }
}

TEST_CASE("NVFP4: TransformerEngine scales a tensor with Inf as one whose amax is 2688") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto made = TeNvfp4{infinity}.scale<e2m1>(12.0F, infinity);
  CHECK((made.stored == float8_e4m3(2.0F) && made.factor == 0.5F));
}
