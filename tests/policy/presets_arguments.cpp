// Errors for bad arguments of presets have the argument's name, as in the preset's declaration, and its value.
#include <headroom/policy/presets.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using headroom::binary64;
using support::message_of;
namespace presets = headroom::presets;

namespace {

struct Argument {
  const char* name;
  double usual;
  bool takes_0 = false;  ///< 0 means no floor, no tolerance or the default
};

double real_of(std::uint64_t bits) {
  double value = 0.0;
  support::set_bits(value, bits);
  return value;
}
/// Values that every preset rejects.
template <class T>
std::vector<T> bad_values() {
  if constexpr (std::is_same_v<T, bool>) {
    return {};
  } else if constexpr (std::is_same_v<T, double>) {
    return {-1e300,
            -1.0,
            -0.1,
            real_of(binary64::quiet_nan_bits),
            real_of(binary64::infinity_bits),
            real_of(binary64::infinity_bits | binary64::sign_mask)};
  } else {
    return {-1, std::numeric_limits<T>::min()};
  }
}
/// Values that some presets take and others reject.
template <class T>
std::vector<T> odd_values() {
  if constexpr (std::is_same_v<T, bool>) {
    return {false, true};
  } else if constexpr (std::is_same_v<T, double>) {
    return {1e-300, 1e-40, 0.001, 0.5,  0.99999999, 1.0,  1.00000001, 1.1,    3.0,
            100.1,  1e4,   1e6,   1e12, 1e38,       2e38, 1e300,      1.7e308};
  } else {
    return {-1, 1, 7, 5000, std::numeric_limits<T>::max()};
  }
}
template <class T>
std::string given(const Argument& argument, const T& value) {
  if constexpr (std::is_same_v<T, double>) return argument.name + std::string(" is ") + headroom::detail::to_text(value);
  return argument.name + std::string(" is ") + std::to_string(value);
}

template <class Policy, class... Args>
class Arguments {
 public:
  using Values = std::tuple<std::decay_t<Args>...>;
  static constexpr auto indices = std::index_sequence_for<Args...>();

  Arguments(Policy (*make)(Args...), const std::array<Argument, sizeof...(Args)>& arguments)
      : make_(make), arguments_(arguments), usual_(usual(indices)) {}

  [[nodiscard]] Policy with_defaults() const { return std::apply(make_, usual_); }
  void check_each() const { check_each(indices); }
  void check_together(std::mt19937& random) const { check_together(random, indices); }

 private:
  [[nodiscard]] std::string message(const Values& values) const {
    return message_of([&] { (void)std::apply(make_, values); });
  }
  template <std::size_t... i>
  Values usual(std::index_sequence<i...>) const {
    return {static_cast<std::decay_t<Args>>(arguments_[i].usual)...};
  }
  template <std::size_t... i>
  void check_each(std::index_sequence<i...>) const {
    (check_argument<i>(), ...);
  }
  template <std::size_t i>
  void check_argument() const {
    using T = std::tuple_element_t<i, Values>;
    Values values = usual_;
    for (const T& bad : bad_values<T>()) {
      std::get<i>(values) = bad;
      CHECK_THAT(message(values), StartsWith("headroom: " + given(arguments_[i], bad) + "; it must be "));
    }
    for (const T& odd : odd_values<T>()) {
      std::get<i>(values) = odd;
      const std::string text = message(values);
      if (!text.empty()) CHECK_THAT(text, ContainsSubstring(given(arguments_[i], odd)));
    }
    std::get<i>(values) = T();
    if (!std::is_same_v<T, bool>) CHECK(message(values).empty() == arguments_[i].takes_0);
  }
  /// Changes several arguments. An error has the name and value of one of them.
  template <std::size_t... i>
  void check_together(std::mt19937& random, std::index_sequence<i...>) const {
    Values values = usual_;
    const auto change = [&](auto& value) {
      const auto odd = odd_values<std::decay_t<decltype(value)>>();
      if (random() % 2 == 0) value = odd[random() % odd.size()];
    };
    (change(std::get<i>(values)), ...);
    const std::string text = message(values);
    INFO(text);
    CHECK((text.empty() || ((text.find(given(arguments_[i], std::get<i>(values))) != std::string::npos) || ...)));
  }

