// Trains handwritten digits in fp16, and saves a checkpoint every few steps. Stop it at any moment,
// even by kill -9 or a power failure, and run it again to resume. It ends with the same bits as a
// training that was never stopped.
//
//   resume_digits <digits.csv> <directory of the checkpoint>
//                 [epochs [steps between checkpoints [images in a batch]]]

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <headroom/headroom.hpp>
#include <string>

#include "checkpoint.hpp"
#include "digits/data.hpp"
#include "digits/progress.hpp"
#include "digits/session.hpp"

namespace {

/// Loads the newest good checkpoint. Without a checkpoint the training starts from the beginning.
void resume(digits::Session& session, const std::string& path) {
  const auto loaded = checkpoint::load(path);
  if (!loaded) {
    std::printf("no checkpoint yet: %s\n", path.c_str());
    return;
  }
  if (!loaded->warning.empty())
    std::fprintf(stderr, "%s; resuming from %s\n", loaded->warning.c_str(), loaded->path.c_str());
  session.restore(loaded->sections);
  std::printf("resumed after step %d: %s\n", session.step(), loaded->path.c_str());
}

int run(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  digits::Settings settings;
  settings.epochs = number(3, 400);
  const int every = number(4, 25);
  settings.batch = static_cast<std::size_t>(number(5, 700));
  if (argc < 3 || settings.epochs < 1 || every < 1) {
    std::fprintf(stderr,
                 "usage: %s <digits.csv> <directory> [epochs [steps between checkpoints [images in "
                 "a batch]]]\n",
                 argv[0]);
    return 2;
  }
  headroom::LossScaleConfig config;
  config.initial_scale = 0x1p30F;  // too large, so that the first steps are skipped
  config.growth_interval = 20;

  const digits::Images images = digits::read_images(argv[1]);
  digits::Session session(images, settings, headroom::DynamicLossScale(config));
  std::filesystem::create_directories(argv[2]);
  const std::string path = std::filesystem::path(argv[2]) / "digits.checkpoint";
  resume(session, path);
  std::fflush(stdout);

  digits::Progress progress(settings.steps(), session.step());
  while (!session.is_done()) {
    const digits::Images batch = session.next_batch();
    const auto grads16 = session.scaled_gradients(batch);
    const auto [grads, report] = session.loss_scale().unscale(grads16);
    session.update(grads, report);
    if (session.step() % every == 0 || session.is_done())
      checkpoint::save(path, session.sections());
    progress.tick();
  }
  std::printf("%d steps, %d of them skipped; loss scale %g; test accuracy %.1f %%\n",
              session.step(), session.skipped(),
              static_cast<double>(session.loss_scale().loss_scale()), session.test_accuracy());
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
