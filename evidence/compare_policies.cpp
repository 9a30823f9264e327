// Which loss scale suits a training? Takes every policy through recorded gradients (of handwritten
// digits in float), made-up ones, and your own. Counts for each policy how many steps it would have
// skipped in fp16, and how much of fp16's range it would have left unused.
//
//   compare_policies [data.csv [output directory [epochs [trace.csv …]]]]
//
// A trace of your own is a CSV file with a column max_abs: the largest |gradient| of each step.
// Record it in a short training in float, for example with headroom::History::csv(). Prints tables.
// Writes policies.csv, and policies_<trace>.csv with the scales of each step; plots.gp
// draws both.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <headroom/observe/simulate.hpp>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../examples/digits/data.hpp"
#include "../examples/digits/random.hpp"
#include "../examples/digits/training.hpp"
#include "compare_policies/rules.hpp"
#include "compare_policies/trace.hpp"

namespace {

using compare_policies::Trace;

constexpr double largest_half = 65504.0;

/// AmaxLossScale with other target_skip_rates than the default: a lower one skips fewer steps and
/// wastes more bits.
constexpr std::pair<const char*, double> amax_targets[] = {
    {"amax 0.001 %", 1e-5}, {"amax 0.01 %", 1e-4}, {"amax 0.1 %", 1e-3}, {"amax 1 %", 1e-2}};

struct Policy {
  std::string name;
  headroom::AnyLossScale policy;
};

/// A simple rule to compare AmaxLossScale with: one bit of room above the largest of the last 64
/// finite steps. It does not learn from overflows, so it skips every large step that comes less
/// often than every 64 steps.
class LargestOf64 {
 public:
  [[nodiscard]] float loss_scale() const noexcept { return scale_; }
  [[nodiscard]] LargestOf64 adjust(bool finite) const noexcept {
    LargestOf64 next = *this;
    if (!finite) next.scale_ = std::max(1.0F, scale_ / 256.0F);
    return next;
  }
  [[nodiscard]] LargestOf64 adjust(const headroom::GradientReport& report) const noexcept {
    LargestOf64 next = adjust(report.finite);
    if (!report.finite || !(report.max_abs > 0.0)) return next;
    next.recent_[next.steps_++ % 64] = static_cast<std::int16_t>(std::ilogb(report.max_abs));
    const auto end = std::begin(next.recent_) + std::min(next.steps_, 64U);
    const float scale = std::exp2(14.0F - *std::max_element(std::begin(next.recent_), end));
    next.scale_ = std::min(std::max(scale, 1.0F), 0x1p126F);
    return next;
  }

