#include <headroom/policy/presets.hpp>

#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/policies.hpp"
#include "support/samples.hpp"
#include "support/systems.hpp"

using support::Trace;
namespace presets = headroom::presets;

namespace {

// What the systems begin with.
static_assert(presets::jmp().loss_scale() == 32768.0F && presets::eformer().loss_scale() == 32768.0F);
static_assert(presets::emily().loss_scale() == 65536.0F && presets::torch().loss_scale() == 65536.0F);
static_assert(presets::megatron().loss_scale() == 0x1p32F && presets::megatron().hysteresis_left() == 2);
static_assert(presets::deepspeed().loss_scale() == 0x1p32F && presets::deepspeed().hysteresis_left() == 1);
static_assert(presets::deepspeed_0_16().config() == presets::deepspeed().config());
static_assert(presets::deepspeed_config().loss_scale() == 65536.0F && presets::deepspeed_config().hysteresis_left() == 2);
static_assert(presets::deepspeed_config() == presets::deepspeed(65536.0, 2.0, 1000, 1.0, 2, false));
static_assert(presets::cerebras_fp16().loss_scale() == 32768.0F);
static_assert(presets::cerebras_cbfloat16().loss_scale() == 0x1p31F);
static_assert(presets::fairseq().loss_scale() == 32768.0F && presets::metaseq().loss_scale() == 4.0F);
static_assert(presets::metaseq().growth().window() == 256.0);

/// The arguments of a trace, the system's default for what it does not say.
struct Arguments {
  const Trace& trace;
  double operator()(const char* name, double otherwise) const { return trace.config_or(name, otherwise); }
  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return static_cast<std::int64_t>(trace.config_or(name, static_cast<double>(otherwise)));
  }
};

/// Follows every trace of a file, and returns how many.
template <class MakePreset>
std::size_t follow(const std::string& file, MakePreset make) {
  const auto traces = support::golden(file);
  for (const Trace& trace : traces) CHECK(support::first_difference(make(Arguments{trace}), trace) == "");
  return traces.size();
}

/// Random overflows: rare, frequent, and in bursts.
std::vector<bool> random_overflows(std::mt19937& random, std::size_t steps) {
  static const unsigned in_1000[] = {0, 5, 30, 100, 300, 500, 900, 1000};
  std::vector<bool> overflows;
  while (overflows.size() < steps) {
    const unsigned share = in_1000[random() % 8];
    for (auto length = 1 + random() % 60; length > 0; --length) overflows.push_back(random() % 1000 < share);
  }
  return overflows;
}

