#include <headroom/policy/presets.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace headroom;
using namespace support;

namespace {

/// Values that every preset rejects, and values that some presets take.
template <class T>
std::pair<std::vector<T>, std::vector<T>> bad_and_odd_values() {
  if constexpr (std::is_same_v<T, bool>) {
    return {{}, {false, true}};
  } else if constexpr (std::is_same_v<T, double>) {
    return {{-1e300, -1.0, -0.1, with_bits(binary64::quiet_nan_bits),
             with_bits(binary64::infinity_bits),
             with_bits(binary64::infinity_bits | binary64::sign_mask)},
            {1e-300, 1e-40, 0.001, 0.5, 0.99999999, 1.0, 1.00000001, 1.1, 3.0, 100.1, 1e4, 1e12,
             1e38, 2e38, 1e300, 1.7e308}};
  } else {
    return {{-1, std::numeric_limits<T>::min()}, {1, 7, 5000, std::numeric_limits<T>::max()}};
  }
}

/// Calls a preset with each bad and odd value in turn. `names` are its arguments in their order. A
/// `?` after one means that it takes 0, for no floor, no tolerance or the default.
template <class Policy, class... Args>
class Preset {
 public:
  using Values = std::tuple<std::decay_t<Args>...>;

  Preset(Policy (*make)(Args...), const std::string& names, const Values& usual)
      : make_(make), usual_(usual) {
    std::istringstream words(names);
    for (std::string name; words >> name;) names_.push_back(name);
  }
  void check(const Policy& with_defaults) const {
    CHECK(std::apply(make_, usual_) == with_defaults);
    check_each(std::index_sequence_for<Args...>());
  }

 private:
  template <std::size_t... i>
  void check_each(std::index_sequence<i...>) const {
    REQUIRE(names_.size() == sizeof...(Args));
    (check_argument<i>(names_[i]), ...);
  }
  template <std::size_t i>
  void check_argument(std::string name) const {
    using T = std::tuple_element_t<i, Values>;
    const bool takes_0 = name.back() == '?';
    if (takes_0) name.pop_back();
    const auto message = [&](const T& value) {
      Values values = usual_;
      std::get<i>(values) = value;
      return message_of([&] { (void)std::apply(make_, values); });
    };
    const auto given = [&](const T& value) {
      return name + " is " + headroom::detail::to_text(value);
    };
    const auto& [all_bad, all_odd] = bad_and_odd_values<T>();
    for (const T& bad : all_bad)
      CHECK_THAT(message(bad), StartsWith("headroom: " + given(bad) + "; it must be "));
    for (const T& odd : all_odd) {
      const std::string text = message(odd);
      if (!text.empty()) CHECK_THAT(text, ContainsSubstring(given(odd)));
    }
    if (!std::is_same_v<T, bool>) CHECK(message(T()).empty() == takes_0);
  }

  Policy (*make_)(Args...);
  Values usual_;
  std::vector<std::string> names_;
};

}  // namespace

TEST_CASE("a preset takes its system's arguments, and its errors have their names and values") {
  const char* const torch = "init_scale growth_factor backoff_factor growth_interval";
  Preset(presets::torch, torch, {65536.0, 2.0, 0.5, 2000}).check(presets::torch());
  Preset(presets::apex, "scale growth_factor backoff_factor growth_interval hysteresis",
         {65536.0, 2.0, 0.5, 2000, 2})
      .check(presets::apex());
  Preset(presets::megatron,
         "initial_scale min_scale? growth_factor backoff_factor growth_interval hysteresis",
         {0x1p32, 1.0, 2.0, 0.5, 1000, 2})
      .check(presets::megatron());
  Preset(presets::deepspeed,
         "init_scale scale_factor scale_window min_scale? delayed_shift consecutive_hysteresis",
         {0x1p32, 2.0, 1000, 1.0, 1, false})
      .check(presets::deepspeed());
  const char* const cerebras =
      "init_scale? steps_per_increase? min_loss_scale? max_loss_scale? overflow_tolerance?";
  Preset(presets::cerebras_fp16, cerebras, {0.0, 0, 0.0, 0.0, 0.0}).check(presets::cerebras_fp16());
  Preset(presets::cerebras_cbfloat16, cerebras, {0.0, 0, 0.0, 0.0, 0.0})
      .check(presets::cerebras_cbfloat16());
  Preset(presets::fairseq,
         "init_scale scale_factor scale_window tolerance? threshold? min_loss_scale?",
         {32768.0, 2.0, 2000, 0.0, 0.0, 1e-4})
      .check(presets::fairseq());
  Preset(presets::jmp, "loss_scale period factor min_loss_scale?", {32768.0, 2000, 2.0, 1.0})
      .check(presets::jmp());
  Preset(presets::eformer, "initial_scale growth_interval scale_factor min_scale?",
         {32768.0, 2000, 2.0, 1.0})
      .check(presets::eformer());
  Preset(presets::emily, "scale growth_factor backoff_factor growth_interval min_scale?",
         {65536.0, 2.0, 0.5, 2000, 1.0})
      .check(presets::emily());
  Preset(presets::flax, "growth_factor backoff_factor growth_interval? scale minimum_scale?",
         {2.0, 0.5, 2000, 65536.0, 0x1p-126})
      .check(presets::flax());
  Preset(presets::keras, "initial_scale dynamic_growth_steps", {32768.0, 2000})
      .check(presets::keras());
  Preset(presets::paddle,
         "init_loss_scaling incr_ratio decr_ratio incr_every_n_steps decr_every_n_nan_or_inf",
         {65536.0, 2.0, 0.5, 2000, 1})
      .check(presets::paddle());
}

TEST_CASE("errors state the range that the preset takes") {
  CHECK(message_of([] { (void)presets::jmp(1.0, 2000, 1.00000001); }) ==
        "headroom: factor is 1.00000001; it must be above 1 and finite as a float");
  CHECK(message_of([] { (void)presets::paddle(1.0, 2.0, 0.99999999); }) ==
        "headroom: decr_ratio is 0.99999999; it must be at least 2^-126 and below 1 as a float");
  CHECK(message_of([] { (void)presets::flax(0.5); }) ==
        "headroom: growth_factor is 0.5; it must be at least 1 and finite as a float");
  CHECK(message_of([] { (void)presets::jmp(1.0, 2000, 2.0, -1e-300); }) ==
        "headroom: min_loss_scale is -1e-300; it must be in [0, 2^126]");
  CHECK(message_of([] { (void)presets::cerebras_fp16(0.0, 0, 0x1p-15); }) ==
        "headroom: min_loss_scale is 3.0517578125e-05; it must be 0 or in [2^-14, 2^126]");
  CHECK(message_of([] { (void)presets::flax(2.0, 0.5, std::int64_t{1} << 62); }) ==
        "headroom: growth_interval is 4611686018427387904; it must be at least 0 and below 2^62");
}
