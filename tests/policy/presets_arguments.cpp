// What a bad argument of a preset is told: the argument as the preset's declaration spells it, and the value that was given.
// The arguments and their defaults are read from the declarations, so none can be left out.
#include <headroom/policy/make_loss_scale.hpp>
#include <headroom/policy/presets.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bits.hpp"
#include "support/catch.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"

using headroom::AnyLossScale;
using support::message_of;
namespace presets = headroom::presets;

namespace {

struct Value {
  double real = 0.0;
  std::int64_t whole = 0;
};
struct Argument {
  std::string name;
  Value usual;
};

std::string last_word(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text.substr(text.find_last_of(" \n&") + 1);
}
Argument parsed(const std::string& declaration) {  // "const double& scale = 0x1p16"
  const std::size_t equals = declaration.find('=');
  const std::string usual = last_word(declaration.substr(equals));
  return {last_word(declaration.substr(0, equals)), {std::strtod(usual.c_str(), nullptr), std::atoll(usual.c_str())}};
}

/// Of each function in the namespace presets.
std::map<std::string, std::vector<Argument>> declared_presets() {
  std::map<std::string, std::vector<Argument>> found;
  for (const auto& file :
       std::filesystem::directory_iterator(HEADROOM_TEST_DATA_DIR "/../../include/headroom/policy/systems")) {
    std::ifstream stream(file.path());
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    std::size_t at = text.find("namespace presets {");
    text.erase(std::min(text.find("}  // namespace presets"), text.size()));
    while (at < text.size() && (at = text.find("[[nodiscard]]", at)) != std::string::npos) {
      const std::size_t open = text.find('(', at), close = text.find(')', open);
      std::vector<Argument>& arguments = found[last_word(text.substr(at, open - at))];
      for (at = open; at != close;) {
        const std::size_t end = std::min(text.find(',', at + 1), close);
        arguments.push_back(parsed(text.substr(at + 1, end - at - 1)));
        at = end;
      }
    }
  }
  return found;
}

double real_of(std::uint64_t bits) {
  double value = 0.0;
  support::set_bits(value, bits);
  return value;
}

/// What an argument of the type may be nowhere.
template <class T>
std::vector<Value> bad_values() {
  if constexpr (std::is_same_v<T, double>) {
    using headroom::binary64;
    return {{-1e300},
            {-1.0},
            {-0.1},
            {real_of(binary64::quiet_nan_bits)},
            {real_of(binary64::infinity_bits)},
            {real_of(binary64::infinity_bits | binary64::sign_mask)}};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {};
  } else {
    return {{0.0, -1000}, {0.0, std::numeric_limits<T>::min()}};
  }
}
/// What it may be in some places.
template <class T>
std::vector<Value> odd_values() {
  if constexpr (std::is_same_v<T, double>) {
    return {{0.0}, {1e-300}, {1e-40}, {0.001}, {0.1},  {0.5},  {0.99999999}, {1.0},   {1.00000001}, {1.1},
            {3.0}, {100.1},  {1e4},   {1e6},   {1e12}, {1e38}, {2e38},       {1e300}, {1.7e308}};
  } else if constexpr (std::is_same_v<T, bool>) {
    return {{0.0, 0}, {0.0, 1}};
  } else {
    return {{0.0, -1}, {0.0, 0}, {0.0, 1}, {0.0, 7}, {0.0, 5000}, {0.0, std::numeric_limits<T>::max()}};
  }
}

/// A preset, whatever the types of its arguments.
struct Preset {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<bool> is_real;
  std::vector<std::vector<Value>> bad, odd;  // values for each argument
  std::function<AnyLossScale(const std::vector<Value>&)> make;

