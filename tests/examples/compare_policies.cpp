#include "../../examples/compare_policies/trace.hpp"

#include "../../examples/compare_policies/pieces.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <headroom/observe/history.hpp>

#include "support/catch.hpp"

using Catch::Matchers::ContainsSubstring;

namespace {

compare_policies::Trace read_text(const std::string& text) {
  const auto file = std::filesystem::temp_directory_path() / "headroom_compare_policies.csv";
  std::ofstream(file) << text;
  return compare_policies::read_trace(file);
}

}  // namespace

TEST_CASE("a trace is read from the column max_abs") {
  const auto trace = read_text("step,max_abs\n0,0.5\n1,inf\n2,0\n");
  CHECK(trace.name == "headroom_compare_policies");
  CHECK(trace.max_abs == std::vector<double>{0.5, HUGE_VAL, 0.0});
  CHECK_THAT(trace.description, !ContainsSubstring("passed over"));
}

TEST_CASE("rows without max_abs are passed over and counted") {
  const auto trace = read_text("max_abs,step\n0.5,0\n,1\n0.25,2\n,3\n");
  CHECK(trace.max_abs == std::vector<double>{0.5, 0.25});
  CHECK_THAT(trace.description, ContainsSubstring("(rows without max_abs, passed over: 2)"));
  CHECK(read_text("step,max_abs\n0,\n1,0.5\n2,").max_abs == std::vector<double>{0.5});
}

TEST_CASE("the CSV of a History is a trace") {
  headroom::History history;
  history.record(1024.0F, {true, 0.1});
  headroom::NonFinite place;
  place.path = "a, b";
  history.record(1024.0F, {false, HUGE_VAL}, place);
  history.record(512.0F, {true, 1e-30});
  const auto trace = read_text(history.csv());
  CHECK(trace.max_abs == std::vector<double>{0.1, 1e-30});
  CHECK_THAT(trace.description, ContainsSubstring("passed over: 1)"));
}

TEST_CASE("errors in a trace name the line") {
  CHECK_THROWS_WITH(read_text("step,loss\n0,1\n"), ContainsSubstring("line 1: there is no column max_abs"));
  CHECK_THROWS_WITH(read_text("step,max_abs\n0,1\n1\n"), ContainsSubstring("line 3: there are fewer columns than in line 1"));
  CHECK_THROWS_WITH(read_text("step,max_abs\n0,-1\n"), ContainsSubstring("line 2: max_abs is '-1'"));
  CHECK_THROWS_WITH(read_text("step,max_abs\n0,1x\n"), ContainsSubstring("line 2: max_abs is '1x'"));
  CHECK_THROWS_WITH(read_text("step,max_abs\n0,nan\n"), ContainsSubstring("line 2: max_abs is 'nan'"));
  CHECK_THROWS_WITH(read_text("step,max_abs\n0,\n"), ContainsSubstring("no row of it has a max_abs"));
  CHECK_THROWS_WITH(read_text("step,max_abs\n"), ContainsSubstring("no row of it has a max_abs"));
}

TEST_CASE("the policies for comparison follow their published rules, and can be saved") {
  compare_policies::HistogramLossScale histogram;  // an eighth of the largest half is 8188
  CHECK(histogram.adjust(headroom::GradientReport{true, 8184.0 / 32768.0}).loss_scale() == 65536.0F);
  CHECK(histogram.adjust(headroom::GradientReport{true, 8188.0 / 32768.0}).loss_scale() == 16384.0F);
  CHECK(histogram.adjust(headroom::GradientReport{false, HUGE_VAL}).loss_scale() == 16384.0F);
  compare_policies::LogMaxLossScale log_max;  // without deviation its scale is 2^16 / magnitude
  for (int i = 0; i < 100; ++i) log_max = log_max.adjust(headroom::GradientReport{true, 0x1p-4});
  CHECK(log_max.loss_scale() > 0x1.fffp19F);
  CHECK(log_max.adjust(headroom::GradientReport{true, 0.0}) == log_max.adjust(true));
  const auto after = log_max.adjust(headroom::GradientReport{false, HUGE_VAL});
  CHECK(after.loss_scale() < log_max.loss_scale() / 2.0F);
  CHECK(compare_policies::LogMaxLossScale::from_state_dict(after.state_dict()) == after);
}
