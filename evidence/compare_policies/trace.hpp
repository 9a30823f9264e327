#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace compare_policies {

/// The largest |gradient| of each step.
struct Trace {
  std::string name, description;
  std::vector<double> max_abs;
};

/// Reads a CSV file with a column max_abs. Ignores rows in which it is empty:
/// headroom::History::csv() writes them for gradients that were not finite, whose size under
/// another scale is unknown. Throws std::runtime_error if the file cannot be read, or if the column
/// is missing, has no number, or has anything else than numbers of 0 or more.
inline Trace read_trace(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file.string() + ": cannot be read");
  std::string line, cell;
  std::getline(in, line);
  std::size_t column = 0;
  std::istringstream header(line);
  while (std::getline(header, cell, ',') && cell != "max_abs") ++column;
  if (cell != "max_abs")
    throw std::runtime_error(file.string() + ", line 1: there is no column max_abs");
  Trace trace{file.stem().string(), file.string(), {}};
  std::size_t empty = 0;
  for (int row = 2; std::getline(in, line); ++row) {
    const auto fail = [&](const std::string& what) {
      throw std::runtime_error(file.string() + ", line " + std::to_string(row) + ": " + what);
    };
    std::size_t begin = 0;
    for (std::size_t i = 0; i < column; ++i) {
      begin = line.find(',', begin) + 1;
      if (begin == 0) fail("there are fewer columns than in line 1");
    }
    cell = line.substr(begin, line.find(',', begin) - begin);
    if (cell.empty()) {
      ++empty;
      continue;
    }
    char* end = nullptr;
    trace.max_abs.push_back(std::strtod(cell.c_str(), &end));
    if (*end != '\0' || !(trace.max_abs.back() >= 0.0))
      fail("max_abs is '" + cell + "'; it must be a number of 0 or more");
  }
  if (trace.max_abs.empty())
    throw std::runtime_error(file.string() + ": no row of it has a max_abs");
  if (empty > 0)
    trace.description += " (rows without max_abs, passed over: " + std::to_string(empty) + ")";
  return trace;
}

}  // namespace compare_policies
