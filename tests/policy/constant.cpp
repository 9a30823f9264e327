#include <headroom/policy/constant.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/golden.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::ConstantLossScale;
using headroom::GradientReport;

namespace {

// Rule 6: it never changes.
constexpr ConstantLossScale start(128.0F);
static_assert(start.loss_scale() == 128.0F && start.inv_scale() == 0x1p-7F);
static_assert(start.adjust(false) == start && start.adjust(true) == start);
static_assert(start.adjust(GradientReport{false, 1.0}) == start && start.adjust(GradientReport{}) == start);
static_assert(noexcept(start.adjust(true)) && noexcept(start.adjust(GradientReport{})));
static_assert(std::is_trivially_copyable_v<ConstantLossScale> && sizeof(ConstantLossScale) <= 32);
static_assert(!std::is_convertible_v<float, ConstantLossScale> && !std::is_default_constructible_v<ConstantLossScale>);

struct Bad {
  std::uint32_t bits;
  const char* text;
};

}  // namespace

TEST_CASE("ConstantLossScale refuses what is no scale, naming it") {
  const Bad values[] = {{0x00000000, "is 0;"},   {0x80000000, "is -0;"},   {0xBF800000, "is -1;"},
                        {0x7F800000, "is inf;"}, {0xFF800000, "is -inf;"}, {0x7FC00000, "is nan;"},
                        {0xFFFFFFFF, "is nan;"}, {0x7F800001, "is nan;"},  {0x00000001, "is "},
                        {0x007FFFFF, "is "},     {0x7E800001, "is 8.5"},   {0x7F000000, "is 1.7014118e+38"}};
  for (const Bad& bad : values) {
    float scale = 1.0F;
    support::set_bits(scale, bad.bits);
    const std::string message = support::message_of([&] { (void)ConstantLossScale(scale); });
    CHECK_THAT(message, ContainsSubstring(std::string("scale ") + bad.text));
    CHECK_THAT(message, ContainsSubstring("[2^-126, 2^126]"));
  }
}

TEST_CASE("ConstantLossScale takes the ends of the range") {
  CHECK(ConstantLossScale(0x1p-126F).inv_scale() == 0x1p126F);
  CHECK(ConstantLossScale(0x1p126F).inv_scale() == 0x1p-126F);
  CHECK(ConstantLossScale(3.0F).inv_scale() == 1.0F / 3.0F);
}

TEST_CASE("ConstantLossScale follows its recorded sequence") {
  const auto traces = support::golden("constant.trace");
  CHECK(traces.size() == 1);
  for (const auto& trace : traces) {
    const auto scale = static_cast<float>(trace.config.at("initial_scale"));
    CHECK(support::first_difference(ConstantLossScale(scale), trace) == "");
  }
}

TEST_CASE("constant scales are equal where the scale is") {
  CHECK(ConstantLossScale(2.0F) == ConstantLossScale(2.0F));
  CHECK(ConstantLossScale(2.0F) != ConstantLossScale(3.0F));
  CHECK_FALSE(ConstantLossScale(2.0F) != ConstantLossScale(2.0F));
  CHECK_FALSE(ConstantLossScale(2.0F) == ConstantLossScale(3.0F));
}
