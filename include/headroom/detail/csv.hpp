#pragma once

#include <headroom/config.hpp>

#include <string>
#include <string_view>

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Appends a field to a line of CSV, quoted as in RFC 4180 where it has to be.
inline void append_csv_field(std::string& csv, std::string_view field) {
  if (field.find_first_of(",\"\r\n") == std::string_view::npos) {
    csv += field;
    return;
  }
  csv += '"';
  for (const char c : field) csv.append(c == '"' ? 2 : 1, c);
  csv += '"';
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
