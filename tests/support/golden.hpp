#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <istream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// Recorded loss-scale sequences. tests/golden/README.md describes the format of the files.

namespace support {

struct Trace {
  std::string name;
  std::map<std::string, double> config;
  std::vector<bool> overflow;
  std::map<std::string, std::vector<double>> scales;  ///< by the name of the line: scale, scale_main, …
  std::vector<std::int64_t> growth;                   ///< empty if the system has no counter

  [[nodiscard]] double config_or(const std::string& key, double otherwise) const {
    const auto found = config.find(key);
    return found == config.end() ? otherwise : found->second;
  }
};

/// Reads traces from a stream. Throws std::runtime_error that names file and line if the format is wrong.
class TraceReader {
 public:
  TraceReader(std::istream& in, std::string file) : in_(in), file_(std::move(file)) {}

  std::vector<Trace> read() {
    std::vector<Trace> traces;
    for (std::string line; next(line);) {
      std::istringstream words(line);
      const std::string key = word(words);
      if (key != "trace") fail("expected 'trace', found '" + key + "'");
      Trace trace;
      trace.name = word(words);
      read_block(trace);
      traces.push_back(std::move(trace));
    }
    if (traces.empty()) fail("no trace");
    return traces;
  }

 private:
  bool next(std::string& line) {
    while (std::getline(in_, line)) {
      ++line_;
      if (!line.empty()) return true;
    }
    return false;
  }
  void read_block(Trace& trace) {
    for (std::string line; next(line);) {
      std::istringstream words(line);
      const std::string key = word(words);
      if (key == "end") return check(trace);
      read_line(trace, key, words);
    }
    fail(trace.name + " has no end");
  }
  void read_line(Trace& trace, const std::string& key, std::istream& words) {
    if (key == "config") {
      const std::string name = word(words), value = word(words);
      // Only values of half_type are not numbers. No policy of headroom has that setting.
      if (name != "half_type" && !trace.config.emplace(name, number(value)).second) fail(name + " is there twice");
    } else if (key == "overflow") {
      for (const double bit : repeated(words)) {
        if (bit != 0.0 && bit != 1.0) fail("an overflow is 0 or 1");
        trace.overflow.push_back(bit == 1.0);
      }
    } else if (key == "growth") {
      read_counters(trace.growth, words);
    } else if (key.rfind("scale", 0) == 0) {
      if (!trace.scales.emplace(key, repeated(words)).second) fail(key + " is there twice");
    } else {
      fail("unknown line '" + key + "'");
    }
  }
  /// value[*count] …
  std::vector<double> repeated(std::istream& words) {
    std::vector<double> values;
    for (std::string text; words >> text;) {
      const auto star = text.find('*');
      const double value = number(text.substr(0, star));
      const std::int64_t count = star == std::string::npos ? 1 : integer(text.substr(star + 1));
      if (count < 1) fail("'" + text + "' repeats less than once");
      values.insert(values.end(), static_cast<std::size_t>(count), value);
    }
    return values;
  }
  /// a[..b] …
  void read_counters(std::vector<std::int64_t>& counters, std::istream& words) {
    for (std::string text; words >> text;) {
      const auto dots = text.find("..");
      const std::int64_t first = integer(text.substr(0, dots));
      const std::int64_t last = dots == std::string::npos ? first : integer(text.substr(dots + 2));
      if (last < first) fail("'" + text + "' counts down");
      for (std::int64_t counter = first; counter <= last; ++counter) counters.push_back(counter);
    }
  }
  void check(const Trace& trace) {
    const std::size_t steps = trace.overflow.size();
    if (steps == 0 || trace.scales.empty()) fail(trace.name + " has no steps");
    for (const auto& [name, values] : trace.scales) {
      if (values.size() != steps) fail(trace.name + ": " + different_length(name, values.size(), steps));
    }
    if (!trace.growth.empty() && trace.growth.size() != steps) {
      fail(trace.name + ": " + different_length("growth", trace.growth.size(), steps));
    }
  }
  static std::string different_length(const std::string& name, std::size_t size, std::size_t steps) {
    return name + " has " + std::to_string(size) + " values for " + std::to_string(steps) + " steps";
  }
  std::string word(std::istream& words) {
    std::string text;
    if (!(words >> text)) fail("a word is missing");
    return text;
  }
  double number(const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') fail("'" + text + "' is no number");
    return value;
  }
  std::int64_t integer(const std::string& text) {
    const bool digits =
        !text.empty() && text.size() < 10 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) fail("'" + text + "' is no integer");
    return std::stoll(text);
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(file_ + ":" + std::to_string(line_) + ": " + what);
  }

  std::istream& in_;
  std::string file_;
  int line_ = 0;
};

/// The traces of tests/golden/`file`.
inline std::vector<Trace> golden(const std::string& file) {
  const std::string path = std::string(HEADROOM_TEST_DATA_DIR) + "/" + file;
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot open " + path);
  return TraceReader(in, file).read();
}

template <class Policy, class = void>
struct has_counter : std::false_type {};
template <class Policy>
struct has_counter<Policy, std::void_t<decltype(std::declval<const Policy&>().counter())>> : std::true_type {};

/// Runs `policy` along the trace. Returns a message about the first scale or counter that differs; empty if none does.
template <class Policy>
std::string first_difference(Policy policy, const Trace& trace) {
  const std::vector<double>& scales = trace.scales.at("scale");
  for (std::size_t step = 0; step < trace.overflow.size(); ++step) {
    policy = policy.adjust(!trace.overflow[step]);
    const auto differs = [&](const char* what, double is, double should_be) {
      std::ostringstream text;
      text << trace.name << ", step " << step << ": the " << what << " is " << is << " and should be " << should_be;
      return text.str();
    };
    const auto scale = static_cast<double>(policy.loss_scale());
    if (scale != scales[step]) return differs("scale", scale, scales[step]);
    if constexpr (has_counter<Policy>::value) {
      const auto counter = static_cast<double>(policy.counter()), expected = static_cast<double>(trace.growth.at(step));
      if (counter != expected) return differs("counter", counter, expected);
    }
  }
  return {};
}

}  // namespace support
