#pragma once

#include <headroom/config.hpp>
#include <headroom/detail/error.hpp>
#include <headroom/state/state_dict.hpp>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#if !defined(__cpp_lib_to_chars)  // libc++ before 20 reads no floating-point numbers without a locale
#include <clocale>
#include <cstdlib>
#endif

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// Whether a double is 0, or has up to 20 bits behind the point and up to 53 before it: then few decimal digits are exact.
[[nodiscard]] inline bool is_short(const double& value) noexcept {
  const std::uint64_t magnitude = bit_cast<std::uint64_t>(value) & binary64::abs_mask;
  std::uint64_t digits = (magnitude & binary64::mantissa_mask) | (std::uint64_t{1} << binary64::mantissa_bits);
  int behind_point = binary64::bias + binary64::mantissa_bits - static_cast<int>(magnitude >> binary64::mantissa_bits);
  if (behind_point < 0) return false;
  for (; behind_point > 20 && (digits & 1U) == 0; --behind_point) digits >>= 1U;
  return behind_point <= 20 || magnitude == 0;
}

/// A double without loss, independent of the locale: "32768.0" or "0.00006103515625" if few digits are exact, otherwise
/// hexadecimal, "0x1.999999999999ap-4"; "inf", and "nan" for every NaN.
[[nodiscard]] inline std::string exact_text(const double& value) {
  const auto bits = bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = bits & binary64::abs_mask;
  if (magnitude > binary64::infinity_bits) return "nan";
  const bool is_negative = (bits & binary64::sign_mask) != 0;
  if (magnitude == binary64::infinity_bits) return is_negative ? "-inf" : "inf";
  if (is_short(value)) {
    char buffer[64];
    char* end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed, 20).ptr;
    while (end[-1] == '0' && end[-2] != '.') --end;
    return std::string(buffer, end);
  }
  // By hand: where the processor flushes subnormals, std::to_chars makes zeros of them.
  std::string hex;
  for (std::uint64_t rest = magnitude & binary64::mantissa_mask; rest != 0; rest = (rest << 4U) & binary64::mantissa_mask) {
    hex += "0123456789abcdef"[rest >> (binary64::mantissa_bits - 4)];
  }
  const int exponent = static_cast<int>(magnitude >> binary64::mantissa_bits);
  const int power = (exponent == 0 ? 1 : exponent) - binary64::bias;
  std::string text = is_negative ? "-" : "";  // appended to: see error.hpp
  text += exponent == 0 ? "0x0" : "0x1";
  if (!hex.empty()) (text += '.') += hex;
  text += 'p';
  return text += std::to_string(power);
}

/// Reads all of `digits` as a number of this format, the nearest there is. False if it is none, or out of range.
[[nodiscard]] inline bool read_double(std::string_view digits, bool is_hexadecimal, double& value) {
#if defined(__cpp_lib_to_chars)
  const auto format = is_hexadecimal ? std::chars_format::hex : std::chars_format::general;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value, format);
  return result.ec == std::errc() && result.ptr == digits.data() + digits.size();
#else
  std::string text = (is_hexadecimal ? "0x" : "") + std::string(digits);
  const auto point = text.find('.');
  if (point != std::string::npos) text.replace(point, 1, std::localeconv()->decimal_point);
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  const auto magnitude = bit_cast<std::uint64_t>(value) & binary64::abs_mask;
  return end == text.c_str() + text.size() && magnitude != binary64::infinity_bits;
#endif
}

[[nodiscard]] inline std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7F) {
      result += {'\\', 'x', "0123456789abcdef"[byte >> 4U], "0123456789abcdef"[byte & 15U]};
    } else {
      result += c;
    }
  }
  return result + '"';
}

[[nodiscard]] constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
/// 16 if it is none.
[[nodiscard]] constexpr unsigned hex_digit(char c) noexcept {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return 16;
}
/// Letters, digits, '_', '.', '-' and '/', which need no quotes in a key.
[[nodiscard]] constexpr bool is_key_char(char c) noexcept {
  return hex_digit(c) < 16 || (c >= 'g' && c <= 'z') || (c >= 'G' && c <= 'Z') || c == '_' || c == '.' || c == '-' || c == '/';
}