  Policy (*make_)(Args...);
  std::array<Argument, sizeof...(Args)> arguments_;
  Values usual_;
};

template <class Visit>
void for_each_preset(Visit visit) {
  visit(presets::torch(),
        Arguments(presets::torch,
                  {{{"init_scale", 65536.0}, {"growth_factor", 2.0}, {"backoff_factor", 0.5}, {"growth_interval", 2000}}}));
  visit(presets::apex(), Arguments(presets::apex, {{{"scale", 65536.0},
                                                    {"growth_factor", 2.0},
                                                    {"backoff_factor", 0.5},
                                                    {"growth_interval", 2000},
                                                    {"hysteresis", 2}}}));
  visit(presets::megatron(), Arguments(presets::megatron, {{{"initial_scale", 0x1p32},
                                                            {"min_scale", 1.0, true},
                                                            {"growth_factor", 2.0},
                                                            {"backoff_factor", 0.5},
                                                            {"growth_interval", 1000},
                                                            {"hysteresis", 2}}}));
  visit(presets::deepspeed(), Arguments(presets::deepspeed, {{{"init_scale", 0x1p32},
                                                              {"scale_factor", 2.0},
                                                              {"scale_window", 1000},
                                                              {"min_scale", 1.0, true},
                                                              {"delayed_shift", 1},
                                                              {"consecutive_hysteresis", 0.0}}}));
  const std::array<Argument, 5> cerebras = {{{"init_scale", 0.0, true},
                                             {"steps_per_increase", 0, true},
                                             {"min_loss_scale", 0.0, true},
                                             {"max_loss_scale", 0.0, true},
                                             {"overflow_tolerance", 0.0, true}}};
  visit(presets::cerebras_fp16(), Arguments(presets::cerebras_fp16, cerebras));
  visit(presets::cerebras_cbfloat16(), Arguments(presets::cerebras_cbfloat16, cerebras));
  visit(presets::fairseq(), Arguments(presets::fairseq, {{{"init_scale", 32768.0},
                                                          {"scale_factor", 2.0},
                                                          {"scale_window", 2000},
                                                          {"tolerance", 0.0, true},
                                                          {"threshold", 0.0, true},
                                                          {"min_loss_scale", 1e-4, true}}}));
  visit(presets::jmp(),
        Arguments(presets::jmp, {{{"loss_scale", 32768.0}, {"period", 2000}, {"factor", 2.0}, {"min_loss_scale", 1.0, true}}}));
  visit(presets::eformer(),
        Arguments(presets::eformer,
                  {{{"initial_scale", 32768.0}, {"growth_interval", 2000}, {"scale_factor", 2.0}, {"min_scale", 1.0, true}}}));
  visit(presets::emily(), Arguments(presets::emily, {{{"scale", 65536.0},
                                                      {"growth_factor", 2.0},
                                                      {"backoff_factor", 0.5},
                                                      {"growth_interval", 2000},
                                                      {"min_scale", 1.0, true}}}));
  visit(presets::flax(), Arguments(presets::flax, {{{"growth_factor", 2.0},
                                                    {"backoff_factor", 0.5},
                                                    {"growth_interval", 2000, true},
                                                    {"scale", 65536.0},
                                                    {"minimum_scale", 0x1p-126, true}}}));
  visit(presets::keras(), Arguments(presets::keras, {{{"initial_scale", 32768.0}, {"dynamic_growth_steps", 2000}}}));
  visit(presets::paddle(), Arguments(presets::paddle, {{{"init_loss_scaling", 65536.0},
                                                        {"incr_ratio", 2.0},
                                                        {"decr_ratio", 0.5},
                                                        {"incr_every_n_steps", 2000},
                                                        {"decr_every_n_nan_or_inf", 1}}}));
}

}  // namespace

TEST_CASE("a preset takes its system's arguments, and its errors have an argument's name and value") {
  std::mt19937 random(support::seed);
  for_each_preset([&](const auto& preset, const auto& arguments) {
    CHECK(preset == arguments.with_defaults());
    arguments.check_each();
    for (int run = 0; run < support::cases(400); ++run) arguments.check_together(random);
  });
}

TEST_CASE("errors state the range that the preset takes") {
  CHECK(message_of([] { (void)presets::jmp(1.0, 2000, 1.00000001); }) ==
        "headroom: factor is 1.00000001; it must be above 1 and finite as a float");
  CHECK(message_of([] { (void)presets::paddle(1.0, 2.0, 0.99999999); }) ==
        "headroom: decr_ratio is 0.99999999; it must be at least 2^-126 and below 1 as a float");
  CHECK(message_of([] { (void)presets::jmp(1.0, 2000, 2.0, -1e-300); }) ==
        "headroom: min_loss_scale is -1e-300; it must be in [0, 2^126]");
  CHECK(message_of([] { (void)presets::flax(0.5); }) ==
        "headroom: growth_factor is 0.5; it must be at least 1 and finite as a float");
  CHECK(message_of([] { (void)presets::cerebras_fp16(0.0, 0, 0x1p-15); }) ==
        "headroom: min_loss_scale is 3.0517578125e-05; it must be 0 or in [2^-14, 2^126]");
  CHECK(message_of([] { (void)presets::flax(2.0, 0.5, std::numeric_limits<std::int64_t>::max()); }) ==
        "headroom: growth_interval is 9223372036854775807; it must be at least 0 and below 2^62");
}
