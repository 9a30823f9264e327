// The reader of recorded sequences that other tests use.
#include <sstream>
#include <string>

#include "support/catch.hpp"
#include "support/golden.hpp"

using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<support::Trace> read(const std::string& text) {
  std::istringstream in(text);
  return support::TraceReader(in, "file").read();
}
std::string error_of(const std::string& text) {
  try {
    (void)read(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("traces are read as their README says") {
  const auto traces = read(
      "trace system/case/pattern\nconfig min_scale 0x1p-3\noverflow 0*3 1\nscale 2*2 0x1.8p1 4\ngrowth 1..2 0 7\nend\n"
      "trace second\noverflow 1\nscale_main 8\nscale_pending 4\nend\n");
  REQUIRE(traces.size() == 2);
  CHECK(traces[0].name == "system/case/pattern");
  CHECK(traces[0].config_or("min_scale", 1.0) == 0.125);
  CHECK(traces[0].config_or("max_scale", 5.0) == 5.0);
  CHECK(traces[0].overflow == std::vector<bool>{false, false, false, true});
  CHECK(traces[0].scales.at("scale") == std::vector<double>{2.0, 2.0, 3.0, 4.0});
  CHECK(traces[0].growth == std::vector<std::int64_t>{1, 2, 0, 7});
  CHECK(traces[1].scales.at("scale_pending") == std::vector<double>{4.0});
}

TEST_CASE("errors in a trace name the line or the trace") {
  CHECK_THAT(error_of("overflow 1\n"), ContainsSubstring("file:1: expected 'trace', found 'overflow'"));
  CHECK_THAT(error_of("trace a\noverflow 1\nscale 1\n"), ContainsSubstring("a has no end"));
  CHECK_THAT(error_of("trace a\noverflow 1*2\nscale 1\nend\n"), ContainsSubstring("a: scale has 1 values for 2 steps"));
  CHECK_THAT(error_of("trace a\ncolour 3\n"), ContainsSubstring("unknown line 'colour'"));
}

TEST_CASE("a missing file is an error") { CHECK_THROWS_AS(support::golden("nobody.trace"), std::runtime_error); }
