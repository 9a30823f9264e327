#include <headroom/training/rank_report.hpp>
#include <headroom/training/reducer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/optimizers.hpp"
#include "support/samples.hpp"

using headroom::check_ranks_agree;
using headroom::GradientSums;
using headroom::RankReport;
using headroom::ReductionError;
using support::bits_of;
using support::infinity;

namespace {

GradientSums random_sums(std::mt19937& random) {
  if (random() % 6 == 0) return headroom::gradient_sums(headroom::detail::overflow());
  if (random() % 6 == 0) return {};
  return {true, std::ldexp(1.0, static_cast<int>(random() % 600) - 300), std::ldexp(1.0, static_cast<int>(random() % 20))};
}

std::string error_of(const std::vector<RankReport>& ranks) {
  try {
    check_ranks_agree(ranks.data(), ranks.size());
  } catch (const ReductionError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ranks agree on the largest magnitude and the sum, in whatever order they are combined") {
  std::mt19937 random(support::seed);
  for (int run = 0; run < 2000; ++run) {
    std::vector<RankReport> ranks;
    GradientSums expected;
    for (std::size_t n = random() % 9; n > 0; --n) {
      const GradientSums here = random_sums(random);
      ranks.emplace_back(here, 7);
      expected.finite = expected.finite && here.finite;
      expected.max_abs = std::max(expected.max_abs, here.max_abs);
      expected.sum_of_squares += here.sum_of_squares;
    }
    for (int order = 0; order < 4; ++order) {
      std::shuffle(ranks.begin(), ranks.end(), random);
      std::vector<RankReport> left = ranks;  // combined in the shape of a random tree
      left.emplace_back();
      while (left.size() > 1) {
        const RankReport last = left.back();
        left.pop_back();
        left[random() % left.size()].combine(last);
      }
      const GradientSums all = left[0].sums();
      REQUIRE(left[0].agree());
      REQUIRE(all.finite == expected.finite);
      REQUIRE(bits_of(all.max_abs) == bits_of(expected.max_abs));
      REQUIRE(bits_of(all.sum_of_squares) == bits_of(expected.sum_of_squares));
    }
  }
}

TEST_CASE("what is no magnitude counts as an overflow") {
  double nan = 0.0, minus = 0.0, minus_zero = 0.0;
  support::set_bits(minus_zero, headroom::binary64::sign_mask);
  CHECK(RankReport(GradientSums{true, minus_zero, 0.0}).sums().finite);
  support::set_bits(nan, headroom::binary64::quiet_nan_bits);
  support::set_bits(minus, headroom::binary64::sign_mask | bits_of(1.0));
  for (const GradientSums& here : {GradientSums{true, nan, 0.0}, GradientSums{true, minus, 0.0}, GradientSums{false, 1.0, 0.0},
                                   GradientSums{true, static_cast<double>(infinity()), 0.0}}) {
    RankReport all(here);
    all.combine(RankReport(GradientSums{true, 2.0, 4.0}));
    CHECK_FALSE(all.sums().finite);
    CHECK(bits_of(all.sums().max_abs) == headroom::binary64::infinity_bits);
    CHECK(bits_of(all.sums().sum_of_squares) == headroom::binary64::infinity_bits);
  }
}

TEST_CASE("gradients that several ranks hold are counted once") {
  RankReport all;
  for (int rank = 0; rank < 6; ++rank) all.combine(RankReport(GradientSums{true, 3.0, 9.0}));
  CHECK(all.sums().sum_of_squares == 54.0);
  CHECK(all.sums(6).sum_of_squares == 9.0);
  CHECK(all.sums(3).sum_of_squares == 18.0);
}

TEST_CASE("replicas divide the number of ranks") {
  for (const int size : {1, 6}) {
    for (int replicas = -1; replicas <= 7; ++replicas) {
      const std::string message = support::message_of([&] { headroom::detail::check_replicas(replicas, size); });
      CHECK(message.empty() == (replicas > 0 && size % replicas == 0));
    }
  }
}

TEST_CASE("ranks that are out of step are named, those that differ from most others") {
  const auto rank = [](std::uint64_t digest) { return RankReport(GradientSums(), digest); };
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  CHECK(error_of({}).empty());
  CHECK(error_of({rank(3), rank(3)}).empty());
  CHECK_THAT(error_of({rank(3), rank(3), rank(4)}), Catch::Matchers::ContainsSubstring("out of step: rank 2 against the rest"));
  CHECK_THAT(error_of({rank(0), rank(most), rank(most)}), Catch::Matchers::ContainsSubstring(": rank 0 against the rest"));
  CHECK_THAT(error_of({rank(1), rank(2)}), Catch::Matchers::ContainsSubstring(": ranks 0 and 1 with each other"));
  CHECK_THAT(error_of({rank(2), rank(1), rank(1), rank(2), rank(3)}), Catch::Matchers::ContainsSubstring("3 and 4 with each"));
  CHECK_THAT(error_of({rank(5), rank(4), rank(5), rank(6)}), Catch::Matchers::ContainsSubstring(": ranks 1 and 3 against"));
  std::vector<RankReport> many(100, rank(1));
  for (std::size_t i = 10; i < 40; ++i) many[i] = rank(i);
  CHECK_THAT(error_of(many), Catch::Matchers::ContainsSubstring(": ranks 10, 11, 12, 13, 14, 15, 16, 17 and 22 more against"));
  CHECK_THAT(error_of({rank(1), RankReport::failed(), rank(2), RankReport::failed()}),
             Catch::Matchers::ContainsSubstring("ranks 1 and 3 failed"));
}

TEST_CASE("a reason is cut between characters") {
  const std::string filler(214, 'x');
  const auto text_of = [](const std::string& why) {
    return std::string(headroom::detail::Testimony(RankReport::failed(), why).why);
  };
  CHECK(text_of("") == "");
  CHECK(text_of(filler + "y") == filler + "y");
  CHECK(text_of(filler + "yz") == filler + "y");
  CHECK(text_of(filler + "\xc3\xa9") == filler);
  CHECK(text_of(filler.substr(1) + "\xc3\xa9") == filler.substr(1) + "\xc3\xa9");
  CHECK(text_of(filler.substr(1) + "\xc3\xa9.") == filler.substr(1) + "\xc3\xa9");
  CHECK(text_of(filler.substr(2) + "\xf0\x9f\x98\x80") == filler.substr(2));
}

TEST_CASE("no state looks like a rank that failed, and neither is lost among others") {
  std::mt19937_64 random(support::seed);
  for (int run = 0; run < 1000; ++run) {
    std::uint64_t digests[3] = {random(), random() % 3, 0 - random() % 3};
    const std::uint64_t digest = digests[random() % 3];
    const RankReport one(GradientSums(), digest);
    REQUIRE_FALSE(one.has_failed());
    REQUIRE(one.digest() == digest);
    RankReport all = RankReport::failed();
    all.combine(one);
    REQUIRE_FALSE(all.agree());
    RankReport other(GradientSums(), digest + 1);
    other.combine(one);
    REQUIRE_FALSE(other.agree());
  }
}
