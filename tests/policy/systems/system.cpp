// What the files of systems have in common: arguments of presets, and the reading of states.
#include <headroom/policy/import_state.hpp>
#include <headroom/policy/systems/system.hpp>

#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::StateDict;
using headroom::detail::StateImport;
using support::message_of;
namespace detail = headroom::detail;

TEST_CASE("a scale, a floor, a factor: each in its range, by its name") {
  static_assert(detail::scale_argument("s", 0.1) == 0.1F);
  static_assert(detail::floor_argument("f", 0.0) == headroom::smallest_loss_scale);
  static_assert(detail::floor_argument("f", 0x0.8p-126) == headroom::smallest_loss_scale);
  static_assert(detail::floor_argument("f", 0.5) == 0.5F);
  static_assert(detail::factor_argument("f", 1.1) == 1.1);
  static_assert(detail::float_factor_argument("f", 1.1) == static_cast<double>(1.1F));
  static_assert(detail::float_backoff_argument("f", 0.1) == static_cast<double>(0.1F));
  static_assert(detail::factor_argument("f", 0x1p1022) == 0x1p1022);
  static_assert(detail::float_inverse_argument("f", 1.1) == static_cast<double>(static_cast<float>(1.0 / 1.1F)));
  static_assert(detail::float_inverse_argument("f", 0x1p126) == 0x1p-126);
  static_assert(detail::float_backoff_argument("f", 0x1p-126) == 0x1p-126);
  double nan = 0.0;
  support::set_bits(nan, headroom::binary64::quiet_nan_bits);
  for (const double bad : {0.0, -1.0, 0x1p127, 0x0.ffffffp-126}) {
    CHECK_THAT(message_of([&] { (void)detail::scale_argument("s", bad); }), ContainsSubstring("s is " + detail::to_text(bad)));
  }
  CHECK_THAT(message_of([&] { (void)detail::scale_argument("s", nan); }), ContainsSubstring("s is nan; it must be in [2^-126"));
  CHECK_THAT(message_of([] { (void)detail::floor_argument("f", -0x1p-130); }), ContainsSubstring("f is -7.3468396"));
  CHECK_THAT(message_of([] { (void)detail::factor_argument("f", 1.0); }), ContainsSubstring("f is 1; it must be above 1 and"));
  for (const double bad : {1.0, 1.00000001, -2.0, 1e300, nan}) {
    CHECK_THAT(message_of([&] { (void)detail::float_factor_argument("f", bad); }),
               ContainsSubstring("f is " + detail::to_text(bad) + "; it must be above 1 and finite as a float"));
  }
  CHECK_THAT(message_of([] { (void)detail::float_inverse_argument("f", 1e38); }),
             ContainsSubstring("f is 1e+38; it must be at"));
  for (const double bad : {1.0, 0.99999999, 0.0, -0.5, 0x1.ffffffp-127, 1e-300, nan}) {
    CHECK_THAT(message_of([&] { (void)detail::float_backoff_argument("f", bad); }),
               ContainsSubstring("f is " + detail::to_text(bad) + "; it must be at least 2^-126 and below 1 as a float"));
  }
}

TEST_CASE("a state is read key by key into one of ours") {
  const StateDict theirs = {{"s", 8}, {"n", 3}, {"k", 3.0}, {"low", 0.0}, {"yes", true}, {"other", "text"}};
  const StateDict settings = {{"initial_scale", 2.0}, {"min_scale", 1.0}, {"interval", 7}};
  StateImport state(theirs, settings);
  state.scale("s");
  state.counter("n", "counter");
  state.both_factors(state.real("k"));
  state.floor("low");
  state.flag("yes");
  state.leave_out("other");
  state.leave_out("not there");
  CHECK(state.setting("interval") == 7);
  CHECK(state.setting("not there") == detail::largest_counter);
  const StateDict ours = state.finish();
  CHECK(ours.at("loss_scale").real() == 8.0);
  CHECK(ours.at("counter").integer() == 3);
  CHECK(ours.at("backoff_factor").real() == 1.0 / 3.0);
  CHECK(ours.at("min_scale").real() == static_cast<double>(headroom::smallest_loss_scale));
  CHECK(ours.at("yes") == headroom::StateValue(true));
}

TEST_CASE("a floor above where the training began takes that along") {
  const StateDict theirs = {{"low", 16.0}};
  StateImport state(theirs, {{"initial_scale", 2.0}, {"min_scale", 1.0}});
  state.floor("low");
  CHECK(state.finish().at("initial_scale").real() == 16.0);
}

TEST_CASE("what is not asked for is refused, and so is what is missing") {
  const StateDict theirs = {{"s", 8.0}, {"colour", 1}};
  StateImport state(theirs, {});
  CHECK_THAT(message_of([&] { state.factor("factor"); }), ContainsSubstring("the key 'factor' is missing"));
  state.scale("s");
  CHECK_THAT(message_of([&] { (void)state.finish(); }), ContainsSubstring("the key 'colour' is unknown"));
}
