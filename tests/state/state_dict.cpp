#include <headroom/state/state_dict.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using namespace headroom;

TEST_CASE("a StateDict keeps its entries in order") {
  StateDict dict = {{"z", 1}, {"a", 2.5}, {"m", "text"}};
  std::string keys;
  for (const auto& [key, value] : dict)
    keys += key + (value.is_integer() ? "i" : value.is_real() ? "r" : "t");
  CHECK(keys == "ziarmt");
  CHECK(dict.size() == 3);
  dict["b"] = 4;
  dict.set("z", "again");
  CHECK(dict.begin()->first == "z");
  CHECK(dict.at("z").text() == "again");
  CHECK(dict.find("b")->integer() == 4);
  CHECK(dict.erase("a"));
  CHECK_FALSE(dict.erase("a"));
  CHECK_FALSE(dict.contains("a"));
  CHECK(dict.find("a") == nullptr);
  CHECK(dict == StateDict{{"z", "again"}, {"m", "text"}, {"b", 4}});
  CHECK(dict != StateDict{{"m", "text"}, {"z", "again"}, {"b", 4}});
  CHECK(StateDict().empty());
}

TEST_CASE("values are equal if their kinds and bits are equal") {
  const double nan = support::with_bits(headroom::binary64::quiet_nan_bits);
  CHECK(StateValue(nan) == StateValue(nan));
  CHECK(StateValue(0.0) != StateValue(-0.0));
  CHECK(StateValue(1) != StateValue(1.0));
  CHECK(StateValue(1) == StateValue(std::int64_t{1}));
  CHECK(StateValue(true) == StateValue(1));
  CHECK(StateValue(0) == StateValue(false));
  CHECK(StateValue(true) != StateValue(2));
  CHECK(StateValue(true) != StateValue(1.0));
  CHECK(StateValue(false) != StateValue("false"));
  CHECK(StateValue(0.1F) == StateValue(static_cast<double>(0.1F)));
  CHECK(StateValue("a") == StateValue(std::string("a")));
  CHECK(StateValue("1") != StateValue(1));
  CHECK(StateValue(std::vector<double>{nan, 1.0}) == StateValue(std::vector<double>{nan, 1.0}));
  CHECK(StateValue(std::vector<double>{0.0}) != StateValue(std::vector<double>{-0.0}));
  CHECK(StateValue(std::vector<double>()) != StateValue(0));
}

TEST_CASE("reading a value as another kind is an error that names the value") {
  const StateValue values[] = {7, 2.5, "seven", true, std::vector<double>{1.0, 0.5}};
  const char* const texts[] = {"7", "2.5", "\"seven\"", "true", "[1.0, 0.5]"};
  const char* const kinds[] = {"a whole number", "a real number", "a text", "true or false",
                               "a list of numbers"};
  void (*const read[])(const StateValue&) = {[](const StateValue& value) { (void)value.integer(); },
                                             [](const StateValue& value) { (void)value.real(); },
                                             [](const StateValue& value) { (void)value.text(); },
                                             [](const StateValue& value) { (void)value.boolean(); },
                                             [](const StateValue& value) { (void)value.list(); }};
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      const std::string expected =
          std::string("headroom: a value of a state is ") + texts[i] + "; it must be " + kinds[j];
      CHECK(support::message_of([&] { read[j](values[i]); }) == (i == j ? "" : expected));
    }
  }
  CHECK((values[0].integer() == 7 && values[1].real() == 2.5 && values[2].text() == "seven" &&
         values[3].boolean()));
  CHECK((values[4].is_list() && values[4].list().size() == 2 && StateValue().integer() == 0));
}

// A char is refused because it is usually meant as a text. A pointer does not convert to bool.
template <class T>
constexpr bool is_value = std::is_constructible_v<StateValue, T>;
static_assert(!is_value<char> && !is_value<int*>);
static_assert(is_value<std::int8_t> && is_value<std::uint8_t> && is_value<bool> &&
              is_value<const char*> && is_value<char[2]>);

TEST_CASE("the largest whole number is 2^63 - 1") {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK(StateValue(most).integer() == std::numeric_limits<std::int64_t>::max());
  CHECK_INVALID("9223372036854775808 is too large", StateValue(most + 1));
  CHECK(StateValue(std::numeric_limits<std::uint32_t>::max()).integer() == 4294967295);
}

TEST_CASE("a repeated key, a missing key and a number that is too large are errors") {
  StateDict dict = {{"a", 1}};
  CHECK_INVALID("the key 'a' is there twice, the second time with 2", dict.add("a", 2));
  CHECK_INVALID("the key 'b' is missing", dict.at("b"));
  CHECK_INVALID("second time with \"x\"", StateDict({{"a", 1}, {"a", "x"}}));
  CHECK_INVALID("18446744073709551615 is too large",
                dict.set("a", std::numeric_limits<std::uint64_t>::max()));
  CHECK(dict == StateDict{{"a", 1}});
}

TEST_CASE("states are equal if and only if their digests are equal") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const StateValue values[] = {0,        1,    -1,   2,    std::numeric_limits<std::int64_t>::min(),
                               0.0,      -0.0, 1.0,  2.0,  0x1p63,
                               infinity, "",   "a",  "b",  "aa",
                               "0",      "ab", "ba", "a\n"};
  constexpr std::size_t count = sizeof values / sizeof *values;
  const char* keys[] = {"", "a", "b", "ab", "a "};
  std::vector<StateDict> states = {{}};
  for (const char* key : keys) {
    for (const StateValue& value : values) {
      states.push_back({{key, value}});
      for (const char* other : keys) {
        if (std::string(key) != other)
          states.push_back({{key, value}, {other, values[states.size() % count]}});
      }
    }
  }
  long faults = 0;
  for (const StateDict& a : states) {
    for (const StateDict& b : states) faults += (a == b) == (digest(a) == digest(b)) ? 0 : 1;
  }
  CHECK(faults == 0);
}

TEST_CASE("a digest is the same on every platform") {  // ranks may be built differently
  CHECK(digest({}) == 0xcbf29ce484222325);
  CHECK(digest({{"version", 1}, {"policy", "x"}, {"scale", 0.5}, {"flag", true}}) ==
        0xf512ec9c03f87a66);
}
