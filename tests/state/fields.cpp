#include <headroom/state/fields.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"

using Catch::Matchers::ContainsSubstring;
using headroom::StateDict;
using headroom::detail::same_fields;
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
    headroom::detail::StateReader reader(dict, "fields");
    reader.read(*this, 100);
    reader.finish();
  }
};

std::string refused(const char* key, const headroom::StateValue& value) {
  StateDict dict = Fields().state();
  dict.set(key, value);
  return support::message_of([&] { Fields().read(dict); });
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

TEST_CASE("errors for a bad type, range, key or version name key and value") {
  struct Refused {
    const char* key;
    headroom::StateValue value;
    const char* message;
  };
  const Refused all[] = {
      {"real", "text", "real is \"text\"; it must be a number"},
      {"real", true, "real is true; it must be a number"},
      {"real", -1.5, "real is -1.5; it must be in [-1, 1]"},
      {"real", with_bits(headroom::binary64::quiet_nan_bits), "real is nan"},
      {"real", with_bits(~std::uint64_t{0}), "nan"},
      {"scale", 1e300, "scale is 1e+300; it must be in [-3.4"},
      {"real", 1.0 + 0x1p-50, "real is 1.0000000000000009; it must be in [-1, 1]"},
      {"scale", with_bits(headroom::binary64::infinity_bits), "scale is inf"},
      {"counter", 101, "counter is 101; it must be in [0, 100]"},
      {"counter", -1, "counter is -1"},
      {"counter", 1.5, "counter is 1.5; it must be a whole number"},
      {"counter", 1e300, "counter is 1e+300; it must be a whole number"},
      {"small", 256, "small is 256; it must be in [0, 255]"},
      {"small", -1, "small is -1; it must be in [0, 255]"},
      {"flag", 2, "flag is 2; it must be true or false"},
      {"list", 1, "list is 1; it must be a list of numbers"},
      {"list", std::vector<double>{1.0, 6.0}, "list is 6; it must be small"},
      {"colour", 3, "the key 'colour' is unknown; its value is 3"},
      {"policy", "other", "policy is \"other\"; it must be \"fields\""},
      {"version", 0, "version is 0; it must be at least 1"},
      {"version", 3, "the state of a newer headroom: this one reads up to 2"},
      {"version", "1", "version is \"1\"; it must be a whole number"},
      {"version", 1, "version is 1; the state was written by headroom 0.1"}};
  for (const auto& [key, value, message] : all)
    CHECK_THAT(refused(key, value), ContainsSubstring(message));
  CHECK((refused("real", 1) + refused("counter", 1e2) + refused("flag", 0)).empty());
  CHECK_INVALID("the state is empty, as that of a disabled", Fields().read({}));
  CHECK_INVALID("the key 'version' is missing", Fields().read({{"policy", "x"}}));
}

TEST_CASE("a reader of settings leaves missing fields as they are") {
  Fields fields;
  headroom::detail::StateReader read(StateDict{{"small", 9}, {"other", 1}});
  read.read(fields, 100);
  CHECK(fields.small == 9);
  CHECK(fields.counter == 3);
  CHECK_INVALID("the key 'other' is unknown", read.finish());
}
