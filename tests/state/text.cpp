#include <headroom/state/text.hpp>

#include <algorithm>
#include <clocale>
#include <cstdint>
#include <limits>
#include <locale>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/guard_page.hpp"
#include "support/samples.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace headroom;

namespace {

StateValue value_of(const std::string& text) { return from_text("key = " + text).at("key"); }
std::string error_of(std::string_view text) {
  return support::message_of([&] { (void)from_text(text); });
}

/// A locale with a decimal comma and grouped thousands.
struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

}  // namespace

TEST_CASE("every number except NaN and subnormals is read back from its text with the same bits") {
  std::mt19937 random(support::seed);
  // Every sign and exponent, with four bits of fraction
  for (std::uint64_t upper = 0; upper < 0x10000; ++upper) {
    const std::uint64_t low =
        upper % 3 == 0 ? 0
                       : (std::uint64_t{random()} << 16U | (random() & 0xFFFFU)) & 0xFFFFFFFFFFFFU;
    const double value =
        support::with_bits(upper << 48U | (upper % 3 == 1 ? low & ~std::uint64_t{0xFFFFFF} : low));
    const std::uint64_t magnitude = support::bits_of(value) & binary64::abs_mask;
    const StateDict dict = {{"x", value}};
    // Subnormals are not kept: see real_text
    if (magnitude <= binary64::mantissa_mask && magnitude != 0) continue;
    if (magnitude > binary64::infinity_bits) {
      REQUIRE_THAT(to_text(dict), ContainsSubstring("nan"));
    } else {
      REQUIRE(from_text(to_text(dict)) == dict);
    }
  }
}

TEST_CASE("numbers are written in decimal") {
  const double least = support::with_bits(binary64::infinity_bits | binary64::sign_mask);
  const StateDict dict = {{"reals", std::vector<double>{32768.0, -0.5, 0x1p-14, 0.1, double{0.1F},
                                                        0x1p126, 1e22, -0.0, least}},
                          {"real", 32768.0},
                          {"least", std::numeric_limits<std::int64_t>::min()},
                          {"most", std::numeric_limits<std::int64_t>::max()}};
  const std::string text =
      "reals = [32768.0, -0.5, 6.103515625e-05, 0.1, 0.10000000149011612, 8.507059173023462e+37, "
      "1e+22, -0.0, -inf]\n"
      "real = 32768.0\nleast = -9223372036854775808\nmost = 9223372036854775807\n";
  CHECK(to_text(dict) == text);
  CHECK(from_text(text) == dict);
}

TEST_CASE("texts and keys with any bytes are read back") {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const StateDict dict = {
      {all, all}, {"", ""}, {"a key", "a # \"value\" \\ = 3"}, {"plain.key-1/x", "\n"}};
  CHECK(from_text(to_text(dict)) == dict);
  CHECK(to_text({{"a b", "x\n"}}) == "\"a b\" = \"x\\x0a\"\n");
}

TEST_CASE("a key is quoted only if it has a character that a name cannot have") {
  const std::string name = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/";
  for (int byte = 0; byte < 256; ++byte) {
    const std::string key(1, static_cast<char>(byte));
    CHECK((to_text({{key, 1}}) == key + " = 1\n") == (name.find(key) != std::string::npos));
  }
}

TEST_CASE("lines may end as on Windows") {
  CHECK(from_text("a = 1\r\n\r\nb = \"x\"\r\n\tc = true\t\r\nd = 0x1p3\r") ==
        StateDict{{"a", 1}, {"b", "x"}, {"c", true}, {"d", 8.0}});
}

TEST_CASE("a list of numbers is in brackets") {
  const StateDict dict = {{"scales", std::vector<double>{1.0, -0.0, 0.1}},
                          {"none", std::vector<double>()}};
  CHECK(to_text(dict) == "scales = [1.0, -0.0, 0.1]\nnone = []\n");
  CHECK(from_text(to_text(dict)) == dict);
  CHECK(value_of(" [ 1,2 ,\t3e0 ] # three") == StateValue(std::vector<double>{1.0, 2.0, 3.0}));
  for (const char* bad :
       {"[", "[1", "[1,", "[1 2]", "[,1]", "[1,]", "[x]", "[\"1\"]", "[1] 2", "[[1]]", "[true]"}) {
    CHECK_THAT(error_of(std::string("a = ") + bad), ContainsSubstring(std::string("a = ") + bad));
  }
}

