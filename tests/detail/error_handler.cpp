// Without exceptions the message goes to a handler, which may end the program in its own way.
#define HEADROOM_EXCEPTIONS 0
#define HEADROOM_ERROR_HANDLER(message) throw handled(message)
#include <string>

namespace {
std::string handled(const char* message) { return message; }
}  // namespace

#include <headroom/detail/error.hpp>

#include "support/catch.hpp"

using namespace headroom::detail;

namespace {

/// The message that the handler receives.
template <class F>
std::string message_of(F fails) {
  try {
    fails();
  } catch (const std::string& message) {
    return message;
  }
  return "it has returned";
}

}  // namespace

TEST_CASE("Without exceptions the handler gets the message as a line") {
  CHECK(message_of([] { throw_invalid_argument({"min_scale is 0"}); }) ==
        "headroom: min_scale is 0\n");
  CHECK(message_of([] { throw_logic_error({"call update first"}); }) ==
        "headroom: call update first\n");
}
