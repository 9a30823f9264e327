// What loss scaling is worth, and what mistakes cost: trains handwritten digits, a GPT and a
// recurrent network in float, bf16 and fp16 under several policies; the digits and the GPT with
// constant scales; the digits from bad initial scales, and with mistakes that other systems had.
// The constants have three seeds, the GPT one; the others ten.
//
//   networks [digits.csv [output directory [seeds [steps]]]]
//   networks --record <steps>
//
// With `steps` the networks are tiny and are trained for at most that many steps, as a test. Prints
// tables. Writes evidence_runs.csv with a row per training, evidence_differences.csv and
// evidence_constants.csv for plots.gp, and for the first seed
// steps_<network>_<steps>_<variant>.csv.
// `--record` prints the largest gradient of each step of one training in float, as CSV for
// compare_policies.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <headroom/policy/any.hpp>

#include "../examples/digits/progress.hpp"
#include "networks/faults.hpp"
#include "networks/runs.hpp"
#include "networks/statistics.hpp"

namespace {

using evidence::Adding;
using evidence::Digits;
using evidence::Key;
using evidence::Language;
using evidence::Result;
using evidence::Run;
using evidence::Runs;

enum class Format { float32, bf16, fp16 };

struct Policy {
  std::string name;
  Format format = Format::fp16;
  headroom::AnyLossScale loss_scale;
};

/// All have their defaults. The others are compared with the first.
std::vector<Policy> all_policies() {
  return {{"float", Format::float32, headroom::NoOpLossScale()},
          {"bf16 unscaled", Format::bf16, headroom::NoOpLossScale()},
          {"fp16 unscaled", Format::fp16, headroom::NoOpLossScale()},
          {"constant 2^16", Format::fp16, headroom::ConstantLossScale(0x1p16F)},
          {"dynamic", Format::fp16, headroom::make_loss_scale("dynamic")},
          {"hysteresis", Format::fp16, headroom::make_loss_scale("hysteresis")},
          {"amax", Format::fp16, headroom::make_loss_scale("amax")}};
}
/// Those of the GPT, whose trainings take a minute each, and of the recurrent network with other
/// seeds.
std::vector<Policy> few_policies() {
  std::vector<Policy> few;
  for (const Policy& policy : all_policies()) {
    if (policy.name != "constant 2^16" && policy.name != "hysteresis" && policy.name != "amax")
      few.push_back(policy);
  }
  return few;
}

/// Constant scales of 2 to these powers, so that the edges of fp16 show.
constexpr int lowest_constant = -16, highest_constant = 28;
std::string constant_name(int exponent) { return "constant 2^" + std::to_string(exponent); }
std::vector<Policy> constants(int step) {
  std::vector<Policy> policies;
  for (int exponent = lowest_constant; exponent <= highest_constant; exponent += step)
    policies.push_back({constant_name(exponent), Format::fp16,
                        headroom::ConstantLossScale(std::ldexp(1.0F, exponent))});
  return policies;
}

/// Policies from good and bad initial scales. One grows after a fortieth of the steps.
constexpr int initial_exponents[] = {0, 15, 40};
constexpr const char* adaptive[] = {"dynamic", "dynamic/40", "amax", "hysteresis"};
std::string started_name(const std::string& policy, int exponent) {
  return policy + " from 2^" + std::to_string(exponent);
}
std::vector<Policy> started_badly(int steps) {
  std::vector<Policy> policies = {{"float", Format::float32, headroom::NoOpLossScale()}};
  for (const std::string name : adaptive) {
    for (const int exponent : initial_exponents) {
      headroom::StateDict settings = {{"initial_scale", std::ldexp(1.0, exponent)}};
      if (name == adaptive[1]) settings.set("growth_interval", std::max(1, steps / 40));
      policies.push_back({started_name(name, exponent), Format::fp16,
                          headroom::make_loss_scale(name.substr(0, name.find('/')), settings)});
    }
  }
  return policies;
}

/// The variant that those with faults are compared with. The scale of all of them grows after 20
/// finite steps, so that some steps overflow.
constexpr const char* right_step = "right step";
headroom::AnyLossScale right_policy() {
  return headroom::make_loss_scale("dynamic", {{"growth_interval", 20}});
}

struct Seeds {
  int first = 1, last = 1;
};

struct Settings {
  Digits::Settings digits;
  // Of the digits with faults, with constant scales and from bad initial scales, as in the README
  int short_steps = 800;
  Language::Settings language;
  Adding::Settings adding;
  int seeds = 10;
  [[nodiscard]] int few_seeds() const { return std::min(3, seeds); }
  /// Twice as many that no other training had
  [[nodiscard]] Seeds new_seeds() const { return {seeds + 1, 3 * seeds}; }

