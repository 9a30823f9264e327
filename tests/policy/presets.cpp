// Compares presets with the systems that they follow: over recorded sequences, and with the system's own rule over random ones.
#include <headroom/policy/presets.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/policies.hpp"
#include "support/samples.hpp"
#include "support/systems.hpp"

using support::after;
namespace presets = headroom::presets;

namespace {

/// The arguments of a trace, or the system's default if the trace has none.
struct Arguments {
  const support::Trace& trace;
  double operator()(const char* name, double otherwise) const { return trace.config_or(name, otherwise); }
  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return static_cast<std::int64_t>(trace.config_or(name, static_cast<double>(otherwise)));
  }
  std::int32_t hysteresis(std::int64_t otherwise) const { return static_cast<std::int32_t>(whole("hysteresis", otherwise)); }
};

/// Checks every trace of a file. Returns their number.
template <class MakePreset>
std::size_t follow(const std::string& file, MakePreset make) {
  const auto traces = support::golden(file);
  for (const support::Trace& trace : traces) CHECK(support::first_difference(make(Arguments{trace}), trace) == "");
  return traces.size();
}

/// Random overflows: rare, frequent and in bursts.
std::vector<bool> random_overflows(std::mt19937& random, std::size_t steps) {
  static const unsigned in_1000[] = {0, 5, 30, 100, 300, 500, 900, 1000};
  std::vector<bool> overflows;
  while (overflows.size() < steps) {
    const unsigned share = in_1000[random() % 8];
    for (auto length = 1 + random() % 60; length > 0; --length) overflows.push_back(random() % 1000 < share);
  }
  return overflows;
}

/// The first step at which the preset differs from the system's own rule, or "". Stops if the system's scale leaves our range.
template <class Policy, class System>
std::string first_difference(Policy policy, System system, std::mt19937& random, std::size_t steps = 400) {
  std::size_t step = 0;
  for (const bool found_inf : random_overflows(random, steps)) {
    if (static_cast<double>(policy.loss_scale()) != static_cast<double>(system.scale)) {
      std::ostringstream text;
      text << "step " << step << ": the scale is " << policy.loss_scale() << " and should be " << system.scale;
      return text.str();
    }
    system.update(found_inf);
    if (!(system.scale >= 0x1p-126F && system.scale <= 0x1p126F)) return {};
    policy = policy.adjust(!found_inf);
    ++step;
  }
  return {};
}

/// Compares the two with their defaults.
template <class Policy, class System>
void check_defaults(const char* name, const Policy& policy, const System& system) {
  INFO(name);
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::cases(20); ++run) {
    CHECK(first_difference(policy, system, random, 200) == "");
    CHECK(first_difference(policy, system, random, 20000) == "");
  }
}

/// Random settings in the ranges of all systems.
struct RandomSettings {
  std::mt19937& random;
  double power = std::ldexp(1.0, static_cast<int>(random() % 16)), any = std::ldexp(pick({1.0, 1.25, 1.1}), exponent(-10, 60));
  double high = std::ldexp(pick({1.0, 1.25, 1.7}), exponent(66, 60));
  double growth = pick({2.0, 1.1, 3.0, 1.5}), backoff = pick({0.5, 0.3, 0.9, 0.25}), floor = pick({1.0, 0.37, 0.0, 100.0});
  double steep = pick({2.0, 10.0, 1e3, 1e10, 1e38}), gentle = pick({0.5, 0.3, 1e-3, 1e-20});
  double tolerance = pick({0.0, 0.05, 0.1, 0.25, 0.5, 1.0});
  std::int64_t interval = 1 + static_cast<std::int64_t>(random() % 40), soon = 1 + static_cast<std::int64_t>(random() % 4);
  std::int32_t hysteresis = 1 + static_cast<std::int32_t>(random() % 5);
  bool flag = random() % 2 == 0;