 private:
  float scale_ = 32768.0F;
  unsigned steps_ = 0;
  std::int16_t recent_[64] = {};  // exponents; the scale leaves one to two bits below 2^16
};

/// All that adapt by their names, two that tolerate a share of overflows, the rules of rules.hpp,
/// the simple rule, and AmaxLossScale with other targets.
std::vector<Policy> make_policies() {
  std::vector<Policy> policies;
  for (const std::string& name : headroom::loss_scale_names()) {
    if (name == "constant") continue;
    headroom::AnyLossScale policy = headroom::make_loss_scale(name);
    if (policy.has_config()) policies.push_back({name, policy});
  }
  policies.push_back({"cerebras 10 %", headroom::make_loss_scale("cerebras_cbfloat16",
                                                                 {{"overflow_tolerance", 0.1}})});
  policies.push_back(
      {"fairseq 5 %", headroom::make_loss_scale("fairseq", {{"overflow_tolerance", 0.05}})});
  policies.push_back(
      {"log_max", compare_policies::LogMaxLossScale({1.0F, 2000, 2.0, 0.5, 1.0F, 0x1p24F})});
  policies.push_back({"histogram", compare_policies::HistogramLossScale()});
  policies.push_back({"largest of 64", LargestOf64()});
  for (const auto& [name, target] : amax_targets) {
    policies.push_back({name, headroom::make_loss_scale("amax", {{"target_skip_rate", target}})});
  }
  return policies;
}

/// Trains the digits in float, in which no step overflows, with 25 small batches an epoch.
Trace record(const std::string& data, int epochs, std::uint32_t seed, const std::string& name) {
  digits::Settings settings;
  settings.seed = seed;
  settings.batch = 56;
  settings.peak_rate = 0.005F;
  settings.epochs = epochs;
  const digits::Images images = digits::read_images(data);
  if (images.size() <= settings.training_images)
    throw std::runtime_error(data + ": more than 1400 images are needed");
  auto result = digits::train<float>("float", headroom::NoOpLossScale(), images, settings, [] {});
  return {name, "recorded from a training on handwritten digits, seed " + std::to_string(seed),
          std::move(result.max_abs)};
}

/// Gradients that fall by a factor of 16 over the training, with noise from batch to batch.
std::vector<double> calm(digits::Random& random, int steps) {
  std::vector<double> max_abs;
  for (int step = 0; step < steps; ++step) {
    const double trend = -8.0 - 4.0 * step / steps;
    max_abs.push_back(std::exp2(trend + 0.35 * static_cast<double>(random.normal())));
  }
  return max_abs;
}

std::vector<Trace> make_up(int steps) {
  digits::Random random(1);
  std::vector<Trace> traces = {
      {"calm", "slowly falling, as in a training that goes well", calm(random, steps)},
      {"shift", "1000 times smaller from one step to the next, and back", calm(random, steps)},
      {"spikes", "one step in 300 is 100 times larger", calm(random, steps)},
      {"burst", "30 steps in a row 200 times larger, every 3000 steps", calm(random, steps)}};
  for (int step = 0; step < steps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    if (step > steps / 4 && step < 3 * steps / 4) traces[1].max_abs[i] /= 1000.0;
    if (random.uniform() < 1.0 / 300.0) traces[2].max_abs[i] *= 100.0;
    if (step % 3000 >= 2970) traces[3].max_abs[i] *= 200.0;
  }
  return traces;
}

/// Traces with larger changes than those of make_up.
std::vector<Trace> make_up_others(int steps) {
  digits::Random random(2);
  std::vector<Trace> traces = {
      {"drift", "growing by a factor of 4096 over the training", {}},
      {"walk", "a random walk by a tenth of a power of two a step", {}},
      {"cycles",
       "rising and falling by a factor of 64 with the learning rate, every 10,000 steps",
       {}},
      {"tails", "noise with Student's t distribution with 3 degrees of freedom", {}},
      {"bad", "calm, but one step in 200 is not finite, whatever the scale", {}}};
  double walk = -8.0;
  for (int step = 0; step < steps; ++step) {
    const auto normal = [&random] { return static_cast<double>(random.normal()); };
    walk = std::min(std::max(walk + 0.1 * normal(), -30.0), 5.0);
    traces[0].max_abs.push_back(std::exp2(-20.0 + 12.0 * step / steps + 0.35 * normal()));
    traces[1].max_abs.push_back(std::exp2(walk + 0.2 * normal()));
    traces[2].max_abs.push_back(
        std::exp2(-10.0 + 3.0 * std::cos(6.283185307179586 * step / 10000.0) + 0.35 * normal()));
    double squares = 0.0;
    for (int i = 0; i < 3; ++i) squares += std::pow(normal(), 2);
    traces[3].max_abs.push_back(std::exp2(-10.0 + 0.35 * normal() / std::sqrt(squares / 3.0)));
    const double calm = std::exp2(-8.0 - 4.0 * step / steps + 0.35 * normal());
    traces[4].max_abs.push_back(
        random.uniform() < 1.0 / 200.0 ? std::numeric_limits<double>::infinity() : calm);
  }
  return traces;
}

double percent(std::size_t part, std::size_t all) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(all);
}

std::ofstream create(const std::filesystem::path& file) {
  std::ofstream out(file);
  if (!out) throw std::runtime_error(file.string() + ": cannot be written");
  return out;
}

bool is_in_summary(const Trace& trace) {
  for (const char* name : {"digits", "calm", "spikes", "drift", "tails"}) {
    if (trace.name == name) return true;
  }
  return false;
}