  /// Makes the networks tiny, and trains for at most `steps` steps.
  void shrink(int steps) {
    digits.hidden_layers = 2;
    digits.hidden_width = 8;
    digits.batch = 20;
    language.shape = {50, 8, 2, 1, 8};
    language.batch = language.test_sequences = language.schedule.micro_batches = 2;
    adding.width = 4;
    adding.length = 6;
    adding.batch = adding.test_examples = 10;
    for (evidence::Schedule* schedule : {&digits.schedule, &language.schedule, &adding.schedule}) {
      schedule->steps = std::min(schedule->steps, steps);
    }
    short_steps = std::min(short_steps, steps);
  }
};

struct Job {
  Key key;
  std::function<Result()> train;
};

template <class Network>
Result train_under(const Policy& policy, const Network& network) {
  const evidence::Step step(policy.loss_scale, network.schedule());
  const int lost_every = std::max(1, network.schedule().steps / 10);
  switch (policy.format) {
    case Format::float32:
      return evidence::train<float>(network, step, 0);
    case Format::bf16:
      return evidence::train<Eigen::bfloat16>(network, step, lost_every);
    case Format::fp16:
      break;
  }
  return evidence::train<Eigen::half>(network, step, lost_every);
}

/// `make(seed)` returns the network.
template <class Make>
void add_jobs(const std::string& name, const std::vector<Policy>& policies, const Make& make,
              Seeds seeds, std::vector<Job>& jobs) {
  for (int seed = seeds.first; seed <= seeds.last; ++seed) {
    const auto network = [make, seed] { return make(static_cast<std::uint32_t>(seed)); };
    for (const Policy& policy : policies) {
      jobs.push_back({{name, policy.name, seed, network().schedule().steps},
                      [=] { return train_under(policy, network()); }});
    }
  }
}

/// Trainings with the right step, and with each fault.
template <class Make>
void add_faults(const std::string& name, const Make& make, const evidence::Halves& halves,
                int seeds, std::vector<Job>& jobs) {
  for (int seed = 1; seed <= seeds; ++seed) {
    const auto network = [make, seed] { return make(static_cast<std::uint32_t>(seed)); };
    const int steps = network().schedule().steps;
    jobs.push_back({{name, right_step, seed, steps}, [network] {
                      return train_under({right_step, Format::fp16, right_policy()}, network());
                    }});
    for (const evidence::KnownFault& fault : evidence::known_faults()) {
      jobs.push_back({{name, fault.name, seed, steps}, [network, fault = fault.fault, halves] {
                        auto made = network();
                        const evidence::FaultyStep step(fault, right_policy(), made.schedule(),
                                                        halves);
                        return evidence::train<Eigen::half>(std::move(made), step, 0);
                      }});
    }
  }
}

/// Writes steps_<network>_<steps>_<variant>.csv: loss, scale and largest gradient of each step.
void write_steps(const std::filesystem::path& output, const Key& key, const Result& result) {
  std::string name =
      "steps_" + key.network + '_' + std::to_string(key.steps) + '_' + key.variant + ".csv";
  for (char& letter : name)
    if (letter == ' ' || letter == '/') letter = '_';
  std::ofstream csv = evidence::create(output / name);
  csv << "step,loss,scale,max_abs\n";
  for (std::size_t i = 0; i < result.losses.size(); ++i) {
    csv << i << ',' << result.losses[i] << ',' << result.scales[i] << ',' << result.max_abs[i]
        << '\n';
  }
}

/// Two at a time, seed by seed: the trainings differ in length, and this order moves the bar
/// evenly.
void run(std::vector<Job> jobs, const std::filesystem::path& output, Runs& runs) {
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const Job& a, const Job& b) { return a.key.seed < b.key.seed; });
  std::printf("%zu trainings.\n", jobs.size());
  std::fflush(stdout);
  digits::Progress progress(static_cast<int>(jobs.size()));
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < jobs.size(); i = next++) {
        const Result result = jobs[i].train();
        if (jobs[i].key.seed == 1) write_steps(output, jobs[i].key, result);
        runs.add(jobs[i].key, Run(result));
        progress.tick();
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      failure = std::current_exception();
      next = jobs.size();
    }
  };
  std::thread other(work);
  work();
  other.join();
  if (failure) std::rethrow_exception(failure);
}

