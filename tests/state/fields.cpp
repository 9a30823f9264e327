#include <headroom/state/fields.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::StateDict;
using headroom::StateValue;
using headroom::detail::StateReader;
using headroom::detail::StateWriter;
using support::message_of;

namespace {

struct Fields {
  double real = 0.5;
  float scale = 2.0F;
  std::int64_t counter = 3;
  std::int32_t small = 4;
  bool flag = true, rare = false;
  double window = 5.0;

  template <class Self, class Visit>
  static void visit_fields(Self& self, Visit& visit) {
    visit("real", self.real);
    visit("scale", self.scale);
    visit("counter", self.counter, 0, 100);
    visit("small", self.small);
    visit("flag", self.flag);
    visit.unless_false("rare", self.rare);
    visit("window", self.window, 1, 10);
  }
  [[nodiscard]] StateDict state() const {
    StateWriter write("fields");
    visit_fields(*this, write);
    return write.take();
  }
  void read(const StateDict& dict) {
    StateReader reader(dict, std::string("fields"));
    visit_fields(*this, reader);
    reader.finish();
  }
};

std::string refused(const char* key, const StateValue& value) {
  StateDict dict = Fields().state();
  dict.set(key, value);
  return message_of([&] { Fields().read(dict); });
}
double with_bits(std::uint64_t bits) {
  double value = 0.0;
  support::set_bits(value, bits);
  return value;
}

}  // namespace

TEST_CASE("what is written is read again, a flag as 1 or 0, and a rare one where it is set") {
  CHECK(Fields().state() == StateDict{{"version", 1},
                                      {"policy", "fields"},
                                      {"real", 0.5},
                                      {"scale", 2.0},
                                      {"counter", 3},
                                      {"small", 4},
                                      {"flag", true},
                                      {"window", 5.0}});
  CHECK(Fields().state().at("flag").is_integer());
  Fields other{1.0, 3.0F, 5, 6, false, true, 7.0};
  const StateDict state = other.state();
  CHECK(state.contains("rare"));
  Fields read;
  read.read(state);
  CHECK(read.state() == state);
}

TEST_CASE("a field of another type or out of its range is refused, by key and value") {
  CHECK_THAT(refused("real", "text"), ContainsSubstring("real is 'text'; it must be a number"));
  CHECK_THAT(refused("real", true), ContainsSubstring("real is true; it must be a number"));
  CHECK_THAT(refused("scale", 1e300), ContainsSubstring("scale is 1e+300; it must be within the range of float"));
  CHECK_THAT(refused("scale", 1e-300), ContainsSubstring("within the range of float"));
  CHECK_THAT(refused("counter", 101), ContainsSubstring("counter is 101; it must be in [0, 100]"));
  CHECK_THAT(refused("counter", -1), ContainsSubstring("counter is -1"));
  CHECK_THAT(refused("counter", 1.0), ContainsSubstring("counter is 1 as a real number; it must be a whole number"));
  CHECK_THAT(refused("small", std::int64_t{1} << 31), ContainsSubstring("small is 2147483648; it must be in [-2147483648, "));
  CHECK_THAT(refused("flag", 2), ContainsSubstring("flag is 2; it must be true or false, or 1 or 0"));
  CHECK_THAT(refused("rare", "x"), ContainsSubstring("rare is 'x'"));
  CHECK_THAT(refused("window", 0.5), ContainsSubstring("window is 0.5; it must be in [1, 10]"));
  CHECK_THAT(refused("window", with_bits(headroom::binary64::quiet_nan_bits)), ContainsSubstring("window is nan"));
  CHECK_THAT(refused("colour", 3), ContainsSubstring("the key 'colour' is unknown; its value is 3"));
  CHECK_THAT(refused("policy", "other"), ContainsSubstring("policy is 'other'; it must be 'fields'"));
  CHECK(refused("real", 2).empty());
  CHECK(refused("scale", with_bits(headroom::binary64::infinity_bits)).empty());  // left to who knows the range
  CHECK(refused("counter", 100).empty());
  CHECK(refused("flag", false).empty());
}

TEST_CASE("the version comes first") {
  CHECK_THAT(message_of([] { StateReader::check_version({}); }),
             ContainsSubstring("the state is empty, as that of a disabled"));
  CHECK_THAT(message_of([] {
               StateReader::check_version({{"policy", "x"}});
             }),
             ContainsSubstring("the key 'version' is missing"));
  CHECK_THAT(refused("version", 0), ContainsSubstring("version is 0; it must be at least 1"));
  CHECK_THAT(refused("version", 2), ContainsSubstring("the state of a newer headroom: this one reads up to 1"));
  CHECK_THAT(refused("version", "1"), ContainsSubstring("version is '1'; it must be a whole number"));
}

TEST_CASE("the scale that an AsyncGradScaler had in flight is checked and left out") {
  CHECK(refused("main_scale", 2.0).empty());
  CHECK_THAT(refused("main_scale", 0.0), ContainsSubstring("main_scale is 0"));
}

TEST_CASE("of settings only those that are there are read") {
  Fields fields;
  const StateDict settings = {{"small", 9}};
  StateReader read(settings, false);
  Fields::visit_fields(fields, read);
  CHECK(fields.small == 9);
  CHECK(fields.counter == 3);
}

TEST_CASE("a list is of whole numbers of up to 63 bits, and of no more than there is room for") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  struct List {
    std::int64_t numbers[3];
    std::size_t size;
  };
  const auto read = [](const StateValue& value, List& list, std::int64_t low, std::int64_t high) {
    const StateDict dict = {{"list", value}};
    StateReader reader(dict, true);
    reader.list("list", list.numbers, list.size, low, high);
  };
  for (const List& list : {List{{}, 0}, List{{-7}, 1}, List{{10'000'000'000, most, -most}, 3}}) {
    StateWriter write;
    write.list("list", list.numbers, list.size, -most, most);
    List found{};
    read(write.take().at("list"), found, -most, most);
    CHECK(found.size == list.size);
    for (std::size_t i = 0; i < list.size; ++i) CHECK(found.numbers[i] == list.numbers[i]);
  }
  for (const char* text :
       {"9223372036854775808", "-9223372036854775808", "9999999999999999999", "10000000000000000000", "18446744073709551617",
        "36893488147419103233", "1 2 3 4", "1 ", " 1", "1  2", "-", "--1", "+1", "1.0", "x"}) {
    List found{};
    CHECK_THAT(
        message_of([&] { read(text, found, -most, most); }),
        ContainsSubstring("list is '" + std::string(text) + "'; it must be up to 3 whole numbers in [-9223372036854775807, "));
  }
  List found{};
  CHECK_THAT(message_of([&] { read("10000000001", found, 0, 10'000'000'000); }),
             ContainsSubstring("whole numbers in [0, 10000000000]"));
  CHECK_THAT(message_of([&] { read(1, found, 0, 2); }), ContainsSubstring("list is 1; it must be up to 3 whole numbers"));
}
