// What the recorded sequences of golden.cpp do not cover: bounds, special values of arguments,
// equal presets.
#include <headroom/policy/presets.hpp>

#include "support/catch.hpp"
#include "support/policies.hpp"

using support::after;
namespace presets = headroom::presets;

namespace {

// keras has no floor and no ceiling. Its scale stays in our range.
static_assert(presets::emily(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
static_assert(presets::megatron(0x1p125, 1.0, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
static_assert(after(presets::keras(0x1p125, 1), "+++").loss_scale() == 0x1p126F);
static_assert(after(presets::keras(0x1p-125), "---").loss_scale() == 0x1p-126F);
static_assert(presets::eformer() == presets::jmp());
static_assert(presets::eformer(1024.0, 5, 3.0, 0.5) == presets::jmp(1024.0, 5, 3.0, 0.5));
// A growth factor of 1 switches growth off; the counter starts anew.
constexpr bool stays(float scale, std::int64_t counter) { return scale == 8.0F && counter == 0; }
template <class Policy>
constexpr bool stays(const Policy& policy) {
  return stays(after(policy, "++").loss_scale(), after(policy, "++").counter());
}
static_assert(stays(presets::torch(8.0, 1.0, 0.5, 2)) && stays(presets::apex(8.0, 1.0, 0.5, 2)));
static_assert(stays(presets::megatron(8.0, 1.0, 1.0, 0.5, 2)) &&
              stays(presets::emily(8.0, 1.0, 0.5, 2)));
static_assert(stays(presets::flax(1.0, 0.5, 1, 8.0)) && stays(presets::paddle(8.0, 1.0, 0.5, 2)));

}  // namespace

TEST_CASE("torch, apex and jmp refuse a growth to Inf from any scale") {
  CHECK(presets::torch(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  // 1.25 * 2^127
  CHECK(presets::torch(0x1p125, 10.0, 0.5, 1).adjust(false).adjust(true).loss_scale() == 0x1p126F);
  CHECK(presets::torch(0x1p125, 1e300, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  // Rounded to float, (2 - 2^-24) * 2^127 is Inf, and the double below it is not.
  CHECK(presets::torch(1.0, 0x1.ffffffp127, 0.5, 1).adjust(true).loss_scale() == 1.0F);
  CHECK(presets::torch(1.0, 0x1.fffffefffffffp127, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
  CHECK(presets::apex(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  CHECK(presets::jmp(0x1p125, 1, 10.0).adjust(true).loss_scale() == 0x1p125F);
  CHECK(presets::jmp(1.0, 1, 0x1.fffffep127).adjust(true).loss_scale() == 0x1p126F);
}

TEST_CASE("flax can grow on every step") {
  CHECK(after(presets::flax(2.0, 0.5, 0), "++").loss_scale() == 262144.0F);
}

TEST_CASE("Cerebras' scale can double on a step that overflowed") {
  const auto before = after(presets::cerebras_fp16(1024.0, 4, 0.0, 0.0, 0.5), "++++");
  CHECK(before.loss_scale() == 1024.0F);
  CHECK(before.adjust(false).loss_scale() == 2048.0F);
  CHECK(before.adjust(false).counter() == 0);
  CHECK(before.adjust(false).state_dict().at("overflows") == headroom::StateValue(0));
}

TEST_CASE("fairseq's share of overflows is in double, its floor the larger of two settings") {
  const auto policy = presets::fairseq(1024.0, 2.0, 2000, 0.7);
  CHECK(after(policy, "+++------").loss_scale() == 1024.0F);
  CHECK(after(policy, "+++-------").loss_scale() == 512.0F);  // 7 of 10 steps: 0.7
  CHECK(presets::fairseq(1024.0, 2.0, 2000, 0.0, 8.0, 2.0).config().common.min_scale == 8.0F);
  CHECK(presets::fairseq(1024.0, 2.0, 2000, 0.0, 2.0, 8.0).config().common.min_scale == 8.0F);
}

TEST_CASE("a floor below our range means no floor, and a scale may start below its floor") {
  for (const double none : {0.0, -0.0, 0x1p-1074, 1e-300, 0x1p-127, 0x1.fffffffffffffp-127}) {
    CHECK(presets::jmp(1.0, 2000, 2.0, none).config().min_scale == headroom::smallest_loss_scale);
  }
  CHECK(presets::jmp(1.0, 2000, 2.0, 0x1.8p-126).config().min_scale == 0x1.8p-126F);
  CHECK(presets::jmp(4.0, 2000, 2.0, 100.0).loss_scale() == 4.0F);
  CHECK(presets::jmp(4.0, 2000, 2.0, 100.0).adjust(false).loss_scale() == 100.0F);
  CHECK(presets::emily(0.25).adjust(false).loss_scale() == 1.0F);
  CHECK(presets::megatron(4.0, 100.0, 2.0, 0.5, 1000, 1).adjust(false).loss_scale() == 100.0F);
}

TEST_CASE("Cerebras: 0 means the default, and the initial scale is clamped to the limits") {
  CHECK(presets::cerebras_fp16(0.0, 0, -0.0, 0.0, -0.0) == presets::cerebras_fp16());
  CHECK(presets::cerebras_fp16() == presets::cerebras_fp16(32768.0, 2000, 0x1p-14, 32768.0));
  CHECK(presets::cerebras_cbfloat16() ==
        presets::cerebras_cbfloat16(0x1p31, 2000, 0x1p-14, 0x1p31));
  CHECK(presets::cerebras_fp16(0x1p20).loss_scale() == 32768.0F);
  CHECK(presets::cerebras_fp16(0x1p-20).loss_scale() == 0x1p-14F);
}
