#include <headroom/policy/dynamic.hpp>
#include <headroom/state/fields.hpp>

#include <string>

#include "support/catch.hpp"

using headroom::GrowAfterFiniteSteps;
using headroom::LossScaleConfig;

namespace {

constexpr LossScaleConfig every(std::int64_t steps) {
  LossScaleConfig config;
  config.growth_interval = steps;
  return config;
}
/// For each step of '+' (finite), '-' (an overflow that is tolerated) and '!' (one that is not), '^' where it grows.
std::string growth_over(const std::string& steps, std::int64_t interval) {
  const LossScaleConfig config = every(interval);
  GrowAfterFiniteSteps piece(config);
  std::string grown;
  for (const char step : steps) {
    if (step == '!') piece.back_off(config);
    grown += step != '!' && piece.grows(step == '+', config) ? '^' : '.';
  }
  return grown;
}

}  // namespace

TEST_CASE("it grows after finite steps in a row, and any overflow starts anew") {
  CHECK(growth_over("+++++++", 3) == "..^..^.");
  CHECK(growth_over("++-+++", 3) == ".....^");
  CHECK(growth_over("++!+++", 3) == ".....^");
  CHECK(growth_over("++-", 1) == "^^.");
}

TEST_CASE("it counts the steps since it grew, as far as counters go") {
  GrowAfterFiniteSteps piece(every(3));
  CHECK(piece.counter() == 0);
  CHECK_FALSE(piece.grows(true, every(3)));
  CHECK(piece.counter() == 1);
  CHECK(piece.grows(true, every(1)));  // beyond a shorter interval that has been set since
  CHECK(piece.counter() == 0);
  const headroom::StateDict largest = {{"counter", headroom::detail::largest_counter}};
  headroom::detail::StateReader(largest).read(piece, every(3));
  CHECK_FALSE(piece.grows(true, every(headroom::detail::largest_counter + 1)));
  CHECK(piece.counter() == headroom::detail::largest_counter);
}