/// Reads what to_text writes, also after people have edited it.
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
      skip_spaces();
      if (rest_.empty() || rest_.front() == '#') continue;
      std::string key = read_key();
      skip_spaces();
      if (!take('=')) fail("expected '=' after the key '" + key + "'");
      skip_spaces();
      StateValue value = read_value();
      skip_spaces();
      if (!rest_.empty() && rest_.front() != '#') fail("more than a value");
      if (dict.contains(key)) fail("the key '" + key + "' is there twice");
      dict.add(std::move(key), std::move(value));
    }
    return dict;
  }

 private:
  void skip_spaces() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' || rest_.front() == '\r')) rest_.remove_prefix(1);
  }
  bool take(char c) {
    const bool is_there = !rest_.empty() && rest_.front() == c;
    if (is_there) rest_.remove_prefix(1);
    return is_there;
  }
  std::string read_key() {
    if (!rest_.empty() && rest_.front() == '"') return read_quoted();
    std::size_t length = 0;
    while (length < rest_.size() && is_key_char(rest_[length])) ++length;
    if (length == 0) fail("expected a key");
    std::string key(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return key;
  }
  std::string read_quoted() {
    std::string text;
    rest_.remove_prefix(1);
    while (!take('"')) {
      if (rest_.empty()) fail("a quote is not closed");
      char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '\\') c = read_escape();
      text += c;
    }
    return text;
  }
  char read_escape() {
    if (take('"')) return '"';
    if (take('\\')) return '\\';
    if (rest_.size() >= 3 && rest_[0] == 'x' && hex_digit(rest_[1]) < 16 && hex_digit(rest_[2]) < 16) {
      const unsigned byte = hex_digit(rest_[1]) * 16 + hex_digit(rest_[2]);
      rest_.remove_prefix(3);
      return static_cast<char>(byte);
    }
    fail("expected \\\", \\\\ or \\x with two hexadecimal digits");
  }

  StateValue read_value() {
    if (!rest_.empty() && rest_.front() == '"') return read_quoted();
    std::size_t length = 0;
    while (length < rest_.size() && (is_key_char(rest_[length]) || rest_[length] == '+')) ++length;
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    const bool is_negative = !word.empty() && word.front() == '-';
    const std::string_view digits = word.substr(is_negative ? 1 : 0);
    if (word == "true" || word == "false") return word == "true";
    if (digits == "inf") return with_sign(binary64::infinity_bits, is_negative);
    if (digits == "nan") return with_sign(binary64::quiet_nan_bits, is_negative);
    if (digits.substr(0, 2) == "0x") return read_hexadecimal(word, digits.substr(2), is_negative);
    if (digits.empty() || !is_digit(digits.front()))
      fail("expected a number or a \"text\" as value, found '" + std::string(word) + "'");
    return read_decimal(word, digits);
  }
  static StateValue with_sign(std::uint64_t bits, bool is_negative) {
    // Laundered, because -ffast-math would merge the two zeros.
    return bit_cast<double>(launder(bits | (is_negative ? binary64::sign_mask : 0)));
  }
  [[noreturn]] void bad_number(std::string_view word, const char* why) { fail("'" + std::string(word) + "' is " + why); }

  /// Digits alone are an integer; with a point or an exponent the nearest double.
  StateValue read_decimal(std::string_view word, std::string_view digits) {
    if (digits.find_first_not_of("0123456789") != std::string_view::npos) {
      double real = 0.0;
      if (!read_double(word, false, real)) bad_number(word, "no number, or beyond double");
      return real;
    }
    std::int64_t whole = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), whole).ec != std::errc()) bad_number(word, "beyond 64 bits");
    return whole;
  }

  /// digits[.digits]p[+-]digits, exactly a double.
  StateValue read_hexadecimal(std::string_view word, std::string_view digits, bool is_negative) {
    const std::size_t p = digits.find('p');
    if (p == std::string_view::npos) bad_number(word, "no number: expected digits, p and an exponent");
    std::uint64_t mantissa = 0;
    std::size_t count = 0;
    for (const char c : digits.substr(0, p)) {
      if (c == '.') continue;
      if (hex_digit(c) > 15) bad_number(word, "no number");
      if (++count > 15) bad_number(word, "longer than a double");
      mantissa = mantissa * 16 + hex_digit(c);
    }
    std::string_view exponent = digits.substr(p + 1);
    if (!exponent.empty() && (exponent.front() == '-' || exponent.front() == '+')) exponent.remove_prefix(1);
    const bool is_number = exponent.find_first_not_of("0123456789") == std::string_view::npos;
    if (exponent.empty() || exponent.size() > 5 || !is_number) bad_number(word, "no number: its exponent is not one");
    double value = 0.0;
    if (!read_double(digits, true, value)) bad_number(word, "no number, or beyond double");
    const auto bits = bit_cast<std::uint64_t>(value);
    const std::uint64_t implicit = (bits >> binary64::mantissa_bits) != 0 ? std::uint64_t{1} << binary64::mantissa_bits : 0;
    if (odd_part(mantissa) != odd_part((bits & binary64::mantissa_mask) | implicit)) {
      bad_number(word, "no double: it has too many digits or is too small");
    }
    return with_sign(bits, is_negative);
  }
  /// Without the powers of two in it: the same of a number and of the nearest double only where that is the number.
  static std::uint64_t odd_part(std::uint64_t number) noexcept {
    while (number != 0 && (number & 1U) == 0) number >>= 1U;
    return number;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw_invalid_argument({"line ", std::to_string(number_), " of a state, '", line_.substr(0, 200), "': ", what});
  }

  std::string_view text_, line_, rest_;
  int number_ = 0;
};

}  // namespace detail

/// A state as text: one line "key = value" per entry, exact for every number and independent of the locale. NaNs lose their
/// payload.
[[nodiscard]] inline std::string to_text(const StateDict& dict) {
  std::string text;
  for (const auto& [key, value] : dict) {
    bool is_bare = !key.empty();
    for (const char c : key) is_bare = is_bare && detail::is_key_char(c);
    text += (is_bare ? key : detail::quoted(key)) + " = ";
    text += value.is_real()   ? detail::exact_text(value.real())
            : value.is_text() ? detail::quoted(value.text())
                              : detail::to_text(value);
    text += '\n';
  }
  return text;
}

/// The state written in `text`. Empty lines and anything after a '#' outside quotes are ignored; a number without point and
/// exponent is an integer. Throws std::invalid_argument naming the line and what is wrong with it.
[[nodiscard]] inline StateDict from_text(std::string_view text) { return detail::TextReader(text).read(); }

}  // namespace HEADROOM_BUILD
}  // namespace headroom