  [[nodiscard]] std::string text(std::size_t i, const Value& value) const {
    return is_real[i] ? headroom::detail::to_text(value.real) : std::to_string(value.whole);
  }
};

template <class Arg>
const Arg& as(const Value& value, Arg& converted) {
  if constexpr (std::is_same_v<Arg, double>) {
    return value.real;
  } else {
    return converted = static_cast<Arg>(value.whole);
  }
}
template <class Policy, class... Args, std::size_t... i>
auto make_with(Policy (*preset)(Args...), std::index_sequence<i...>) {
  return [preset](const std::vector<Value>& values) {
    std::tuple<std::decay_t<Args>...> converted;
    return AnyLossScale(preset(as(values.at(i), std::get<i>(converted))...));
  };
}
template <class Policy, class... Args>
Preset preset_of(const std::string& name, Policy (*preset)(Args...)) {
  static const auto declared = declared_presets();
  const std::vector<Argument>& arguments = declared.at(name);
  REQUIRE(arguments.size() == sizeof...(Args));
  return {name,
          arguments,
          {std::is_same_v<std::decay_t<Args>, double>...},
          {bad_values<std::decay_t<Args>>()...},
          {odd_values<std::decay_t<Args>>()...},
          make_with(preset, std::index_sequence_for<Args...>())};
}

std::vector<Preset> all_presets() {
  std::vector<Preset> all = {
      preset_of("apex", presets::apex),
      preset_of("cerebras_cbfloat16", presets::cerebras_cbfloat16),
      preset_of("cerebras_fp16", presets::cerebras_fp16),
      preset_of("chainer", presets::chainer),
      preset_of("deepspeed", presets::deepspeed),
      preset_of("deepspeed_0_16", presets::deepspeed_0_16),
      preset_of("deepspeed_config", presets::deepspeed_config),
      preset_of("eformer", presets::eformer),
      preset_of("emily", presets::emily),
      preset_of("fairseq", presets::fairseq),
      preset_of("flax", presets::flax),
      preset_of("jmp", presets::jmp),
      preset_of("keras", presets::keras),
      preset_of("marian", presets::marian),
      preset_of("megatron", presets::megatron),
      preset_of("metaseq", presets::metaseq),
      preset_of("mindformers_adaptive", presets::mindformers_adaptive),
      preset_of("nntrainer", presets::nntrainer),
      preset_of("onnxruntime", presets::onnxruntime),
      preset_of("openseq2seq_backoff", presets::openseq2seq_backoff),
      preset_of("paddle", presets::paddle),
      preset_of("paddle_2_4", presets::paddle_2_4),
      preset_of("torch", presets::torch),
  };
  return all;
}

std::vector<Value> usual_values(const Preset& preset) {
  std::vector<Value> values;
  for (const Argument& argument : preset.arguments) values.push_back(argument.usual);
  return values;
}

/// Which arguments of the preset an error is about; throws if it is no error of theirs, or not about these values.
std::set<std::size_t> blamed(const Preset& preset, const std::vector<Value>& values, const std::string& message) {
  std::map<std::string, std::size_t> known;  // "scale is 3": which argument that is
  const bool is_cerebras = preset.name.find("cerebras") == 0;
  const Value largest = {preset.name == "cerebras_fp16" ? 0x1p15 : 0x1p31};
  for (std::size_t i = 0; i < values.size(); ++i) {
    Value value = values[i];
    const std::string& name = preset.arguments[i].name;
    // It is told what its 0 stands for. By its text, for under -ffast-math NaN is 0, too.
    if (is_cerebras && preset.is_real[i] && (preset.text(i, value) == "0" || preset.text(i, value) == "-0"))
      value = name == "min_loss_scale" ? Value{0x1p-14} : largest;
    known[name + " is " + preset.text(i, value)] = i;
    known[name + ", which is " + preset.text(i, value)] = i;
  }
  const std::size_t start = std::string("headroom: ").size();
  const std::size_t must = message.find("; it must be "), above = message.find(", above ");
  if (must != std::string::npos) return {known.at(message.substr(start, must - start))};
  return {known.at(message.substr(start, above - start)), known.at(message.substr(above + 8))};
}

/// What is in front of anything else in a cell of the documentation: "2000, 4000, …", "2³²", "**1001, …", "10⁻⁴"; or else
/// `otherwise`.
double number_of(std::string cell, double otherwise) {
  cell.erase(0, cell.find_first_not_of("* "));
  std::size_t length = 0;
  const double base = std::isdigit(static_cast<unsigned char>(cell[0])) != 0 ? std::stod(cell, &length) : otherwise;
  int sign = 1, exponent = 0;
  for (bool is_superscript = true; is_superscript;) {
    static const std::vector<std::string> superscripts = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹", "⁻"};
    is_superscript = false;
    for (std::size_t digit = 0; digit < superscripts.size(); ++digit) {
      if (cell.compare(length, superscripts[digit].size(), superscripts[digit]) != 0) continue;
      is_superscript = true;
      length += superscripts[digit].size();
      digit < 10 ? void(exponent = 10 * exponent + static_cast<int>(digit)) : void(sign = -1);
    }
  }
  return exponent == 0 ? base : std::pow(base, sign * exponent);
}

/// The rows of the table in docs/systems.md: by preset, the other cells.
std::map<std::string, std::vector<std::string>> documented_presets() {
  std::map<std::string, std::vector<std::string>> found;
  std::ifstream stream(HEADROOM_TEST_DATA_DIR "/../../docs/systems.md");
  for (std::string line; std::getline(stream, line) && line.find("**A clean step**") != 0;) {
    if (line.find("| `") != 0) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 1, end = 0; (end = line.find('|', at)) != std::string::npos; at = end + 1)
      cells.push_back(line.substr(at + 1, end - at - 2));
    found[cells.at(0).substr(1, cells[0].size() - 2)] = cells;
  }
  return found;
}

