#include <headroom/detail/csv.hpp>

#include <string>

#include "support/catch.hpp"

TEST_CASE("a field is quoted where RFC 4180 asks for it, and nowhere else") {
  const auto appended = [](const char* field) {
    std::string csv = "1,";
    headroom::detail::append_csv_field(csv, field);
    return csv;
  };
  CHECK(appended("") == "1,");
  CHECK(appended("layers[1].bias") == "1,layers[1].bias");
  CHECK(appended("a,b") == "1,\"a,b\"");
  CHECK(appended("a\rb") == "1,\"a\rb\"");
  CHECK(appended("a\nb") == "1,\"a\nb\"");
  CHECK(appended("[\"a\"]") == "1,\"[\"\"a\"\"]\"");
}
