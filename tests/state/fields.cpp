#include <headroom/state/fields.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::StateDict;
using headroom::StateValue;
using headroom::detail::same_fields;
using headroom::detail::StateReader;
using support::message_of;
using support::with_bits;

namespace {

struct Fields {
  double real = 0.5;
  float scale = 2.0F;
  std::int64_t counter = 3;
  std::uint8_t small = 4;
  bool flag = true;
  std::vector<double> list = {0.25};

  template <class Visit>
  static constexpr void fields(Visit&& visit, int most) {
    visit("real", &Fields::real, -1.0, 1.0);
    visit("scale", &Fields::scale);
    visit("counter", &Fields::counter, 0, most);
    visit("small", &Fields::small);
    visit("flag", &Fields::flag);
    visit("list", &Fields::list, -5.0, 5.0, "small");
  }
  [[nodiscard]] StateDict state() const {
    StateDict state = headroom::detail::new_state("fields");
    headroom::detail::write_fields(state, *this, 100);
    return state;
  }
  void read(const StateDict& dict) {
    StateReader reader(dict, "fields");
    reader.read(*this, 100);
    reader.finish();
  }
};

std::string refused(const char* key, const StateValue& value) {
  StateDict dict = Fields().state();
  dict.set(key, value);
  return message_of([&] { Fields().read(dict); });
}

}  // namespace

TEST_CASE("written fields are read back") {
  const StateDict expected = {
      {"version", 2}, {"policy", "fields"}, {"real", 0.5},  {"scale", 2.0},
      {"counter", 3}, {"small", 4},         {"flag", true}, {"list", std::vector<double>{0.25}}};
  CHECK(Fields().state() == expected);
  const Fields other{-1.0, 3.0F, 5, 255, false, {}};
  Fields read;
  CHECK_FALSE(same_fields(read, other, 100));
  read.read(other.state());
  CHECK(read.state() == other.state());
  CHECK(same_fields(read, other, 100));
  read.list.push_back(0.0);
  CHECK_FALSE(same_fields(read, other, 100));
}

TEST_CASE("a field of another type or out of range is an error that names key and value") {
  CHECK_THAT(refused("real", "text"), ContainsSubstring("real is \"text\"; it must be a number"));
  CHECK_THAT(refused("real", true), ContainsSubstring("real is true; it must be a number"));
  CHECK_THAT(refused("real", -1.5), ContainsSubstring("real is -1.5; it must be in [-1, 1]"));
  CHECK_THAT(refused("real", with_bits(headroom::binary64::quiet_nan_bits)),
             ContainsSubstring("real is nan"));
  CHECK_THAT(refused("real", with_bits(~std::uint64_t{0})), ContainsSubstring("nan"));
  CHECK_THAT(refused("scale", 1e300), ContainsSubstring("scale is 1e+300; it must be in [-3.4"));
  CHECK_THAT(refused("real", 1.0 + 0x1p-50),
             ContainsSubstring("real is 1.0000000000000009; it must be in [-1, 1]"));
  CHECK_THAT(refused("scale", with_bits(headroom::binary64::infinity_bits)),
             ContainsSubstring("scale is inf"));
  CHECK_THAT(refused("counter", 101), ContainsSubstring("counter is 101; it must be in [0, 100]"));
  CHECK_THAT(refused("counter", -1), ContainsSubstring("counter is -1"));
  CHECK_THAT(refused("counter", 1.5),
             ContainsSubstring("counter is 1.5; it must be a whole number"));
  CHECK_THAT(refused("counter", 1e300),
             ContainsSubstring("counter is 1e+300; it must be a whole number"));
  CHECK_THAT(refused("small", 256), ContainsSubstring("small is 256; it must be in [0, 255]"));
  CHECK_THAT(refused("small", -1), ContainsSubstring("small is -1; it must be in [0, 255]"));
  CHECK_THAT(refused("flag", 2), ContainsSubstring("flag is 2; it must be true or false"));
  CHECK_THAT(refused("list", 1), ContainsSubstring("list is 1; it must be a list of numbers"));
  CHECK_THAT(refused("list", std::vector<double>{1.0, 6.0}),
             ContainsSubstring("list is 6; it must be small"));
  CHECK_THAT(refused("colour", 3),
             ContainsSubstring("the key 'colour' is unknown; its value is 3"));
  CHECK_THAT(refused("policy", "other"),
             ContainsSubstring("policy is \"other\"; it must be \"fields\""));
  CHECK(refused("real", 1).empty());
  CHECK(refused("counter", 1e2).empty());
  CHECK(refused("flag", 0).empty());
}

TEST_CASE("the version is checked first, and other versions are refused") {
  CHECK_THAT(message_of([] { Fields().read({}); }),
             ContainsSubstring("the state is empty, as that of a disabled"));
  CHECK_THAT(message_of([] {
               Fields().read({{"policy", "x"}});
             }),
             ContainsSubstring("the key 'version' is missing"));
  CHECK_THAT(refused("version", 0), ContainsSubstring("version is 0; it must be at least 1"));
  CHECK_THAT(refused("version", 3),
             ContainsSubstring("the state of a newer headroom: this one reads up to 2"));
  CHECK_THAT(refused("version", "1"),
             ContainsSubstring("version is \"1\"; it must be a whole number"));

  CHECK_THAT(refused("version", 1),
             ContainsSubstring("version is 1; the state was written by headroom 0.1"));
}

TEST_CASE("a reader of settings leaves missing fields as they are") {
  Fields fields;
  StateReader read(StateDict{{"small", 9}, {"other", 1}});
  read.read(fields, 100);
  CHECK(fields.small == 9);
  CHECK(fields.counter == 3);
  CHECK_THAT(message_of([&] { read.finish(); }), ContainsSubstring("the key 'other' is unknown"));
}
