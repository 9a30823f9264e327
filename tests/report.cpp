#include <headroom/report.hpp>

#include <string>
#include <type_traits>

#include "support/catch.hpp"

using headroom::GradientNorm;
using headroom::GradientReport;

TEST_CASE("a report of nothing says finite and 0", "[kernel]") {
  static_assert(GradientReport{}.finite && GradientReport{}.max_abs == 0.0);
  static_assert(GradientNorm{}.finite && GradientNorm{}.max_abs == 0.0 &&
                GradientNorm{}.norm == 0.0);
  const headroom::NonFinite none;
  CHECK((none.path.empty() && none.index == 0 && none.nan_count == 0 && none.inf_count == 0));
}

TEST_CASE("a report is true where the step may be taken, and only where that is asked",
          "[kernel]") {
  static_assert(static_cast<bool>(GradientReport{true, 1.0}) &&
                !static_cast<bool>(GradientReport{false, 1.0}));
  static_assert(!std::is_convertible_v<GradientReport, bool>,
                "adjust(bool) and adjust(GradientReport) stay apart");
  const GradientNorm norm{{false, 2.0}, 3.0};
  CHECK_FALSE(norm);
  const GradientReport sliced = norm;
  CHECK_FALSE(sliced.finite);
  CHECK(sliced.max_abs == 2.0);
}

TEST_CASE("reports are plain aggregates for structured binding", "[kernel]") {
  static_assert(std::is_aggregate_v<GradientReport> && std::is_aggregate_v<GradientNorm>);
  static_assert(std::is_trivially_copyable_v<GradientReport> &&
                std::is_trivially_copyable_v<GradientNorm>);
  static_assert(std::is_base_of_v<GradientReport, GradientNorm>);
  static_assert(!std::is_convertible_v<GradientReport, GradientNorm>,
                "a norm that was never measured cannot be read");
  const auto [finite, max_abs] = GradientReport{true, 4.0};
  CHECK(finite);
  CHECK(max_abs == 4.0);
}

TEST_CASE("reasons have the names of their enumerators") {
  CHECK(std::string(to_string(headroom::SkipReason::none)) == "none");
  CHECK(std::string(to_string(headroom::SkipReason::not_finite)) == "not_finite");
  CHECK(std::string(to_string(headroom::SkipReason::no_gradients)) == "no_gradients");
  CHECK(std::string(to_string(static_cast<headroom::SkipReason>(4))) == "unknown");
  CHECK(std::string(to_string(static_cast<headroom::SkipReason>(-1))) == "unknown");
}
