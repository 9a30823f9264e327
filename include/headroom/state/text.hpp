#pragma once

#include <headroom/config.hpp>
#include <headroom/state/state_dict.hpp>

#include <locale>
#include <sstream>
#include <string>
#include <string_view>

namespace headroom {
inline namespace HEADROOM_BUILD {

namespace detail {

/// A double without loss and without a locale: "32768.0" or "0.00006103515625" where that is exact in few digits, else
/// hexadecimal, "0x1.999999999999ap-4"; "inf", "nan" (one of all).
[[nodiscard]] inline std::string exact_text(const double& value) {
  const auto bits = bit_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = bits & binary64::abs_mask, mantissa = magnitude & binary64::mantissa_mask;
  const int exponent = static_cast<int>(magnitude >> binary64::mantissa_bits);
  const std::string sign = (bits & binary64::sign_mask) != 0 ? "-" : "";
  if (magnitude > binary64::infinity_bits) return "nan";
  if (magnitude == binary64::infinity_bits) return sign + "inf";
  if (magnitude == 0) return sign + "0.0";

  // mantissa * 2^-shift, with up to 20 bits behind the point and 53 before it. No subnormal is among those.
  int shift = binary64::bias + binary64::mantissa_bits - exponent;
  std::uint64_t digits = mantissa | (std::uint64_t{1} << binary64::mantissa_bits);
  for (; shift > 0 && (digits & 1U) == 0; --shift) digits >>= 1U;
  if (shift >= 0 && shift <= 20) {
    std::string text = sign + std::to_string(digits >> static_cast<unsigned>(shift)) + ".";
    const std::uint64_t below_point = (std::uint64_t{1} << static_cast<unsigned>(shift)) - 1;
    for (digits &= below_point; digits != 0; digits &= below_point) {
      digits *= 10;
      text += static_cast<char>('0' + (digits >> static_cast<unsigned>(shift)));
    }
    return text.back() == '.' ? text + "0" : text;
  }
  std::string hex;
  for (std::uint64_t rest = mantissa; rest != 0; rest = (rest << 4U) & binary64::mantissa_mask) {
    hex += "0123456789abcdef"[rest >> (binary64::mantissa_bits - 4)];
  }
  const int power = (exponent == 0 ? 1 : exponent) - binary64::bias;
  return sign + (exponent == 0 ? "0x0" : "0x1") + (hex.empty() ? "" : "." + hex) + "p" + std::to_string(power);
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
/// 16 where it is none.
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

/// Reads what to_text writes, and what people change in it.
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
    // Laundered, for -ffast-math would make one of the two zeros.
    return bit_cast<double>(launder(bits | (is_negative ? binary64::sign_mask : 0)));
  }
  [[noreturn]] void bad_number(std::string_view word, const char* why) { fail("'" + std::string(word) + "' is " + why); }

  /// Digits alone are a whole number; with a point or an exponent the nearest double.
  StateValue read_decimal(std::string_view word, std::string_view digits) {
    bool is_whole = true;
    for (const char c : digits) {
      if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && c != '+' && c != '-') bad_number(word, "no number");
      is_whole = is_whole && is_digit(c);
    }
    std::istringstream in{std::string(word)};
    in.imbue(std::locale::classic());
    StateValue value = 0;
    if (is_whole) {
      std::int64_t whole = 0;
      if (!(in >> whole)) bad_number(word, "beyond 64 bits");
      value = whole;
    } else {
      double real = 0.0;
      if (!(in >> real)) bad_number(word, "no number, or beyond double");
      value = real;
    }
    if (in.peek() != std::istringstream::traits_type::eof()) bad_number(word, "no number");
    return value;
  }

  /// digits[.digits]p[+-]digits, exactly a double.
  StateValue read_hexadecimal(std::string_view word, std::string_view digits, bool is_negative) {
    std::uint64_t mantissa = 0;
    int exponent = 0, count = 0;
    bool behind_point = false;
    std::size_t i = 0;
    for (; i < digits.size() && (digits[i] == '.' || hex_digit(digits[i]) < 16); ++i) {
      if (digits[i] == '.') {
        if (behind_point) bad_number(word, "no number");
        behind_point = true;
        continue;
      }
      if (++count > 15) bad_number(word, "longer than a double");
      mantissa = mantissa * 16 + hex_digit(digits[i]);
      exponent -= behind_point ? 4 : 0;
    }
    if (count == 0 || i + 1 >= digits.size() || digits[i] != 'p')
      bad_number(word, "no number: expected digits, p and an exponent");
    return assemble(word, mantissa, exponent + read_exponent(word, digits.substr(i + 1)), is_negative);
  }
  int read_exponent(std::string_view word, std::string_view digits) {
    const bool is_negative = digits.front() == '-';
    if (is_negative || digits.front() == '+') digits.remove_prefix(1);
    if (digits.empty() || digits.size() > 5) bad_number(word, "no number: its exponent is not one");
    int exponent = 0;
    for (const char c : digits) {
      if (!is_digit(c)) bad_number(word, "no number: its exponent is not one");
      exponent = exponent * 10 + (c - '0');
    }
    return is_negative ? -exponent : exponent;
  }
  /// mantissa * 2^exponent from its bits: arithmetic would lose subnormals where the processor flushes them.
  StateValue assemble(std::string_view word, std::uint64_t mantissa, int exponent, bool is_negative) {
    if (mantissa == 0) return with_sign(0, is_negative);
    constexpr std::uint64_t implicit_bit = std::uint64_t{1} << binary64::mantissa_bits;
    constexpr int smallest = 1 - binary64::bias - binary64::mantissa_bits;  // of the last bit of a subnormal
    while (mantissa < implicit_bit && exponent > smallest) mantissa <<= 1U, --exponent;
    while ((mantissa >= 2 * implicit_bit || exponent < smallest) && (mantissa & 1U) == 0) mantissa >>= 1U, ++exponent;
    if (mantissa >= 2 * implicit_bit || exponent < smallest)
      bad_number(word, "no double: it has too many digits or is too small");
    if (exponent > binary64::bias - binary64::mantissa_bits) bad_number(word, "beyond double");
    if (mantissa < implicit_bit) return with_sign(mantissa, is_negative);
    const auto biased = static_cast<std::uint64_t>(exponent - smallest + 1);
    return with_sign((biased << binary64::mantissa_bits) | (mantissa & binary64::mantissa_mask), is_negative);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw_invalid_argument("line " + std::to_string(number_) + " of a state, '" + std::string(line_.substr(0, 200)) +
                           "': " + what);
  }

  std::string_view text_, line_, rest_;
  int number_ = 0;
};

}  // namespace detail

/// A state as text: a line "key = value" for each entry, exact for every number whatever the locale. NaNs lose their payload.
[[nodiscard]] inline std::string to_text(const StateDict& dict) {
  std::string text;
  for (const auto& [key, value] : dict) {
    bool is_bare = !key.empty();
    for (const char c : key) is_bare = is_bare && detail::is_key_char(c);
    text += (is_bare ? key : detail::quoted(key)) + " = ";
    if (const auto* real = std::get_if<double>(&value)) {
      text += detail::exact_text(*real);
    } else if (const auto* words = std::get_if<std::string>(&value)) {
      text += detail::quoted(*words);
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      text += *flag ? "true" : "false";
    } else {
      text += std::to_string(std::get<std::int64_t>(value));
    }
    text += '\n';
  }
  return text;
}

/// The state that `text` is of. Empty lines and what follows a '#' outside quotes are left out; a number without point and
/// exponent is a whole one. Throws std::invalid_argument naming the line and what is wrong with it.
[[nodiscard]] inline StateDict from_text(std::string_view text) { return detail::TextReader(text).read(); }

}  // namespace HEADROOM_BUILD
}  // namespace headroom