/// Prints tables that compare variants of a training with the first one, and writes the differences
/// of each seed. A variant that this network was not trained with is left out.
class Table {
 public:
  Table(const Runs& runs, std::ofstream& csv, Seeds seeds)
      : runs_(runs), csv_(csv), seeds_(seeds) {}

  void print(const std::string& network, int steps, const std::string& kind,
             const std::vector<std::string>& variants, const std::string& quality) {
    std::printf("\n%s, %d steps, %d seeds: %s\n  %-28s %9s %11s %9s %9s %9s %9s %9s %9s\n",
                network.c_str(), steps, count(), quality.c_str(), "", "mean", "difference", "p",
                "diverged", "10 below", "skipped", "lost", "bits");
    std::vector<std::vector<Run>> all;
    std::vector<double> p;
    for (const std::string& variant : variants) {
      all.emplace_back();
      if (!runs_.has({network, variant, seeds_.last, steps})) continue;
      for (int seed = seeds_.first; seed <= seeds_.last; ++seed)
        all.back().push_back(runs_.at({network, variant, seed, steps}));
      if (all.size() > 1) p.push_back(evidence::wilcoxon(differences(all.back(), all.front())));
    }
    p = evidence::holm(p);
    auto next_p = p.begin();
    for (std::size_t i = 0; i < variants.size(); ++i) {
      if (rows_.size() <= i) rows_.push_back(text("  %-28s", variants[i].c_str()));
      if (all[i].empty()) {
        rows_[i] += "         -       -        -";
        continue;
      }
      const std::vector<double> difference = differences(all[i], all.front());
      std::string columns = "          -         -";
      if (i > 0) columns = text("%11.4f", evidence::median(difference)) + text(" %9.2g", *next_p);
      // Of the runs that counted it
      const auto mean = [&](const char* format, double Run::*member, double factor) {
        std::vector<double> values;
        for (const Run& run : all[i]) {
          if (!std::isnan(run.*member)) values.push_back(factor * run.*member);
        }
        return values.empty() ? std::string("-") : text(format, evidence::mean(values));
      };
      const auto diverged =
          std::count_if(all[i].begin(), all[i].end(), [](const Run& run) { return run.diverged; });
      std::printf(
          "  %-28s %9s %s %9d %9s %9s %9s %9s\n", variants[i].c_str(),
          mean("%.4f", &Run::quality, 1.0).c_str(), columns.c_str(), static_cast<int>(diverged),
          ten_below(network, difference).c_str(), mean("%.2f %%", &Run::skipped, 100.0).c_str(),
          mean("%.2f %%", &Run::lost, 100.0).c_str(), mean("%.2f", &Run::wasted, 1.0).c_str());
      if (i > 0) {
        rows_[i] += text(" %9.4f", evidence::median(difference)) + text(" %7.2g", *next_p++) +
                    mean(" %6.2f %%", &Run::skipped, 100.0);
      }
      for (std::size_t seed = 0; seed < difference.size(); ++seed) {
        csv_ << network << ',' << kind << ',' << i << ',' << variants[i] << ','
             << seeds_.first + static_cast<int>(seed) << ',' << difference[seed] << '\n';
      }
    }
  }

  /// Prints difference, p and skipped steps of the tables since the last summary, side by side.
  void summarise(const std::string& title, const std::vector<std::string>& columns) {
    std::printf("\n%s, %d seeds\n%-30s", title.c_str(), count(), "");
    for (const std::string& column : columns) std::printf(" %26s", column.c_str());
    std::printf("\n");
    // All but that compared with
    for (std::size_t i = 1; i < rows_.size(); ++i) std::printf("%s\n", rows_[i].c_str());
    rows_.clear();
  }

