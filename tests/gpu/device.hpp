#pragma once

// What a kernel may call of headroom: every policy's adjust, the fp8 rules and the conversions of
// dtypes. hash_of(cases) is the same on the host and on a device.

#include <headroom/dtype/float8.hpp>
#include <headroom/dtype/half.hpp>
#include <headroom/policy/amax.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/presets.hpp>
#include <headroom/quantize/rules.hpp>

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__) || defined(__CUDA__) || defined(__HIP__)
#define DEVICE __host__ __device__
#else
#define DEVICE
#endif

/// A policy of a user's.
class HalvingScale : public headroom::LossScaleVerbs<HalvingScale> {
 public:
  DEVICE float loss_scale() const { return scale_; }
  DEVICE HalvingScale adjust(bool grads_finite) const {
    HalvingScale next = *this;
    if (!grads_finite && scale_ > 1.0F) next.scale_ = scale_ / 2.0F;
    return next;
  }
  DEVICE HalvingScale adjust(const headroom::GradientReport& report) const {
    return adjust(report.finite);
  }

 private:
  float scale_ = 0x1p100F;
};

/// Constructors check their arguments, so the host calls them.
struct Cases {
  HalvingScale user_policy;
  headroom::NoOpLossScale noop;
  headroom::ConstantLossScale constant{8.0F};
  headroom::DynamicLossScale dynamic = headroom::presets::jmp(32768.0, 5, 1.7);
  headroom::DynamicLossScale unbounded = headroom::presets::torch(0x1p120, 1e300, 0x1p-140, 3);
  headroom::HysteresisScale hysteresis = headroom::presets::apex(65536.0, 2.0, 0.5, 4, 3);
  headroom::BasicHysteresisScale<headroom::RefillOnGrowth> megatron =
      headroom::presets::megatron(65536.0, 1.0, 2.0, 0.5, 4, 2);
  headroom::BasicHysteresisScale<headroom::RefillOnBackoff> on_backoff{{{}, 3}};
  headroom::PaddleLossScale paddle = headroom::presets::paddle(65536.0, 2.0, 0.5, 4, 2);
  headroom::DeepSpeedLossScale deepspeed =
      headroom::presets::deepspeed(65536.0, 2.0, 3, 1.0, 2, true);
  headroom::CerebrasLossScale cerebras = headroom::presets::cerebras_fp16(0.0, 7, 0.0, 0.0, 0.1);
  headroom::FairseqLossScale fairseq = headroom::presets::fairseq(32768.0, 2.0, 3, 0.1);
  headroom::AmaxLossScale amax{{{}, 0.01}};
  headroom::DelayedScaling delayed{4, headroom::Amax::max, 1, true},
      recent{4, headroom::Amax::most_recent};
  headroom::CurrentScaling current{0x1p-20F, true};
  headroom::TorchaoScaling torchao;
};

struct Hash {
  std::uint64_t state = 0xCBF29CE484222325;
  DEVICE void add(std::uint64_t value) {
    state = (state ^ value) * 0x100000001B3;
    state ^= state >> 29;
  }
  DEVICE void add(float value) {
    add(std::uint64_t{headroom::detail::bit_cast<std::uint32_t>(value)});
  }
};
struct Random {
  std::uint64_t state = 1;
  DEVICE std::uint32_t operator()() {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<std::uint32_t>(state >> 32);
  }
};

template <class P>
DEVICE void add_members(const P&, Hash&) {}
template <class... Rules>
DEVICE void add_members(const headroom::BasicDynamicLossScale<Rules...>& policy, Hash& hash) {
  hash.add(static_cast<std::uint64_t>(policy.counter()));
}
template <class G, class Refill>
DEVICE void add_members(const headroom::BasicHysteresisScale<Refill, G>& policy, Hash& hash) {
  hash.add(static_cast<std::uint64_t>(policy.counter()));
  hash.add(static_cast<std::uint64_t>(policy.hysteresis_left()));
  hash.add(policy.config().common.min_scale);
}

