// Trains a network on real handwritten digits six times: in float, in fp16 without and with three
// kinds of loss scale, in bf16. The network has six hidden layers of sigmoids, and its loss is a
// mean over images and classes. Its gradients shrink by a factor of about four from layer to layer:
// in fp16 those of the first layers become zero, and without a loss scale it learns nothing. With
// ReLU, the seventh training, it needs none.
//
//   digits [data.csv [output directory [epochs [seed]]]]
//
// Prints a table; writes digits.csv with loss and scale of every step, for plot_digits.gp.

#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "digits/data.hpp"
#include "digits/progress.hpp"
#include "digits/training.hpp"

namespace {

using digits::Images;
using digits::Progress;
using digits::Result;
using digits::Settings;

using Training = std::function<Result(const std::function<void()>&)>;

/// Growth after 20 finite steps, not 2000: the whole training has 800.
std::vector<Training> make_trainings(const Images& images, const Settings& settings) {
  headroom::LossScaleConfig scale;
  scale.growth_interval = 20;
  const headroom::HysteresisConfig hysteresis{scale, 2};
  const auto training = [&](auto scalar, const char* name, auto policy,
                            digits::Activation activation = {}) -> Training {
    return [=, &images, settings = settings](const std::function<void()>& tick) mutable {
      settings.activation = activation;
      return digits::train<decltype(scalar)>(name, policy, images, settings, tick);
    };
  };
  const Eigen::half fp16{};
  return {training(float{}, "float", headroom::NoOpLossScale()),
          training(fp16, "fp16, no scaling", headroom::NoOpLossScale()),
          training(fp16, "fp16, ConstantLossScale", headroom::ConstantLossScale(0x1p16F)),
          training(fp16, "fp16, DynamicLossScale", headroom::DynamicLossScale(scale)),
          training(fp16, "fp16, HysteresisScale", headroom::HysteresisScale(hysteresis)),
          training(Eigen::bfloat16{}, "bf16, no scaling", headroom::NoOpLossScale()),
          training(fp16, "ReLU, fp16, no scaling", headroom::NoOpLossScale(),
                   digits::Activation::relu)};
}

/// Two at a time.
std::vector<Result> run(const std::vector<Training>& trainings, const Settings& settings) {
  Progress progress(static_cast<int>(trainings.size()) * settings.steps());
  std::vector<Result> results(trainings.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < trainings.size(); i = next++)
      results[i] = trainings[i]([&progress] { progress.tick(); });
  };
  std::thread other(work);
  work();
  other.join();
  return results;
}

void print_table(const std::vector<Result>& results) {
  std::printf("%-25s %13s %10s %15s %13s %10s\n", "", "test accuracy", "final loss",
              "gradients lost", "steps skipped", "last scale");
  for (const Result& result : results) {
    std::printf("%-25s %11.1f %% %10.4f %13.1f %% %13d %10.0f\n", result.name.c_str(),
                result.test_accuracy, result.final_loss, 100.0 * result.lost_share, result.skipped,
                static_cast<double>(result.scales.back()));
  }
  std::printf(
      "\nFinal loss: training loss, mean of the last epoch. Gradients lost: weight gradients that "
      "are zero, but are not when\n"
      "computed in float at the same weights and batch; counted every 25 steps, skipped ones left "
      "out.\n");
}

/// digits.csv of the output directory. The constructor throws if it cannot be written, before any
/// training. `write` fills a file beside it and renames that, so that digits.csv is always
/// complete.
class Csv {
 public:
  explicit Csv(const std::filesystem::path& directory)
      : file_(directory / "digits.csv"), part_(file_.string() + ".part") {
    std::filesystem::create_directories(directory);
    stream_.open(part_);
    if (!stream_) throw std::runtime_error(part_.string() + ": cannot be written");
  }

  void write(const std::vector<Result>& results) {
    stream_ << "step";
    for (const Result& result : results)
      stream_ << ",\"loss: " << result.name << "\",\"scale: " << result.name << '"';
    stream_ << '\n';
    for (std::size_t step = 0; step < results.front().losses.size(); ++step) {
      stream_ << step;
      for (const Result& result : results)
        stream_ << ',' << result.losses[step] << ',' << result.scales[step];
      stream_ << '\n';
    }
    stream_.close();
    if (!stream_) throw std::runtime_error(part_.string() + ": cannot be written");
    std::filesystem::rename(part_, file_);
    std::printf("\nLoss and scale by step: %s\n", file_.c_str());
  }

 private:
  std::filesystem::path file_, part_;
  std::ofstream stream_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string data = argc > 1 ? argv[1] : "examples/data/digits.csv";
    const std::filesystem::path output = argc > 2 ? argv[2] : "build/examples";
    Settings settings;
    if (argc > 3) settings.epochs = digits::parse_number(argv[3], 100000, "epochs, argument", 3);
    if (argc > 4)
      settings.seed =
          static_cast<std::uint32_t>(digits::parse_number(argv[4], 1000000, "seed, argument", 4));
    if (settings.epochs < 1) throw std::runtime_error("epochs, argument 3: at least 1 is needed");

    const Images images = digits::read_images(data);
    if (images.size() <= settings.training_images) {
      throw std::runtime_error(data + ": " + std::to_string(images.size()) +
                               " images, but 1400 are for training alone");
    }
    Csv csv(output);
    std::printf("Training %d steps, seven times: two at a time, about 20 seconds.\n",
                settings.steps());
    std::fflush(stdout);
    const std::vector<Result> results = run(make_trainings(images, settings), settings);
    print_table(results);
    csv.write(results);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "digits: %s\n", error.what());
    return 1;
  }
}
