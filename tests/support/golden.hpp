#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <istream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// Recorded loss-scale sequences. tests/golden/README.md describes the format of the files.

namespace support {

struct Trace {
  std::string name;
  std::map<std::string, double> arguments;
  std::vector<double> overflow, scale;
  std::vector<double> growth, hysteresis;  ///< empty if not recorded

  [[nodiscard]] double real(const char* argument) const { return arguments.at(argument); }
  [[nodiscard]] std::int32_t whole(const char* argument) const {
    return static_cast<std::int32_t>(arguments.at(argument));
  }
};

/// The numbers of a line: value, value*count, or first..last, which counts up by one.
inline std::vector<double> numbers(std::istream& words) {
  std::vector<double> all;
  for (std::string word; words >> word;) {
    const std::size_t star = word.find('*'), dots = word.find("..");
    const double first = std::stod(word),
                 last = dots == std::string::npos ? first : std::stod(word.substr(dots + 2));
    const std::size_t count = star == std::string::npos ? 1 : std::stoul(word.substr(star + 1));
    all.insert(all.end(), count, first);
    while (all.back() < last) all.push_back(all.back() + 1.0);
  }
  return all;
}

/// The traces of tests/golden/`system`.trace.
inline std::vector<Trace> golden(const std::string& system) {
  std::ifstream in(std::string(HEADROOM_TEST_DATA_DIR) + "/" + system + ".trace");
  std::vector<Trace> traces;
  for (std::string line, key; std::getline(in, line);) {
    std::istringstream words(line);
    words >> key;
    if (key == "trace") words >> traces.emplace_back().name;
    for (std::string argument; key == "arguments" && words >> argument;) {
      const std::size_t equals = argument.find('=');
      traces.back().arguments[argument.substr(0, equals)] = std::stod(argument.substr(equals + 1));
    }
    if (key == "overflow") traces.back().overflow = numbers(words);
    if (key == "scale") traces.back().scale = numbers(words);
    if (key == "growth") traces.back().growth = numbers(words);
    if (key == "hysteresis") traces.back().hysteresis = numbers(words);
  }
  if (traces.empty()) throw std::runtime_error("no traces of " + system);
  return traces;
}

}  // namespace support