/// Takes all policies through one trace. Prints a table, adds a row to `summary` for each policy,
/// and writes the scales of each step to policies_<trace>.csv. Returns the simulations.
std::vector<headroom::GradientSimulation> compare(const Trace& trace,
                                                  const std::vector<Policy>& policies,
                                                  const std::filesystem::path& output,
                                                  std::ofstream& summary) {
  std::printf("\n%s: %s, %zu steps\n", trace.name.c_str(), trace.description.c_str(),
              trace.max_abs.size());
  std::printf("  %-28s %8s %14s %12s %12s\n", "", "skipped", "below best", "bits wasted",
              "last scale");
  std::ofstream csv = create(output / ("policies_" + trace.name + ".csv"));
  csv << "step,best";
  std::vector<headroom::GradientSimulation> simulations;
  for (const auto& [name, policy] : policies) {
    simulations.push_back(headroom::simulate(policy, trace.max_abs));
    const headroom::GradientSimulation& found = simulations.back();
    std::printf("  %-28s %8zu %12.1f %% %12.2f %12.6g\n", name.c_str(), found.skipped,
                percent(found.below_best, found.steps), found.wasted_bits,
                static_cast<double>(found.final_scale));
    summary << trace.name << ",\"" << name << "\"," << percent(found.skipped, found.steps) << ','
            << found.wasted_bits << '\n';
    csv << ",\"" << name << '"';
  }
  csv << '\n';
  const std::size_t stride = trace.max_abs.size() / 2000 + 1;  // a picture cannot show more rows
  for (std::size_t step = 0; step < trace.max_abs.size(); step += stride) {
    csv << step << ',' << largest_half / trace.max_abs[step];
    for (const auto& found : simulations) csv << ',' << found.scales[step];
    csv << '\n';
  }
  return simulations;
}

/// Prints a table of six policies on five traces. `results` has a row per trace.
void print_summary(const std::vector<Trace>& traces, const std::vector<Policy>& policies,
                   const std::vector<std::vector<headroom::GradientSimulation>>& results) {
  std::printf("\n%-16s", "skipped, bits wasted");
  for (const Trace& trace : traces) {
    if (is_in_summary(trace)) std::printf(" %14s", trace.name.c_str());
  }
  for (const char* name : {"dynamic", "torch", "hysteresis", "megatron", "amax", "largest of 64"}) {
    std::printf("\n%-20s", name);
    for (std::size_t i = 0; i < traces.size(); ++i) {
      for (std::size_t k = 0; k < policies.size(); ++k) {
        if (!is_in_summary(traces[i]) || policies[k].name != name) continue;
        std::printf(" %8zu %5.2f", results[i][k].skipped, results[i][k].wasted_bits);
      }
    }
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string data = argc > 1 ? argv[1] : "examples/data/digits.csv";
    const std::filesystem::path output = argc > 2 ? argv[2] : "build/evidence";
    const int epochs =
        argc > 3 ? digits::parse_number(argv[3], 100000, "epochs, argument", 3) : 400;
    if (epochs < 1) throw std::runtime_error("epochs, argument 3: at least 1 is needed");
    std::filesystem::create_directories(output);
    std::ofstream summary = create(output / "policies.csv");
    summary << "trace,policy,skipped,wasted\n";

    std::printf("Recording the gradients of %d epochs of handwritten digits.\n", epochs);
    std::fflush(stdout);
    // With the second seed one batch of each epoch has far larger gradients than all others.
    std::vector<Trace> traces = {record(data, epochs, 8, "digits"),
                                 record(data, epochs, 1, "digits_1")};
    for (int i = 4; i < argc; ++i) traces.push_back(compare_policies::read_trace(argv[i]));
    const int steps = std::min(100000, 250 * epochs);
    for (Trace& trace : make_up(steps)) traces.push_back(std::move(trace));
    for (Trace& trace : make_up_others(steps)) traces.push_back(std::move(trace));
    const std::vector<Policy> policies = make_policies();
    std::vector<std::vector<headroom::GradientSimulation>> results;
    for (const Trace& trace : traces) results.push_back(compare(trace, policies, output, summary));
    print_summary(traces, policies, results);

    std::printf(
        "\nBelow best: steps that fp16 would have taken with twice the scale. Bits wasted: how "
        "often it could have been doubled,\n"
        "mean over the steps that were not skipped.\n");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compare_policies: %s\n", error.what());
    return 1;
  }
}
