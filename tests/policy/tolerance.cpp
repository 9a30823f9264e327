#include <headroom/policy/hysteresis.hpp>

#include <cstdint>
#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::ToleranceConfig;

namespace {

/// For each step, '+' (finite) or '-' (an overflow): '!' if it backs off, else '.'. The counter counts the steps since a
/// backoff.
template <class Rule>
std::string backoffs_over(const std::string& steps, double tolerance) {
  const ToleranceConfig config{{}, tolerance};
  Rule rule(config);
  std::string backed_off;
  std::int64_t counter = 0;
  for (const char step : steps) {
    const bool backs_off = rule.backs_off(step == '+', counter, config);
    counter = backs_off ? 0 : counter + 1;
    backed_off += backs_off ? '!' : '.';
  }
  return backed_off;
}
std::string exceeding(const std::string& steps, double tolerance) {
  return backoffs_over<headroom::BackOffWhenShareExceedsTolerance>(steps, tolerance);
}
std::string reaching(const std::string& steps, double tolerance) {
  return backoffs_over<headroom::BackOffWhenShareReachesTolerance>(steps, tolerance);
}

}  // namespace

TEST_CASE("a share equal to the tolerance reaches it and does not exceed it") {
  CHECK(exceeding("+-", 0.5) == "..");
  CHECK(reaching("+-", 0.5) == ".!");
  CHECK(exceeding("+-", 0.49) == ".!");
  CHECK(reaching("+-", 0.51) == "..");
}

TEST_CASE("an overflow in the first step is a large share") {
  CHECK(exceeding("-++++-", 0.3) == "!.....");
  CHECK(reaching("-++++-", 0.3) == "!.....");
}

TEST_CASE("with a tolerance of 0 every overflow backs off") {
  CHECK(exceeding("-+--", 0.0) == "!.!!");
  CHECK(reaching("-+--", 0.0) == "!.!!");
}

TEST_CASE("growth resets the steps, and the overflows only in BackOffWhenShareExceedsTolerance") {
  const ToleranceConfig config{{}, 0.5};
  headroom::BackOffWhenShareExceedsTolerance exceeds(config);
  headroom::BackOffWhenShareReachesTolerance reaches(config);
  CHECK_FALSE(exceeds.backs_off(false, 1, config));
  for (const bool finite : {true, true, false}) CHECK_FALSE(reaches.backs_off(finite, 0, config));
  exceeds.grow(config);
  reaches.grow(config);
  CHECK_FALSE(exceeds.backs_off(true, 0, config));  // 0 of 1
  for (int step = 0; step < 3; ++step) CHECK_FALSE(reaches.backs_off(true, 0, config));
  CHECK(reaches.backs_off(false, 0, config));  // 2 of 4
}

TEST_CASE("a tolerance that is negative, Inf or NaN is refused") {
  const auto refused = [](const double& tolerance) {
    const ToleranceConfig config{{}, tolerance};
    return support::message_of([&] { headroom::detail::check(config); });
  };
  double bad = 0.0;
  CHECK(refused(0.0).empty());
  CHECK(refused(-0.0).empty());
  CHECK(refused(2.0).empty());
  support::set_bits(bad, headroom::binary64::quiet_nan_bits);
  CHECK_THAT(refused(bad), ContainsSubstring("overflow_tolerance is nan; it must be 0 or more and finite"));
  support::set_bits(bad, headroom::binary64::infinity_bits);
  CHECK_THAT(refused(bad), ContainsSubstring("overflow_tolerance is inf"));
  CHECK_THAT(refused(-0.1), ContainsSubstring("overflow_tolerance is -0.1"));
}
