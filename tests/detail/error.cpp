#include <headroom/detail/error.hpp>

#include <stdexcept>
#include <string>
#include <string_view>

#include "support/catch.hpp"

using namespace headroom::detail;

TEST_CASE("a message is its parts, one after another") {
  const std::string text(300, 'x');
  CHECK(headroom::detail::concat({}).empty());
  CHECK(headroom::detail::concat({"a"}) == "a");
  CHECK(headroom::detail::concat({"a", text, "", std::string_view("bcd", 2)}) == "a" + text + "bc");
  CHECK(headroom::detail::concat({std::string_view("\0", 1), "a"}) == std::string("\0a", 2));
  CHECK_THROWS_WITH(throw_invalid_argument({"min_scale is ", std::to_string(0), "; ", text}),
                    "headroom: min_scale is 0; " + text);
}

TEST_CASE("What is wrong has the type of its kind, and a message that names the library") {
  CHECK_THROWS_AS(throw_invalid_argument({"a"}), std::invalid_argument);
  CHECK_THROWS_WITH(throw_invalid_argument({"min_scale is 0"}), "headroom: min_scale is 0");
  CHECK_THROWS_AS(throw_logic_error({"a"}), std::logic_error);
  CHECK_THROWS_WITH(throw_logic_error({"call update first"}), "headroom: call update first");
}