  double pick(std::initializer_list<double> values) { return values.begin()[random() % values.size()]; }
  int exponent(int from, unsigned count) { return static_cast<int>(random() % count) + from; }
};

/// Calls `compare(settings, random)` for many settings. It returns the result of first_difference.
template <class Compare>
void over_settings(const char* name, Compare compare) {
  INFO(name);
  std::mt19937 random(support::seed);
  for (int run = 0; run < support::cases(300); ++run) CHECK(compare(RandomSettings{random}, random) == "");
}

float in_float(double value) { return static_cast<float>(value); }

// Unlike torch, apex and jmp, these grow to the largest scale. keras has no floor and falls to the smallest.
static_assert(presets::emily(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
static_assert(presets::megatron(0x1p125, 1.0, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
static_assert(after(presets::keras(0x1p125, 1), "+++").loss_scale() == 0x1p126F);
static_assert(after(presets::keras(0x1p-125), "---").loss_scale() == 0x1p-126F);
// Eformer's scale is jmp's.
static_assert(presets::eformer() == presets::jmp());
static_assert(presets::eformer(1024.0, 5, 3.0, 0.5) == presets::jmp(1024.0, 5, 3.0, 0.5));
// Paddle: only overflows in a row lower the scale, here every second one.
constexpr auto paddle = presets::paddle(1024.0, 2.0, 0.5, 1000, 2);
static_assert(after(paddle, "-").loss_scale() == 1024.0F && after(paddle, "--").loss_scale() == 512.0F);
static_assert(after(paddle, "-+-").loss_scale() == 1024.0F && after(paddle, "---").loss_scale() == 512.0F);
static_assert(after(paddle, "----").loss_scale() == 256.0F);

}  // namespace

TEST_CASE("presets follow the recorded sequences of their systems") {
  CHECK(follow("torch.trace", [](Arguments get) {
          return presets::torch(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                                get.whole("growth_interval", 2000));
        }) == 29);
  CHECK(follow("apex_hysteresis.trace", [](Arguments get) {
          return presets::apex(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                               get.whole("growth_interval", 2000), get.hysteresis(2));
        }) == 51);
  CHECK(follow("megatron_dynamic.trace", [](Arguments get) {
          return presets::megatron(get("initial_scale", 0x1p32), get("min_scale", 1.0), get("growth_factor", 2.0),
                                   get("backoff_factor", 0.5), get.whole("growth_interval", 1000), get.hysteresis(2));
        }) == 54);
  CHECK(follow("deepspeed.trace", [](Arguments get) {
          return presets::deepspeed(get("initial_scale", 0x1p32), get("factor", 2.0), get.whole("growth_interval", 1000),
                                    get("min_scale", 1.0), get.hysteresis(1), get("consecutive_hysteresis", 0.0) != 0.0);
        }) == 18);
  std::size_t cbfloat16 = 0;
  CHECK(follow("cerebras_dynamic.trace", [&](Arguments get) {
          const bool is_cbfloat16 = get.trace.name.find("cb16") != std::string::npos;
          cbfloat16 += is_cbfloat16 ? 1U : 0U;
          return (is_cbfloat16 ? presets::cerebras_cbfloat16 : presets::cerebras_fp16)(
              get("initial_scale", 0.0), get.whole("growth_interval", 0), get("min_scale", 0.0), get("max_scale", 0.0),
              get("overflow_tolerance", 0.0));
        }) == 56);
  CHECK(cbfloat16 == 2);
  CHECK(follow("jmp_dynamic.trace", [](Arguments get) {
          return presets::jmp(get("initial_scale", 32768.0), get.whole("growth_interval", 2000), get("factor", 2.0),
                              get("min_scale", 1.0));
        }) == 31);
  CHECK(follow("emily.trace", [](Arguments get) {
          return presets::emily(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                                get.whole("growth_interval", 2000), get("min_scale", 1.0));
        }) == 20);
  // flax counts steps since the last change, as we do; only its interval differs.
  CHECK(follow("flax.trace", [](Arguments get) {
          return presets::flax(get("growth_factor", 2.0), get("backoff_factor", 0.5), get.whole("growth_interval", 2000),
                               get("initial_scale", 65536.0), get("min_scale", 0x1p-126));
        }) == 22);
  CHECK(follow("keras.trace", [](Arguments get) {
          return presets::keras(get("initial_scale", 32768.0), get.whole("growth_interval", 2000));
        }) == 11);
  CHECK(follow("paddle.trace", [](Arguments get) {
          return presets::paddle(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                                 get.whole("growth_interval", 2000), get.hysteresis(1));
        }) == 21);
}

TEST_CASE("RoundPipe's synchronous sequences are those of torch") {
  std::size_t synchronous = 0;
  for (support::Trace trace : support::golden("roundpipe.trace")) {
    if (trace.config_or("is_async", 1.0) != 0.0) continue;
    ++synchronous;
    trace.scales["scale"] = trace.scales.at("scale_main");
    const Arguments get{trace};
    CHECK(support::first_difference(presets::torch(get("initial_scale", 65536.0), get("growth_factor", 2.0),
                                                   get("backoff_factor", 0.5), get.whole("growth_interval", 2000)),
                                    trace) == "");
  }
  CHECK(synchronous == 13);
}

TEST_CASE("presets follow their systems with default arguments") {
  check_defaults("torch", presets::torch(), systems::Torch());
  check_defaults("apex", presets::apex(), systems::Apex());
  check_defaults("megatron", presets::megatron(), systems::Megatron());
  check_defaults("deepspeed", presets::deepspeed(), systems::DeepSpeed());
  check_defaults("cerebras_fp16", presets::cerebras_fp16(), systems::Cerebras());
  check_defaults("cerebras_cbfloat16", presets::cerebras_cbfloat16(), systems::Cerebras{0x1p31F, 2000, 0x1p-14F, 0x1p31F});
  // fairseq's behaviour at its floor is not compared.
  check_defaults("fairseq", presets::fairseq().with_settings({{"min_scale", 0x1p-126}}), systems::Fairseq());
  check_defaults("jmp", presets::jmp(), systems::Jmp());
  check_defaults("eformer", presets::eformer(), systems::Jmp());
  check_defaults("emily", presets::emily(), systems::Emily());
  check_defaults("flax", presets::flax(), systems::Flax());
  check_defaults("keras", presets::keras(), systems::Keras());
  check_defaults("paddle", presets::paddle(), systems::Paddle());
}

TEST_CASE("presets follow their systems over random settings and sequences") {
  over_settings("torch", [](RandomSettings s, auto& random) {
    return first_difference(presets::torch(s.any, s.growth, s.backoff, s.interval),
                            systems::Torch{in_float(s.any), s.growth, s.backoff, s.interval}, random);
  });
  over_settings("apex", [](RandomSettings s, auto& random) {
    return first_difference(presets::apex(s.any, s.growth, s.backoff, s.interval, s.hysteresis),
                            systems::Apex{in_float(s.any), s.growth, s.backoff, s.interval, s.hysteresis}, random);
  });
  over_settings("megatron", [](RandomSettings s, auto& random) {
    const double start = s.any * 1024.0, floor = s.floor < 1.0 ? s.floor : 1.0;
    return first_difference(
        presets::megatron(start, floor, s.growth, s.backoff, s.interval, s.hysteresis),
        systems::Megatron{in_float(start), in_float(floor), in_float(s.growth), in_float(s.backoff), s.interval, s.hysteresis},
        random);
  });
  // DeepSpeed, fairseq and Emily keep the scale in double. Ours are equal unless a product is rounded.
  over_settings("deepspeed", [](RandomSettings s, auto& random) {
    return first_difference(presets::deepspeed(s.power * 1024.0, 2.0, s.interval, 2.0, s.hysteresis, s.flag),
                            systems::DeepSpeed{s.power * 1024.0, 2.0, s.interval, 2.0, s.hysteresis, s.flag}, random);
  });
  over_settings("fairseq", [](RandomSettings s, auto& random) {
    return first_difference(presets::fairseq(s.power, 2.0, s.interval, s.tolerance, 0.0, 0.0),
                            systems::Fairseq{s.power, 2.0, s.interval, s.tolerance}, random);
  });
  over_settings("emily", [](RandomSettings s, auto& random) {
    return first_difference(presets::emily(s.power, 2.0, 0.5, s.interval, 4.0),
                            systems::Emily{s.power, 2.0, 0.5, s.interval, 4.0}, random);
  });
  over_settings("cerebras", [](RandomSettings s, auto& random) {
    const double least = s.pick({0x1p-14, 0.75, 0.1}), most = s.pick({0x1p15, 0x1p24, 1e5});
    return first_difference(
        presets::cerebras_fp16(s.power, s.interval, least, most, s.tolerance),
        systems::Cerebras{in_float(s.power), s.interval, in_float(least), in_float(most), in_float(s.tolerance)}, random);
  });
  over_settings("jmp", [](RandomSettings s, auto& random) {
    const double factor = s.pick({2.0, 3.0, 1.1, 1.7, 10.0});
    return first_difference(presets::jmp(s.any, s.interval, factor, s.floor),
                            systems::Jmp{in_float(s.any), s.interval, in_float(factor), in_float(s.floor)}, random);
  });
  over_settings("flax", [](RandomSettings s, auto& random) {
    const double start = std::ldexp(s.any, s.exponent(-80, 160));
    return first_difference(
        presets::flax(s.growth, s.backoff, s.interval - 1, start, s.floor),
        systems::Flax{in_float(start), in_float(s.growth), in_float(s.backoff), s.interval - 1, in_float(s.floor)}, random);
  });
  over_settings("keras", [](RandomSettings s, auto& random) {
    return first_difference(presets::keras(s.any, s.interval), systems::Keras{in_float(s.any), s.interval}, random);
  });
  over_settings("paddle", [](RandomSettings s, auto& random) {
    return first_difference(presets::paddle(s.any, s.growth, s.backoff, s.interval, s.hysteresis),
                            systems::Paddle{in_float(s.any), in_float(s.growth), in_float(s.backoff), s.interval, s.hysteresis},
                            random);
  });
}

TEST_CASE("torch, apex and jmp refuse a growth to Inf from any scale") {
  static_assert(presets::torch(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  static_assert(presets::torch(0x1p125, 10.0, 0.5, 1).adjust(false).adjust(true).loss_scale() == 0x1p126F);  // 1.25 * 2^127
  static_assert(presets::torch(0x1p125, 1e300, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  // Rounded to float, (2 - 2^-24) * 2^127 is Inf, and the double below it is not.
  static_assert(presets::torch(1.0, 0x1.ffffffp127, 0.5, 1).adjust(true).loss_scale() == 1.0F);
  static_assert(presets::torch(1.0, 0x1.fffffefffffffp127, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
  over_settings("torch", [](RandomSettings s, auto& random) {
    return first_difference(presets::torch(s.high, s.steep, s.gentle, s.soon),
                            systems::Torch{in_float(s.high), s.steep, s.gentle, s.soon}, random);
  });
  over_settings("apex", [](RandomSettings s, auto& random) {
    return first_difference(presets::apex(s.high, s.steep, s.gentle, s.soon, 2),
                            systems::Apex{in_float(s.high), s.steep, s.gentle, s.soon, 2}, random);
  });
  over_settings("jmp", [](RandomSettings s, auto& random) {
    return first_difference(presets::jmp(s.high, s.soon, s.steep),
                            systems::Jmp{in_float(s.high), s.soon, in_float(s.steep), 1.0F}, random);
  });
}

TEST_CASE("flax grows one step after each interval, DeepSpeed after window + 1 steps and then every window steps") {
  static_assert(after(presets::flax(2.0, 0.5, 3), "+++").loss_scale() == 65536.0F);
  static_assert(after(presets::flax(2.0, 0.5, 3), "++++").loss_scale() == 131072.0F);
  static_assert(after(presets::flax(2.0, 0.5, 3), "++++++++").loss_scale() == 262144.0F);
  static_assert(after(presets::flax(2.0, 0.5, 0), "++").loss_scale() == 262144.0F);
  constexpr auto deepspeed = presets::deepspeed(1024.0, 2.0, 3);
  CHECK(after(deepspeed, "+++").loss_scale() == 1024.0F);
  CHECK(after(deepspeed, "++++").loss_scale() == 2048.0F);
  CHECK(after(deepspeed, "+++++++").loss_scale() == 4096.0F);
  CHECK(after(deepspeed, "++++-++++").loss_scale() == 2048.0F);
  CHECK(after(deepspeed, "++++-++++").counter() == 4);
}

TEST_CASE("Cerebras' scale can double on a step that overflowed") {
  const auto before = after(presets::cerebras_fp16(1024.0, 4, 0.0, 0.0, 0.5), "++++");
  CHECK(before.loss_scale() == 1024.0F);
  CHECK(before.adjust(false).loss_scale() == 2048.0F);
  CHECK(before.adjust(false).counter() == 0);
  CHECK(before.adjust(false).state_dict().at("overflows") == headroom::StateValue(0));
}

TEST_CASE("fairseq's share of overflows is computed in double, and its floor is the larger of its two settings") {
  const auto policy = presets::fairseq(1024.0, 2.0, 2000, 0.7);
  CHECK(after(policy, "+++------").loss_scale() == 1024.0F);
  CHECK(after(policy, "+++-------").loss_scale() == 512.0F);  // 7 of 10 steps: 0.7
  CHECK(presets::fairseq(1024.0, 2.0, 2000, 0.0, 8.0, 2.0).config().scale.min_scale == 8.0F);
  CHECK(presets::fairseq(1024.0, 2.0, 2000, 0.0, 2.0, 8.0).config().scale.min_scale == 8.0F);
}

TEST_CASE("a floor below our range means no floor, and jmp's and Emily's scales may start below their floor") {
  for (const double none : {0.0, -0.0, 0x1p-1074, 1e-300, 0x1p-127, 0x1.fffffffffffffp-127}) {
    CHECK(presets::jmp(1.0, 2000, 2.0, none).config().min_scale == headroom::smallest_loss_scale);
  }
  CHECK(presets::jmp(1.0, 2000, 2.0, 0x1.8p-126).config().min_scale == 0x1.8p-126F);
  CHECK(presets::jmp(4.0, 2000, 2.0, 100.0).loss_scale() == 4.0F);
  CHECK(presets::jmp(4.0, 2000, 2.0, 100.0).adjust(false).loss_scale() == 100.0F);
  CHECK(presets::emily(0.25).adjust(false).loss_scale() == 1.0F);
}

TEST_CASE("Cerebras: 0 means the default, and the initial scale is clamped to the limits") {
  CHECK(presets::cerebras_fp16(0.0, 0, -0.0, 0.0, -0.0) == presets::cerebras_fp16());
  CHECK(presets::cerebras_fp16() == presets::cerebras_fp16(32768.0, 2000, 0x1p-14, 32768.0));
  CHECK(presets::cerebras_cbfloat16() == presets::cerebras_cbfloat16(0x1p31, 2000, 0x1p-14, 0x1p31));
  CHECK(presets::cerebras_fp16(0x1p20).loss_scale() == 32768.0F);
  CHECK(presets::cerebras_fp16(0x1p-20).loss_scale() == 0x1p-14F);
}