 private:
  template <class Value>
  static std::string text(const char* format, Value value) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, format, value);
    return buffer;
  }
  /// Counts the networks that are more than 10 points worse than that of the first row with the
  /// same seed.
  static std::string ten_below(const std::string& network, const std::vector<double>& differences) {
    if (network != "digits") return "-";
    return std::to_string(
        std::count_if(differences.begin(), differences.end(), [](double d) { return d < -10.0; }));
  }
  static std::vector<double> differences(const std::vector<Run>& runs,
                                         const std::vector<Run>& reference) {
    std::vector<double> differences;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const double a = runs[i].quality, b = reference[i].quality;
      differences.push_back(a == b ? 0.0 : a - b);  // both may be infinite
    }
    return differences;
  }

  [[nodiscard]] int count() const { return seeds_.last - seeds_.first + 1; }

  const Runs& runs_;
  std::ofstream& csv_;
  Seeds seeds_;
  std::vector<std::string> rows_;
};

/// Prints the quality at each constant scale and writes it, with the scales of the policies, for
/// plots.gp.
void print_constants(const Runs& runs, const Settings& settings,
                     const std::filesystem::path& output) {
  struct Column {
    std::string network;
    int steps, seeds;
  };
  const Column columns[] = {{"digits", settings.short_steps, settings.few_seeds()},
                            {"relu", settings.short_steps, settings.few_seeds()},
                            {"gpt", settings.language.schedule.steps, 1}};
  std::ofstream csv = evidence::create(output / "evidence_constants.csv");
  csv << "network,variant,low,high,quality\n";
  std::printf("\nconstant scales %22s %10s %10s\n", "digits, %", "ReLU, %", "gpt, nats");
  for (int exponent = lowest_constant; exponent <= highest_constant; exponent += 2) {
    std::printf("  %-28s", constant_name(exponent).c_str());
    for (const Column& column : columns) {
      const std::string variant = constant_name(exponent);
      if (!runs.has({column.network, variant, 1, column.steps})) {
        std::printf(" %10s", "-");
        continue;
      }
      std::vector<double> qualities;
      for (int seed = 1; seed <= column.seeds; ++seed)
        qualities.push_back(runs.at({column.network, variant, seed, column.steps}).quality);
      const double quality = evidence::mean(qualities);
      std::printf(" %10.2f", quality);
      csv << column.network << ",constant," << std::ldexp(1.0, exponent) << ",,"
          << (std::isfinite(quality) ? std::to_string(quality) : "") << '\n';
    }
    std::printf("\n");
  }
  for (const std::string name : adaptive) {
    double lowest = 0.0, highest = 0.0;
    for (int seed = 1; seed <= settings.few_seeds(); ++seed) {
      const Run& run = runs.at({"digits", started_name(name, 15), seed, settings.short_steps});
      lowest = seed == 1 ? run.lowest : std::min(lowest, run.lowest);
      highest = std::max(highest, run.highest);
    }
    csv << "digits," << name << ',' << lowest << ',' << highest << ",\n";
  }
}

void print_tables(const Runs& runs, const Settings& settings, const std::filesystem::path& output) {
  std::ofstream csv = evidence::create(output / "evidence_differences.csv");
  csv << "network,kind,number,variant,seed,difference\n";
  Table table(runs, csv, {1, settings.seeds});
  std::vector<std::string> names, few, faults = {right_step};
  for (const Policy& policy : all_policies()) names.push_back(policy.name);
  for (const Policy& policy : few_policies()) few.push_back(policy.name);
  for (const evidence::KnownFault& fault : evidence::known_faults()) faults.push_back(fault.name);
  const std::string accuracy = "digits recognised in the test set, %";
  table.print("digits", settings.digits.schedule.steps, "policy", names, accuracy);
  table.print("gpt", settings.language.schedule.steps, "policy", names, "test loss, nats a word");
  table.print("recurrent", settings.adding.schedule.steps, "policy", names,
              "log10 of the test error");
  table.summarise("difference, p, skipped", {"digits, points", "gpt, nats", "recurrent, log10"});
  Table(runs, csv, settings.new_seeds())
      .print("recurrent", settings.adding.schedule.steps, "again", few,
             "the same with other seeds");
  print_constants(runs, settings, output);
  std::vector<std::string> started;
  for (const Policy& policy : started_badly(settings.short_steps)) started.push_back(policy.name);
  table.print("digits", settings.short_steps, "start", started, "from initial scales, %");
  table.print("digits", settings.short_steps, "fault", faults, "right answers with faults, %");
  std::printf(
      "\nDifference: from the first row with the same seed, the median over the seeds. p: "
      "Wilcoxon's signed-rank test of these\n"
      "differences, two-sided, exact, with Holm's correction in each table. Diverged: networks "
      "whose loss in the last step is\n"
      "Inf or NaN. 10 below: networks that recognise more than 10 points fewer digits than that of "
      "the first row with the same\n"
      "seed; an image counts as not recognised if the network returns NaN. Skipped: share of the "
      "steps. Lost: share of the\n"
      "gradients that are zero but are not in float at the same weights and batch, counted in at "
      "most 10 steps. Bits: how often\n"
      "the scale could have been doubled in fp16, as in headroom::simulate. A dash: not counted, "
      "or without a meaning.\n\n"
      "Systems that had the faults:\n");
  for (const evidence::KnownFault& fault : evidence::known_faults()) {
    std::printf("  %-28s %s\n", fault.name.c_str(), fault.where.c_str());
  }
}

