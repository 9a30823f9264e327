#include <headroom/policy/constant.hpp>

#include <cstdint>
#include <string>
#include <type_traits>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace headroom;

namespace {

constexpr ConstantLossScale constant(128.0F);
static_assert(constant.loss_scale() == 128.0F && constant.inv_scale() == 0x1p-7F);
static_assert(constant.adjust(false) == constant && constant.adjust(true) == constant &&
              constant != ConstantLossScale(64.0F));
static_assert(constant.adjust(GradientReport{false, 1.0}) == constant &&
              constant.adjust(GradientReport{}) == constant);
static_assert(noexcept(constant.adjust(true)) && noexcept(constant.adjust(GradientReport{})));
static_assert(std::is_trivially_copyable_v<ConstantLossScale> && sizeof(ConstantLossScale) <= 32);
static_assert(!std::is_convertible_v<float, ConstantLossScale> &&
              !std::is_default_constructible_v<ConstantLossScale>);

struct BadScale {
  std::uint32_t bits;
  const char* text;
};

}  // namespace

TEST_CASE("ConstantLossScale refuses a scale out of range, and the error has its value") {
  const BadScale values[] = {{0x80000000, "is -0;"},  {0xBF800000, "is -1;"},
                             {0x7F800000, "is inf;"}, {0xFFFFFFFF, "is nan;"},
                             {0x007FFFFF, "is "},     {0x7E800001, "is 8.5"}};
  for (const BadScale& bad : values) {
    float scale = 1.0F;
    support::set_bits(scale, bad.bits);
    const std::string message = support::message_of([&] { (void)ConstantLossScale(scale); });
    CHECK_THAT(message, ContainsSubstring(std::string("scale ") + bad.text));
    CHECK_THAT(message, ContainsSubstring("[2^-126, 2^126]"));
  }
}
