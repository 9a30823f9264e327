// Which loss scale suits a training? Takes every policy through the recorded gradients of
// handwritten digits, of courses/ and your own, all in float. Counts for each policy how many steps
// it would have skipped in fp16, and how much of fp16's range it would have left unused.
//
//   compare_policies [data.csv [output directory [epochs [trace.csv …]]]]
//
// A trace of your own is a CSV file with a column max_abs: the largest |gradient| of each step.
// Record it in a short training in float, for example with headroom::History::csv(). Prints tables.
// Writes policies.csv for plots.gp.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <headroom/observe/simulate.hpp>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../examples/digits/data.hpp"
#include "../examples/digits/training.hpp"
#include "compare_policies/rules.hpp"
#include "compare_policies/trace.hpp"

namespace {

using compare_policies::Trace;

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

/// DynamicLossScale that grows after a fortieth of the steps, all that adapt by their names, two
/// that tolerate a share of overflows, the rules of rules.hpp, the simple rule, and AmaxLossScale
/// with other targets.
std::vector<Policy> make_policies(std::size_t steps) {
  std::vector<Policy> policies = {
      {"dynamic/40",
       headroom::make_loss_scale(
           "dynamic", {{"growth_interval",
                        std::max<std::int64_t>(1, static_cast<std::int64_t>(steps) / 40)}})}};
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

double percent(std::size_t part, std::size_t all) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(all);
}

std::ofstream create(const std::filesystem::path& file) {
  std::ofstream out(file);
  if (!out) throw std::runtime_error(file.string() + ": cannot be written");
  return out;
}

double noise_of(const Trace& trace) {
  return headroom::simulate(headroom::NoOpLossScale(), trace.max_abs).noise;
}

/// Takes all policies through one trace. Prints a table, and adds a row to `summary` for each
/// policy. Returns the simulations.
std::vector<headroom::GradientSimulation> compare(const Trace& trace,
                                                  const std::vector<Policy>& policies,
                                                  std::ofstream& summary) {
  std::printf("\n%s: %s, %zu steps, noise of %.2f bits\n", trace.name.c_str(),
              trace.description.c_str(), trace.max_abs.size(), noise_of(trace));
  std::printf("  %-28s %8s %14s %12s %12s\n", "", "skipped", "below best", "bits wasted",
              "last scale");
  std::vector<headroom::GradientSimulation> simulations;
  for (const auto& [name, policy] : policies) {
    simulations.push_back(headroom::simulate(policy, trace.max_abs));
    const headroom::GradientSimulation& found = simulations.back();
    std::printf("  %-28s %8zu %12.1f %% %12.2f %12.6g\n", name.c_str(), found.skipped,
                percent(found.below_best, found.steps), found.wasted_bits,
                static_cast<double>(found.final_scale));
    summary << trace.name << ",\"" << name << "\"," << percent(found.skipped, found.steps) << ','
            << found.wasted_bits << '\n';
  }
  return simulations;
}

/// Prints a table of seven policies on all traces. `results` has a row per trace.
void print_summary(const std::vector<Trace>& traces, const std::vector<Policy>& policies,
                   const std::vector<std::vector<headroom::GradientSimulation>>& results) {
  std::printf("\n%-20s", "skipped, bits wasted");
  for (const Trace& trace : traces) std::printf(" %12s", trace.name.c_str());
  std::printf("\n%-20s", "steps, noise in bits");
  for (const Trace& trace : traces)
    std::printf(" %6zu %5.2f", trace.max_abs.size(), noise_of(trace));
  for (const char* name :
       {"dynamic", "dynamic/40", "torch", "hysteresis", "megatron", "amax", "largest of 64"}) {
    std::printf("\n%-20s", name);
    for (const auto& of_trace : results) {
      for (std::size_t k = 0; k < policies.size(); ++k) {
        if (policies[k].name == name)
          std::printf(" %6zu %5.2f", of_trace[k].skipped, of_trace[k].wasted_bits);
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
    std::vector<Trace> traces = {record(data, epochs, 8, "digits")};
    const auto courses = std::filesystem::path(__FILE__).parent_path() / "courses";
    for (const char* name : {"gpt", "reinforce", "lstm", "mlp_b4", "cnn", "cnn_b8"})
      traces.push_back(compare_policies::read_trace(courses / (std::string(name) + ".csv")));
    for (int i = 4; i < argc; ++i) traces.push_back(compare_policies::read_trace(argv[i]));
    std::vector<std::vector<headroom::GradientSimulation>> results;
    for (const Trace& trace : traces)
      results.push_back(compare(trace, make_policies(trace.max_abs.size()), summary));
    print_summary(traces, make_policies(1), results);

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
