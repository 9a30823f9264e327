#include <headroom/observe/histogram_text.hpp>

#include <map>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"

using headroom::exponent_histogram;
using headroom::histogram_csv;
using headroom::histogram_text;

namespace {

std::vector<float> some_elements() {
  std::vector<float> elements(16, 0.0F);
  for (std::size_t i = 0; i < 8; ++i) elements[i] = i % 2 == 0 ? 3.0F : -2.0F;
  elements[8] = 0.25F;
  elements[9] = 1e-3F;
  support::set_bits(elements[10], 0x7F800000U);
  support::set_bits(elements[11], 0xFFC00000U);
  return elements;
}

}  // namespace

TEST_CASE("bars for a terminal") {
  CHECK(histogram_text(exponent_histogram(some_elements()), 16) ==
        "     NaN               1   6.25 %\n"
        "     Inf               1   6.25 %\n"
        "     2^1               8  50.00 %  ################\n"
        "     2^0               0   0.00 %\n"
        "    2^-2               1   6.25 %  ##\n"
        "    2^-3               0   0.00 %\n"
        "   2^-10               1   6.25 %  ##\n"
        "    zero               4  25.00 %\n");
  CHECK(histogram_text(exponent_histogram(some_elements()), 1).find("2^-2               1   6.25 %  #\n") != std::string::npos);
  CHECK(histogram_text(exponent_histogram(some_elements()), 0).find('#') == std::string::npos);
  CHECK(histogram_text(exponent_histogram(some_elements())).find("%  " + std::string(60, '#') + "\n") != std::string::npos);
  CHECK(histogram_text(headroom::ExponentHistogram()) == "    zero               0   0.00 %\n");
}

TEST_CASE("CSV of a histogram, and of leaves") {
  const std::vector<float> elements = {3.0F, 2.0F, 0.5F, 0.0F};
  CHECK(histogram_csv(exponent_histogram(elements)) ==
        "kind,exponent,count,powers_of_two\n"
        "zero,,1,0\nfinite,-1,1,1\nfinite,0,0,0\nfinite,1,2,1\ninf,,0,0\nnan,,0,0\n");
  const std::map<std::string, std::vector<float>> tree = {{"w", {1.0F}}, {"z", {}}};
  CHECK(histogram_csv(headroom::leaf_exponent_histograms(tree)) ==
        "path,kind,exponent,count,powers_of_two\n"
        "\"[\"\"w\"\"]\",zero,,0,0\n\"[\"\"w\"\"]\",finite,0,1,1\n\"[\"\"w\"\"]\",inf,,0,0\n\"[\"\"w\"\"]\",nan,,0,0\n"
        "\"[\"\"z\"\"]\",zero,,0,0\n\"[\"\"z\"\"]\",inf,,0,0\n\"[\"\"z\"\"]\",nan,,0,0\n");
  CHECK(histogram_csv(headroom::leaf_exponent_histograms(std::vector<std::vector<float>>{{1.0F}})) ==
        "path,kind,exponent,count,powers_of_two\n[0],zero,,0,0\n[0],finite,0,1,1\n[0],inf,,0,0\n[0],nan,,0,0\n");
}