TEST_CASE("comments, spaces and other forms of numbers are read") {
  const StateDict dict = from_text(
      "# a comment\n\n  growth_interval=500  # another\r\n\tgrowth_factor\t=\t1.5\nname = \"#\" "
      "#\nlast = 1e3");
  CHECK(
      dict ==
      StateDict{{"growth_interval", 500}, {"growth_factor", 1.5}, {"name", "#"}, {"last", 1000.0}});
  CHECK(value_of("[0.1, 1E-3, 2., 0xA.8p+1, 0x1p1023, -0x0p0]") ==
        StateValue(std::vector<double>{0.1, 1e-3, 2.0, 21.0, 0x1p1023, -0.0}));
  CHECK(support::bits_of(value_of("0x10p-1074").real()) == 16);
  CHECK(from_text("").empty());
  CHECK(from_text("\n\n").empty());
}

TEST_CASE("a line that cannot be read is an error that quotes it") {
  const std::pair<std::string, std::string> lines[] = {
      {"a = 1\nb = 2,5\n", "line 2, 'b = 2,5': more than a value"},
      {"a", "line 1, 'a': expected '=' after the key 'a'"},
      {"= 1", "expected a key"},
      {"\xEF\xBB\xBFscale = 1", "without a byte order mark"},
      {"a =", "expected a number, a list of numbers or a \"text\" as value, found ''"},
      {"a = text", "found 'text'"},
      {"a = 1\na = 2", "line 2, 'a = 2': the key 'a' is there twice"},
      {"a = \"x", "a quote is not closed"},
      {"a = \"\\x41", "a quote is not closed"},
      {"a = \"\\n\"", "two hexadecimal digits"},
      {"a = \"\\n41\"", "two hexadecimal digits"},
      {"a = \"\\x4\"", "two hexadecimal digits"},
      {"a = \"\\x4g\"", "two hexadecimal digits"},
      {"a = " + std::string(10000000, 'x'), "'a = " + std::string(496, 'x') + "...': "},
      {"a = 1 2", "more than a value"},
      {"a = 9223372036854775808", "'9223372036854775808' is beyond 64 bits"}};
  for (const auto& [text, message] : lines) CHECK_THAT(error_of(text), ContainsSubstring(message));
  for (const char* bad :
       {"1.2.3", "1e", "1x", "-", "--1", "+1", "1e999", "0x", "0x1p", "0x.p1", "0xgp1", "0x1p1x",
        "-0x-0p0", "0x1p--5", "0x1p1024", "infinity", "-NaN", "."}) {
    CHECK_THAT(error_of(std::string("a = ") + bad), ContainsSubstring(std::string("a = ") + bad));
  }
}

TEST_CASE("nothing after the end of a text is read") {
  const std::string_view texts[] = {"a = \"\\x4", "a = \"\\x", "a = \"\\", "a = \"", "a = [1",
                                    "a = 12",     "a = 0x1p",  "a =",      "a"};
  for (const std::string_view text : texts) {
    const support::GuardedMemory memory(text.size());
    char* const copy = memory.last<char>(text.size());
    std::copy(text.begin(), text.end(), copy);
    CHECK(error_of({copy, text.size()}) == error_of(text));
  }
}

TEST_CASE("a text does not depend on the locale") {
  const StateDict dict = {{"x", 0.5}, {"y", 1234567}, {"z", 1e-3}, {"w", 1234567.25}};
  const std::string text = to_text(dict);
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  // Null if it is not installed
  const char* const c_locale = std::setlocale(LC_ALL, "de_DE.UTF-8");
  CHECK(to_text(dict) == text);
  CHECK(from_text(text) == dict);
  CHECK(value_of("1.5") == StateValue(1.5));
  CHECK(value_of("1000") == StateValue(1000));
  if (c_locale != nullptr) std::setlocale(LC_ALL, "C");
  std::locale::global(before);
}

TEST_CASE("true and false are read as booleans, and equal 1 and 0") {
  const StateDict flags = from_text("a = true\nb = false # no\n");
  CHECK(flags == StateDict{{"a", 1}, {"b", 0}});
  CHECK(flags.at("a").is_boolean());
  CHECK(to_text(flags) == "a = true\nb = false\n");
  CHECK(support::message_of([] { (void)headroom::from_text("a = truely\n"); }) != "");
}