/// How many of these steps change the scale.
int steps_to_change(AnyLossScale& policy, bool finite) {
  const float before = policy.loss_scale();
  int steps = 0;
  for (; policy.loss_scale() == before && steps < 3000; ++steps) policy = policy.adjust(finite);
  return steps;
}

/// Whether 0 means something: no floor, no tolerance, a default.
bool may_be_0(const Preset& preset, const std::string& argument) {
  static const std::set<std::string> floors_and_tolerances = {"min_scale",     "min_loss_scale",     "minimum",
                                                              "minimum_scale", "scale_min",          "threshold",
                                                              "tolerance",     "overflow_tolerance", "initial_scale_power"};
  return floors_and_tolerances.count(argument) != 0 || preset.name.find("cerebras") == 0 ||
         (preset.name == "flax" && argument == "growth_interval");
}

}  // namespace

TEST_CASE("every preset that is declared is gone through, with its arguments and defaults") {
  std::set<std::string> names;
  for (const auto& [name, arguments] : declared_presets()) names.insert(name);
  for (const Preset& preset : all_presets()) {
    INFO(preset.name);
    CHECK(preset.make(usual_values(preset)) == headroom::make_loss_scale(preset.name));
    CHECK(names.erase(preset.name) == 1);
  }
  CHECK(names.empty());
}

