#include "../../evidence/compare_policies/trace.hpp"

#include "../../evidence/compare_policies/rules.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <vector>

#include <headroom/observe/history.hpp>

#include "support/catch.hpp"

using Catch::Matchers::ContainsSubstring;

TEST_CASE("a trace is the column max_abs of a History's CSV, without overflows") {
  headroom::History history;
  history.record(1024.0F, {true, 0.1});
  headroom::NonFinite place;
  place.path = "a, b";
  history.record(1024.0F, {false, HUGE_VAL}, place);
  history.record(512.0F, {true, 1e-30});
  const auto file = std::filesystem::temp_directory_path() / "headroom_compare_policies.csv";
  std::ofstream(file) << history.csv();
  CHECK(compare_policies::read_trace(file).max_abs == std::vector<double>{0.1, 1e-30});
  std::ofstream(file) << "step,max_abs\n0,1\n1,nan\n";
  CHECK_THROWS_WITH(compare_policies::read_trace(file),
                    ContainsSubstring("line 3: max_abs is 'nan'"));
}

TEST_CASE("the policies for comparison follow their published rules, and can be saved") {
  compare_policies::HistogramLossScale histogram;  // an eighth of the largest half is 8188
  CHECK(histogram.adjust(headroom::GradientReport{true, 8184.0 / 32768.0}).loss_scale() ==
        65536.0F);
  CHECK(histogram.adjust(headroom::GradientReport{true, 8188.0 / 32768.0}).loss_scale() ==
        16384.0F);
  CHECK(histogram.adjust(headroom::GradientReport{false, HUGE_VAL}).loss_scale() == 16384.0F);
  compare_policies::LogMaxLossScale log_max;  // without deviation its scale is 2^16 / magnitude
  for (int i = 0; i < 100; ++i) log_max = log_max.adjust(headroom::GradientReport{true, 0x1p-4});
  CHECK(log_max.loss_scale() > 0x1.fffp19F);
  CHECK(log_max.adjust(headroom::GradientReport{true, 0.0}) == log_max.adjust(true));
  const auto after = log_max.adjust(headroom::GradientReport{false, HUGE_VAL});
  CHECK(after.loss_scale() < log_max.loss_scale() / 2.0F);
  CHECK(compare_policies::LogMaxLossScale::from_state_dict(after.state_dict()) == after);
}
