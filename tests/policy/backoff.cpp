#include <headroom/policy/backoff.hpp>

#include "support/catch.hpp"

TEST_CASE("every overflow backs off, and no finite step") {
  constexpr headroom::LossScaleConfig config;
  headroom::BackOffAtOnce piece(config);
  for (const std::int64_t counter : {std::int64_t{0}, std::int64_t{1999}, headroom::detail::largest_counter}) {
    CHECK(piece.backs_off(false, counter, config));
    CHECK_FALSE(piece.backs_off(true, counter, config));
  }
  piece.grow(config);
  CHECK(piece == headroom::BackOffAtOnce(config));
}