TEST_CASE("the defaults of every preset are those of its row in docs/systems.md") {
  const auto documented = documented_presets();
  CHECK(documented.size() == all_presets().size());
  const std::map<std::string, double> ceilings = {{"cerebras_fp16", 0x1p15},
                                                  {"cerebras_cbfloat16", 0x1p31},
                                                  {"chainer", 65504.0},
                                                  {"onnxruntime", 0x1p24},
                                                  {"openseq2seq_backoff", 0x1p14}};
  for (const Preset& preset : all_presets()) {
    INFO(preset.name);
    const std::vector<std::string>& row = documented.at(preset.name);
    AnyLossScale policy = headroom::make_loss_scale(preset.name);
    const auto ceiling = ceilings.find(preset.name);
    CHECK(policy.state_dict().at("max_scale") == headroom::StateValue(ceiling != ceilings.end() ? ceiling->second : 0x1p126));
    const float start = policy.loss_scale();
    CHECK(start == static_cast<float>(number_of(row.at(2), 0.0)));

    int interval = steps_to_change(policy, true);
    const bool starts_at_its_ceiling = policy.loss_scale() == start;
    if (!starts_at_its_ceiling) CHECK(policy.loss_scale() == 2.0F * start);
    const float before = policy.loss_scale();
    CHECK(steps_to_change(policy, false) == static_cast<int>(number_of(row.at(6), 1.0)));  // the hysteresis
    CHECK(policy.loss_scale() == before / 2.0F);
    if (starts_at_its_ceiling) interval = steps_to_change(policy, true);
    CHECK(interval == static_cast<int>(number_of(row.at(3), 1.0)));

    while (steps_to_change(policy, false) < 3000) continue;
    CHECK(policy.loss_scale() == static_cast<float>(number_of(row.at(5), 0x1p-126)));
  }
}

TEST_CASE("a bad argument of a preset is named as it is declared, with the value that was given") {
  for (const Preset& preset : all_presets()) {
    for (std::size_t i = 0; i < preset.arguments.size(); ++i) {
      const std::size_t n_bad = preset.bad[i].size();
      for (std::size_t k = 0; k < n_bad + preset.odd[i].size(); ++k) {
        std::vector<Value> values = usual_values(preset);
        values[i] = k < n_bad ? preset.bad[i][k] : preset.odd[i][k - n_bad];
        const std::string message = message_of([&] { (void)preset.make(values); });
        INFO(preset.name << "(…, " << preset.arguments[i].name << " = " << preset.text(i, values[i]) << ", …): " << message);
        const bool is_0 = k == n_bad && preset.is_real[i];
        if (k < n_bad || (is_0 && !may_be_0(preset, preset.arguments[i].name))) CHECK(message != "");
        if (!message.empty()) CHECK(blamed(preset, values, message).count(i) == 1);
      }
    }
  }
}

TEST_CASE("what an argument must be includes 0 exactly where 0 is taken") {
  const auto takes_0 = [](const std::string& expected) {
    return expected.find("0 or ") == 0 || expected.find("in [0, ") == 0 || expected.find("at least 0") == 0 ||
           expected.find("in [-") == 0;
  };
  int number = 0;
  for (const Preset& preset : all_presets()) {
    for (std::size_t i = 0; i < preset.arguments.size(); ++i) {
      std::vector<Value> values = usual_values(preset);
      values[i] = {0.0, 0};
      const std::string of_0 = message_of([&] { (void)preset.make(values); });
      if (of_0.find(", above ") != std::string::npos) continue;  // of another argument, though there may be a 0
      values[i] = {-0.0, 0};
      INFO(preset.name << "(…, " << preset.arguments[i].name << ", …), 0: " << of_0);
      CHECK(message_of([&] { (void)preset.make(values); }).empty() == of_0.empty());
      for (const Value& bad : preset.bad[i]) {
        values[i] = bad;
        const std::string message = message_of([&] { (void)preset.make(values); });
        const std::string before = "; it must be ";
        INFO(message);
        REQUIRE(message.find(before) != std::string::npos);
        CHECK(takes_0(message.substr(message.find(before) + before.size())) == of_0.empty());
        ++number;
      }
    }
  }
  CHECK(number > 300);
}

TEST_CASE("whatever arguments a preset refuses, it says so of those that were given") {
  std::mt19937 random(support::seed);
  for (const Preset& preset : all_presets()) {
    for (int run = 0; run < support::cases(400); ++run) {
      std::vector<Value> values = usual_values(preset);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (random() % 2 == 0) values[i] = preset.odd[i][random() % preset.odd[i].size()];
      }
      const std::string message = message_of([&] { (void)preset.make(values); });
      INFO(preset.name << ": " << message);
      if (!message.empty()) CHECK(!blamed(preset, values, message).empty());
    }
  }
}
