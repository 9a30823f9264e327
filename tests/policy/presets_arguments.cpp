// What the arguments of presets mean, and which are refused.
#include <headroom/policy/presets.hpp>

#include <limits>
#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
namespace presets = headroom::presets;

TEST_CASE("Cerebras' 0 means the default, and its limits hold") {
  CHECK(presets::cerebras_fp16(0.0, 0, 0.0, 0.0, 0.0) == presets::cerebras_fp16());
  CHECK(presets::cerebras_fp16() == presets::cerebras_fp16(32768.0, 2000, 0x1p-14, 32768.0));
  CHECK(presets::cerebras_cbfloat16() == presets::cerebras_cbfloat16(0x1p31, 2000, 0x1p-14, 0x1p31));
  CHECK(presets::cerebras_fp16(-0.0, 0, -0.0, -0.0, -0.0) == presets::cerebras_fp16());
  CHECK(presets::cerebras_fp16(0x1p20).loss_scale() == 32768.0F);  // min(max_loss_scale, init_scale)
  CHECK(presets::cerebras_fp16(0x1p-20).loss_scale() == 0x1p-14F);
  CHECK_THAT(support::message_of([] { (void)presets::cerebras_fp16(0.0, 0, 0x1p-15); }),
             ContainsSubstring("min_loss_scale is 3.05175781e-05; it must be at least 2^-14"));
  CHECK_THAT(support::message_of([] { (void)presets::cerebras_fp16(0.0, 0, 0.0, 0.0, -0.5); }),
             ContainsSubstring("overflow_tolerance is -0.5"));
}

TEST_CASE("the floor of fairseq and metaseq is the larger of their two, and a tiny one is none") {
  CHECK(presets::fairseq(1024.0, 2.0, 2000, 0.0, 8.0, 2.0).config().scale.min_scale == 8.0F);
  CHECK(presets::fairseq(1024.0, 2.0, 2000, 0.0, 2.0, 8.0).config().scale.min_scale == 8.0F);
  CHECK(presets::metaseq(1024.0, 2.0, 256, 0.0, 0.0, 4.0).config().scale.min_scale == 4.0F);
  for (const double none : {0.0, 0x1p-1074, 1e-300, 0x1p-127, 0x1.fffffffffffffp-127}) {
    CHECK(presets::jmp(1.0, 2000, 2.0, none).config().min_scale == headroom::smallest_loss_scale);
    CHECK_THAT(support::message_of([&] { (void)presets::jmp(1.0, 2000, 2.0, -none); }),
               ContainsSubstring("min_loss_scale is -"));
  }
  CHECK(presets::jmp(1.0, 2000, 2.0, 0x1.8p-126).config().min_scale == 0x1.8p-126F);
}

TEST_CASE("a scale may start below the floor where the system lets it") {
  CHECK(presets::jmp(4.0, 2000, 2.0, 100.0).loss_scale() == 4.0F);
  CHECK(presets::jmp(4.0, 2000, 2.0, 100.0).adjust(false).loss_scale() == 100.0F);
  CHECK(presets::emily(0.25).adjust(false).loss_scale() == 1.0F);
  CHECK_THAT(support::message_of([] { (void)presets::megatron(4.0, 100.0); }), ContainsSubstring("min_scale is 100"));
}

TEST_CASE("a bad argument is named, with its value") {
  double nan = 0.0, infinity = 0.0;
  support::set_bits(nan, headroom::binary64::quiet_nan_bits);
  support::set_bits(infinity, headroom::binary64::infinity_bits);
  CHECK_THAT(support::message_of([&] { (void)presets::torch(nan); }), ContainsSubstring("init_scale is nan"));
  CHECK_THAT(support::message_of([&] { (void)presets::torch(infinity); }), ContainsSubstring("init_scale is inf"));
  CHECK_THAT(support::message_of([] { (void)presets::torch(1e300); }), ContainsSubstring("init_scale is 1e+300"));
  CHECK_THAT(support::message_of([] { (void)presets::torch(0.0); }), ContainsSubstring("init_scale is 0"));
  CHECK_THAT(support::message_of([] { (void)presets::torch(-1.0); }), ContainsSubstring("init_scale is -1"));
  CHECK_THAT(support::message_of([] { (void)presets::torch(1.0, 0.5); }), ContainsSubstring("growth_factor is 0.5"));
  CHECK_THAT(support::message_of([] { (void)presets::torch(1.0, 2.0, 2.0); }), ContainsSubstring("backoff_factor is 2"));
  CHECK_THAT(support::message_of([] { (void)presets::torch(1.0, 2.0, 0.5, 0); }), ContainsSubstring("growth_interval is 0"));
  CHECK_THAT(support::message_of([&] { (void)presets::jmp(1.0, 2000, nan); }), ContainsSubstring("factor is nan"));
  CHECK_THAT(support::message_of([] { (void)presets::jmp(1.0, 2000, 1e300); }), ContainsSubstring("factor is 1e+300"));
  CHECK_THAT(support::message_of([] { (void)presets::jmp(1.0, 2000, 1.00000001); }),
             ContainsSubstring("factor is 1.00000001; it must be above 1 as a float"));
  CHECK_THAT(support::message_of([] { (void)presets::deepspeed(1.0, 1.0); }),
             ContainsSubstring("scale_factor is 1; it must be above 1"));
  CHECK_THAT(support::message_of([] { (void)presets::jmp(1.0, 2000, 2.0, -1.0); }), ContainsSubstring("min_loss_scale is -1"));
  CHECK_THAT(support::message_of([&] { (void)presets::jmp(1.0, 2000, 2.0, nan); }), ContainsSubstring("min_loss_scale is nan"));
  CHECK_THAT(support::message_of([] { (void)presets::megatron(0x1p32, 1.0, 2.0, 0.5, 1000, 0); }),
             ContainsSubstring("hysteresis is 0"));
  for (const int power : {-127, 127, 1000, std::numeric_limits<int>::min()}) {
    CHECK_THAT(support::message_of([&] { (void)presets::deepspeed_config(power); }),
               ContainsSubstring("initial_scale_power is " + std::to_string(power) + "; it must be in [-126, 126]"));
  }
  CHECK(presets::deepspeed_config(-126).loss_scale() == headroom::smallest_loss_scale);
  CHECK(presets::deepspeed_config(126).loss_scale() == headroom::largest_loss_scale);
  CHECK_THAT(support::message_of([] { (void)presets::deepspeed(1.0, 2.0, 1000, 1.0, 0); }),
             ContainsSubstring("delayed_shift is 0"));
}