/// Prints max_abs of each step of the recurrent network.
void record(int steps) {
  Adding::Settings settings;
  settings.schedule.steps = steps;
  const std::vector<double> max_abs = evidence::record(Adding(settings, 1));
  std::printf("step,max_abs\n");
  for (std::size_t i = 0; i < max_abs.size(); ++i) std::printf("%zu,%.9g\n", i, max_abs[i]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string(argv[1]) == "--record") {
      record(digits::parse_number(argv[2], 1000000, "steps, argument", 2));
      return 0;
    }
    const std::string data = argc > 1 ? argv[1] : "examples/data/digits.csv";
    const std::filesystem::path output = argc > 2 ? argv[2] : "build/evidence";
    Settings settings;
    if (argc > 3) settings.seeds = digits::parse_number(argv[3], 1000, "seeds, argument", 3);
    if (argc > 4) settings.shrink(digits::parse_number(argv[4], 1000, "steps, argument", 4));
    if (settings.seeds < 1 || settings.digits.schedule.steps < 1)
      throw std::runtime_error("at least 1 seed and step are needed");

    const digits::Images images = digits::read_images(data);
    if (images.size() <= settings.digits.training_images)
      throw std::runtime_error(data + ": more than 1400 images are needed");
    const evidence::Text text = evidence::make_text(settings.language.shape.vocabulary);
    std::filesystem::create_directories(output);
    Runs runs(output);

    // The last layers have the largest gradients, which overflow first.
    const evidence::Halves halves{static_cast<std::size_t>(settings.digits.hidden_layers + 1),
                                  true};
    Digits::Settings short_digits = settings.digits;
    short_digits.schedule.steps = settings.short_steps;
    Digits::Settings relu = short_digits;
    relu.activation = digits::Activation::relu;
    std::vector<Job> jobs;
    add_jobs(
        "digits", all_policies(),
        [&](std::uint32_t seed) { return Digits(images, settings.digits, seed); },
        {1, settings.seeds}, jobs);
    add_jobs(
        "gpt", few_policies(),
        [&](std::uint32_t seed) { return Language(text, settings.language, seed); },
        {1, settings.seeds}, jobs);
    add_jobs(
        "recurrent", all_policies(),
        [&](std::uint32_t seed) { return Adding(settings.adding, seed); }, {1, settings.seeds},
        jobs);
    add_jobs(
        "recurrent", few_policies(),
        [&](std::uint32_t seed) { return Adding(settings.adding, seed); }, settings.new_seeds(),
        jobs);
    const auto make_short = [&](std::uint32_t seed) { return Digits(images, short_digits, seed); };
    add_faults("digits", make_short, halves, settings.seeds, jobs);
    const std::vector<Policy> started = started_badly(settings.short_steps);
    add_jobs("digits", started, make_short, {1, settings.seeds}, jobs);
    add_jobs("digits", constants(2), make_short, {1, settings.few_seeds()}, jobs);
    add_jobs(
        "relu", constants(2), [&](std::uint32_t seed) { return Digits(images, relu, seed); },
        {1, settings.few_seeds()}, jobs);
    add_jobs(
        "gpt", constants(4),
        [&](std::uint32_t seed) { return Language(text, settings.language, seed); }, {1, 1}, jobs);
    run(std::move(jobs), output, runs);
    print_tables(runs, settings, output);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "evidence: %s\n", error.what());
    return 1;
  }
}
