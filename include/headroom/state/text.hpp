#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/state/state_dict.hpp>

#include <charconv>
#include <clocale>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

HEADROOM_DETAIL_BEGIN_NAMESPACE

namespace detail {

/// Reads all of `word` as the nearest double. It may be decimal or hexadecimal (0x1.8p-4). False if it is no number or out of
/// range. Does not use from_chars, which libc++ before 20 has for integers only.
[[nodiscard]] inline bool read_double(std::string word, double& value) {
  const bool is_named = word.find('n') != std::string::npos;  // inf and nan
  const auto point = word.find('.');
  if (point != std::string::npos) word.replace(point, 1, std::localeconv()->decimal_point);
  char* end = nullptr;
  value = std::strtod(word.c_str(), &end);
  return end == word.c_str() + word.size() && (is_named || is_within(value, -largest_double, largest_double));
}

[[nodiscard]] constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
/// The characters that need no quotes in a key.
[[nodiscard]] constexpr bool is_key_char(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-' || c == '/';
}

/// Reads the output of to_text, edited or not.
class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  [[nodiscard]] StateDict read() {
    StateDict dict;
    while (!text_.empty()) {
      ++number_;
      line_ = text_.substr(0, text_.find('\n'));
      text_.remove_prefix(line_.size() < text_.size() ? line_.size() + 1 : line_.size());
      rest_ = line_;
      if (is_at_end()) continue;
      if (rest_.front() == '=') fail("expected a key");
      std::string key = rest_.front() == '"' ? read_quoted() : std::string(read_word());
      if (!take('=')) fail("expected '=' after the key '" + key + "'");
      StateValue value = read_value();
      if (!is_at_end()) fail("more than a value");
      if (dict.contains(key)) fail("the key '" + key + "' is there twice");
      dict.add(std::move(key), std::move(value));
    }
    return dict;
  }

 private:
  void skip_spaces() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\r')) rest_.remove_prefix(1);
  }
  [[nodiscard]] bool is_at_end() {
    skip_spaces();
    return rest_.empty() || rest_.front() == '#';
  }
  /// Skips spaces first.
  bool take(char c) {
    skip_spaces();
    const bool is_there = !rest_.empty() && rest_.front() == c;
    if (is_there) rest_.remove_prefix(1);
    return is_there;
  }
  std::string_view read_word() {
    std::size_t length = 0;
    while (length < rest_.size() && (is_key_char(rest_[length]) || rest_[length] == '+')) ++length;
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return word;
  }
  std::string read_quoted() {
    std::string text;
    for (rest_.remove_prefix(1);; rest_.remove_prefix(1)) {
      if (rest_.empty()) fail("a quote is not closed");
      if (rest_.front() == '"') break;
      text += rest_.front() == '\\' ? read_escape() : rest_.front();
    }
    rest_.remove_prefix(1);
    return text;
  }
  /// Reads \", \\ or \x1f, and stops at its last character.
  char read_escape() {
    rest_.remove_prefix(1);
    if (!rest_.empty() && (rest_.front() == '"' || rest_.front() == '\\')) return rest_.front();
    unsigned byte = 0;
    const char* const digits = rest_.data() + 1;
    const bool is_hexadecimal = rest_.size() >= 3 && rest_.front() == 'x';
    if (!is_hexadecimal || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) {
      fail("expected \\\", \\\\ or \\x with two hexadecimal digits");
    }
    rest_.remove_prefix(2);
    return static_cast<char>(byte);
  }

  StateValue read_value() {
    if (take('[')) return read_list();
    if (!rest_.empty() && rest_.front() == '"') return read_quoted();
    const std::string_view word = read_word();
    if (word == "true" || word == "false") return word == "true";
    return read_number(word);
  }
  StateValue read_list() {
    std::vector<double> list;
    while (!take(']')) {
      if (!list.empty() && !take(',')) fail("expected ',' or ']' in a list");
      skip_spaces();
      const StateValue number = read_number(read_word());
      list.push_back(number.is_real() ? number.real() : static_cast<double>(number.integer()));
    }
    return list;
  }
  /// Digits alone are an integer. Anything else is the nearest double.
  StateValue read_number(std::string_view word) {
    const std::string_view digits = word.substr(!word.empty() && word.front() == '-' ? 1 : 0);
    const char* const end = word.data() + word.size();
    if (!digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos) {
      std::int64_t whole = 0;
      if (std::from_chars(word.data(), end, whole).ec != std::errc()) fail("'" + std::string(word) + "' is beyond 64 bits");
      return whole;
    }
    const bool is_number = !digits.empty() && (is_digit(digits.front()) || digits == "inf" || digits == "nan");
    double real = 0.0;
    if (!is_number || !read_double(std::string(word), real)) {
      fail("expected a number, a list of numbers or a \"text\" as value, found '" + std::string(word) + "'");
    }
    return real;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw_invalid_argument({"line ", std::to_string(number_), " of a state, '", line_.substr(0, 200), "': ", what});
  }

  std::string_view text_, line_, rest_;
  int number_ = 0;
};

}  // namespace detail

/// A state as text: one line "key = value" per entry, in every locale. Numbers are exact, except that NaNs lose their payload.
[[nodiscard]] inline std::string to_text(const StateDict& dict) {
  std::string text;
  for (const auto& [key, value] : dict) {
    bool is_bare = !key.empty();
    for (const char c : key) is_bare = is_bare && detail::is_key_char(c);
    text += (is_bare ? key : detail::quoted(key)) + " = " + detail::to_text(value) + '\n';
  }
  return text;
}

/// The state in `text`. Ignores empty lines and anything after a '#' outside quotes. A number without a point and an exponent
/// is an integer. Throws std::invalid_argument naming the line and what is wrong with it.
[[nodiscard]] inline StateDict from_text(std::string_view text) { return detail::TextReader(text).read(); }

HEADROOM_DETAIL_END_NAMESPACE