template <class P>
DEVICE void follow(P policy, Hash& hash) {
  Random random;
  for (int step = 0; step < 1000; ++step) {
    const std::uint32_t bits = random();
    headroom::GradientReport report{bits % 8 != 0, 0.0};
    // 2^-20 to 2^11, or Inf
    const std::uint64_t exponent = report.finite ? 1003 + bits / 8 % 32 : 2047;
    report.max_abs = headroom::detail::bit_cast<double>(exponent << 52);
    policy = step % 3 == 0 ? policy.adjust(static_cast<bool>(report)) : policy.adjust(report);
    hash.add(policy.loss_scale());
    add_members(policy, hash);
  }
}

/// What DelayedScaling needs of a std::vector.
struct History {
  float slots[8];
  std::size_t count;
  DEVICE std::size_t size() const { return count; }
  DEVICE float* begin() { return slots; }
  DEVICE void erase(const float*) {
    --count;
    for (std::size_t i = 0; i < count; ++i) slots[i] = slots[i + 1];
  }
  DEVICE void push_back(const float& amax) { slots[count++] = amax; }
  DEVICE float operator[](std::size_t i) const { return slots[i]; }
};
struct State {
  float scale = 1.0F;
  History history{};
};
template <class Rule>
DEVICE void follow_rule(const Rule& rule, Hash& hash) {
  Random random;
  State state;
  for (int step = 0; step < 500; ++step) {
    const std::uint32_t bits = random();
    rule.update(state,
                headroom::detail::bit_cast<float>(bits % 16 == 0 ? 0x7F800000U | bits % 32 / 16
                                                                 : bits >> 1),
                448.0F);
    hash.add(state.scale);
  }
}

template <class T>
DEVICE void convert(Hash& hash) {
  Random random;
  T last = T::from_bits(0);
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t bits = random(), low = random();
    const T any = T::from_bits(static_cast<typename T::bits_type>(bits)),
            whole(static_cast<int>(bits) >> bits % 32);
    // In the range of most formats
    const auto number = headroom::detail::bit_cast<float>((bits & 0x8FFFFFFFU) | 0x30000000U);
    const auto wide = headroom::detail::bit_cast<double>(
        (std::uint64_t{bits & 0x83FFFFFFU} | 0x3E000000U) << 32 | low);
    const T values[] = {whole, T(number), T(wide), T(number, headroom::saturate), -any};
    for (const T value : values) {
      hash.add(std::uint64_t{value.bits()});
      hash.add((value < last ? 1U : 0U) + (value > last ? 2U : 0U) + (value <= last ? 4U : 0U) +
               (value >= last ? 8U : 0U) + (value == last ? 16U : 0U) +
               (value != last ? 32U : std::uint64_t{0}));
      last = value;
    }
    hash.add(static_cast<float>(any));
    hash.add(headroom::detail::bit_cast<std::uint64_t>(static_cast<double>(any)));
    hash.add(
        static_cast<std::uint64_t>(static_cast<std::int64_t>(T(static_cast<int>(bits % 256)))));
  }
}

inline DEVICE std::uint64_t hash_of(const Cases& cases) {
  Hash hash;
  const auto follow_all = [&](const auto&... policies) { (follow(policies, hash), ...); };
  const auto follow_rules = [&](const auto&... rules) { (follow_rule(rules, hash), ...); };
  follow_all(cases.user_policy, cases.noop, cases.constant, cases.dynamic, cases.unbounded,
             cases.hysteresis, cases.megatron, cases.on_backoff, cases.paddle, cases.deepspeed,
             cases.cerebras, cases.fairseq, cases.amax);
  follow_rules(cases.delayed, cases.recent, cases.current, cases.torchao);
  convert<headroom::half>(hash);
  convert<headroom::bfloat16>(hash);
  convert<headroom::cbfloat16>(hash);
  convert<headroom::float8_e4m3>(hash);
  convert<headroom::float8_e5m2>(hash);
  return hash.state;
}