/// Where the preset (with `up_to_rounding`: by more than rounding its scale to float explains) first differs from the system's
/// own rule; empty where it does not, as long as the system's scale is one that we have.
template <class Policy, class System>
std::string first_difference(Policy policy, System system, std::mt19937& random, bool up_to_rounding = false) {
  std::size_t step = 0;
  for (const bool found_inf : random_overflows(random, 400)) {
    const auto ours = static_cast<double>(policy.loss_scale()), theirs = static_cast<double>(system.scale);
    if (up_to_rounding ? std::abs(ours - theirs) > 1e-4 * theirs : ours != theirs) {
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

double pick(std::mt19937& random, std::initializer_list<double> values) { return values.begin()[random() % values.size()]; }
std::int64_t pick_interval(std::mt19937& random) { return 1 + static_cast<std::int64_t>(random() % 40); }

constexpr int runs = 300;

}  // namespace

TEST_CASE("each preset follows the recorded sequences of its system") {
  CHECK(follow("jmp_dynamic.trace", [](Arguments get) {
          return presets::jmp(get("initial_scale", 32768.0), get.whole("growth_interval", 2000), get("factor", 2.0),
                              get("min_scale", 1.0));
        }) == 31);
  CHECK(follow("emily.trace", [](Arguments get) {
          return presets::emily(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                                get.whole("growth_interval", 2000), get("min_scale", 1.0));
        }) == 20);
  CHECK(follow("torch.trace", [](Arguments get) {
          return presets::torch(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                                get.whole("growth_interval", 2000));
        }) == 29);
  CHECK(follow("megatron_dynamic.trace", [](Arguments get) {
          return presets::megatron(get("initial_scale", 0x1p32), get("min_scale", 1.0), get("growth_factor", 2.0),
                                   get("backoff_factor", 0.5), get.whole("growth_interval", 1000),
                                   static_cast<std::int32_t>(get.whole("hysteresis", 2)));
        }) == 54);
  CHECK(follow("apex_hysteresis.trace", [](Arguments get) {
          return presets::apex(get("initial_scale", 65536.0), get("growth_factor", 2.0), get("backoff_factor", 0.5),
                               get.whole("growth_interval", 2000), static_cast<std::int32_t>(get.whole("hysteresis", 2)));
        }) == 51);
  CHECK(follow("deepspeed.trace", [](Arguments get) {
          return presets::deepspeed(get("initial_scale", 0x1p32), get("factor", 2.0), get.whole("growth_interval", 1000),
                                    get("min_scale", 1.0), static_cast<std::int32_t>(get.whole("hysteresis", 1)),
                                    get("consecutive_hysteresis", 0.0) != 0.0);
        }) == 18);
}

TEST_CASE("Cerebras' presets follow its recorded sequences, each of the half dtype's") {
  std::size_t cbfloat16 = 0;
  CHECK(follow("cerebras_dynamic.trace", [&](Arguments get) {
          const bool is_cbfloat16 = get.trace.name.find("cb16") != std::string::npos;
          cbfloat16 += is_cbfloat16 ? 1U : 0U;
          return (is_cbfloat16 ? presets::cerebras_cbfloat16 : presets::cerebras_fp16)(
              get("initial_scale", 0.0), get.whole("growth_interval", 0), get("min_scale", 0.0), get("max_scale", 0.0),
              get("overflow_tolerance", 0.0));
        }) == 56);
  CHECK(cbfloat16 == 2);
}

TEST_CASE("RoundPipe's synchronous sequences are torch's") {
  std::size_t synchronous = 0;
  for (const Trace& trace : support::golden("roundpipe.trace")) {
    if (trace.config_or("is_async", 1.0) != 0.0) continue;
    ++synchronous;
    Trace main = trace;
    main.scales["scale"] = trace.scales.at("scale_main");
    const Arguments get{trace};
    CHECK(support::first_difference(presets::torch(get("initial_scale", 65536.0), get("growth_factor", 2.0),
                                                   get("backoff_factor", 0.5), get.whole("growth_interval", 2000)),
                                    main) == "");
  }
  CHECK(synchronous == 13);
}

TEST_CASE("torch, jmp, Emily and apex are followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 60) - 10), any = start * pick(random, {1.0, 1.25, 1.1});
    const double growth = pick(random, {2.0, 1.1, 3.0, 1.5}), backoff = pick(random, {0.5, 0.3, 0.9, 0.25});
    const double factor = pick(random, {2.0, 3.0, 1.1, 1.7, 10.0}), floor = pick(random, {1.0, 0.37, 0.0, 100.0});
    const std::int64_t interval = pick_interval(random);
    const auto hysteresis = static_cast<std::int32_t>(1 + random() % 5);
    const auto as_float = static_cast<float>(any);
    CHECK(first_difference(presets::torch(any, growth, backoff, interval), systems::Torch{as_float, growth, backoff, interval},
                           random) == "");
    CHECK(first_difference(presets::apex(any, growth, backoff, interval, hysteresis),
                           systems::Apex{as_float, growth, backoff, interval, hysteresis}, random) == "");
    CHECK(first_difference(presets::jmp(any, interval, factor, floor),
                           systems::Jmp{as_float, interval, static_cast<float>(factor), static_cast<float>(floor)},
                           random) == "");
    // Its scale is a double: ours is the same where no product is rounded.
    CHECK(first_difference(presets::emily(start, 2.0, 0.5, interval, 4.0), systems::Emily{start, 2.0, 0.5, interval, 4.0},
                           random) == "");
  }
}

TEST_CASE("torch, jmp, eformer and apex stay where a growth would be Inf, however far below their limit that is") {
  static_assert(presets::torch(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  static_assert(presets::jmp(0x1p125, 1, 10.0).adjust(true).loss_scale() == 0x1p125F);
  static_assert(presets::eformer(0x1p125, 1, 10.0).adjust(true).counter() == 0);
  static_assert(presets::apex(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  static_assert(presets::torch(0x1p125, 10.0, 0.5, 1).adjust(false).adjust(true).loss_scale() == 0x1p126F);  // 1.25 * 2^127
  static_assert(presets::emily(0x1p125, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
  static_assert(presets::megatron(0x1p125, 1.0, 10.0, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);
  static_assert(presets::torch(0x1p125, 1e300, 0.5, 1).adjust(true).loss_scale() == 0x1p125F);
  // Rounded to float, (2 - 2^-24) * 2^127 is Inf, and the double below it is not.
  static_assert(presets::torch(1.0, 0x1.ffffffp127, 0.5, 1).adjust(true).loss_scale() == 1.0F);
  static_assert(presets::torch(1.0, 0x1.fffffefffffffp127, 0.5, 1).adjust(true).loss_scale() == 0x1p126F);

  std::mt19937 random(support::seed);
  for (int run = 0; run < runs; ++run) {
    const double start = std::ldexp(pick(random, {1.0, 1.25, 1.7}), static_cast<int>(random() % 60) + 66);
    const double growth = pick(random, {2.0, 10.0, 1e3, 1e10, 1e38}), backoff = pick(random, {0.5, 0.3, 1e-3, 1e-20});
    const auto interval = static_cast<std::int64_t>(1 + random() % 4);
    const auto as_float = static_cast<float>(start);
    CHECK(first_difference(presets::torch(start, growth, backoff, interval),
                           systems::Torch{as_float, growth, backoff, interval}, random) == "");
    CHECK(first_difference(presets::apex(start, growth, backoff, interval, 2),
                           systems::Apex{as_float, growth, backoff, interval, 2}, random) == "");
    CHECK(first_difference(presets::jmp(start, interval, growth),
                           systems::Jmp{as_float, interval, static_cast<float>(growth), 1.0F}, random) == "");
  }
}

TEST_CASE("Megatron and DeepSpeed are followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 60) + 10), any = start * pick(random, {1.0, 1.25, 1.1});
    const double growth = pick(random, {2.0, 1.1, 3.0}), backoff = pick(random, {0.5, 0.3, 0.9}),
                 floor = pick(random, {1.0, 3.7, 0.1});
    const std::int64_t interval = pick_interval(random);
    const auto hysteresis = static_cast<std::int32_t>(1 + random() % 5);
    CHECK(first_difference(presets::megatron(any, floor, growth, backoff, interval, hysteresis),
                           systems::Megatron{static_cast<float>(any), static_cast<float>(floor), static_cast<float>(growth),
                                             static_cast<float>(backoff), interval, hysteresis},
                           random) == "");
    const bool consecutive = random() % 2 == 0;
    CHECK(first_difference(presets::deepspeed_0_16(start, 2.0, interval, 2.0, hysteresis, consecutive),
                           systems::DeepSpeed{start, 2.0, interval, 2.0, hysteresis, consecutive, false}, random) == "");
    CHECK(first_difference(presets::deepspeed_config(16, interval, hysteresis, consecutive, 2.0),
                           systems::DeepSpeed{65536.0, 2.0, interval, 2.0, hysteresis, consecutive}, random) == "");
    CHECK(first_difference(presets::deepspeed(start, 2.0, interval, 2.0, hysteresis, consecutive),
                           systems::DeepSpeed{start, 2.0, interval, 2.0, hysteresis, consecutive}, random) == "");
  }
}

TEST_CASE("Cerebras, fairseq and metaseq are followed over random settings and sequences") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < runs; ++run) {
    const double start = std::ldexp(1.0, static_cast<int>(random() % 16)),
                 tolerance = pick(random, {0.0, 0.05, 0.1, 0.25, 0.5, 1.0});
    const double least = pick(random, {0x1p-14, 0.75, 0.1}), most = pick(random, {0x1p15, 0x1p24, 1e5});
    const std::int64_t interval = pick_interval(random);
    CHECK(first_difference(presets::cerebras_fp16(start, interval, least, most, tolerance),
                           systems::Cerebras{static_cast<float>(start), interval, static_cast<float>(least),
                                             static_cast<float>(most), static_cast<float>(tolerance)},
                           random) == "");
    const auto window = static_cast<double>(interval);
    const double factor = pick(random, {2.0, 1.5, 3.0, 1.25});
    CHECK(first_difference(presets::fairseq(start, 2.0, interval, tolerance, 0.0, 0.0),
                           systems::Fairseq{start, 2.0, window, tolerance, false}, random) == "");
    CHECK(first_difference(presets::metaseq(start, factor, interval, tolerance, 0.0, 0.0),
                           systems::Fairseq{start, factor, window, tolerance, true}, random, true) == "");
  }
}
