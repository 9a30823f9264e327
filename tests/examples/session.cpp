#include "../../examples/digits/session.hpp"

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"

using Catch::Matchers::ContainsSubstring;
using checkpoint::Sections;
using digits::Session;

namespace {

digits::Images noise() {
  digits::Random random(1);
  digits::Images images;
  images.pixels.resize(digits::pixels, 20);
  for (float& value : images.pixels.reshaped()) value = random.normal();
  for (int i = 0; i < 20; ++i) images.labels.push_back(i % digits::classes);
  return images;
}

digits::Settings small() {
  digits::Settings settings;
  settings.training_images = 12;
  settings.batch = 4;
  settings.epochs = 4;  // 12 steps
  settings.hidden_layers = 1;
  settings.hidden_width = 3;
  return settings;
}

class Training {
 public:
  explicit Training(const digits::Settings& settings = small()) : images_(noise()), session_(images_, settings, policy()) {}
  Session* operator->() { return &session_; }
  void step() {
    const auto grads16 = session_.scaled_gradients(session_.next_batch());
    const auto [grads, report] = session_.loss_scale().unscale<float>(grads16);
    session_.update(grads, report);
  }
  std::string restore_error(const Sections& sections) {
    try {
      session_.restore(sections);
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  }

 private:
  static headroom::DynamicLossScale policy() {
    headroom::LossScaleConfig config;
    config.initial_scale = 0x1p22F;  // the first steps overflow
    config.growth_interval = 3;
    return headroom::DynamicLossScale(config);
  }
  digits::Images images_;
  Session session_;
};

}  // namespace

TEST_CASE("a session restored after any step continues with the same bits") {
  Training whole;
  std::vector<Sections> after = {whole->sections()};
  while (!whole->is_done()) {
    whole.step();
    after.push_back(whole->sections());
  }
  CHECK(after.size() == 13);
  CHECK(whole->skipped() > 0);
  CHECK(whole->skipped() < 12);
  for (std::size_t start = 0; start < after.size(); ++start) {
    Training part;
    part.step();  // restore replaces this state
    part->restore(after[start]);
    CHECK(part->step() == static_cast<int>(start));
    for (std::size_t step = start; step < after.size(); ++step) {
      CHECK(part->sections() == after[step]);
      if (!part->is_done()) part.step();
    }
  }
}

TEST_CASE("missing, damaged or foreign sections are errors that name the section") {
  Training training;
  const Sections good = training->sections();
  CHECK(training.restore_error(good).empty());
  for (const auto& [name, content] : good) {
    Sections sections = good;
    sections.erase(name);
    CHECK_THAT(training.restore_error(sections), ContainsSubstring("the checkpoint has no section " + name));
    sections[name] = content.substr(0, content.size() / 2);
    CHECK_FALSE(training.restore_error(sections).empty());
  }
  for (const char* name : {"weights", "adam.mean", "adam.square", "order"}) {
    Sections sections = good;
    sections[name] += '\0';
    CHECK_THAT(training.restore_error(sections), ContainsSubstring(std::string("the checkpoint is of another model: ") + name));
  }
  digits::Settings other = small();
  other.batch = 3;
  CHECK_THAT(Training(other).restore_error(good), ContainsSubstring("of another training") && ContainsSubstring("batch = 4\n"));
}

TEST_CASE("a batch larger than the training set, or a training set that leaves no test images, is refused") {
  digits::Settings settings = small();
  settings.batch = 13;
  CHECK_THROWS_AS(Training(settings), std::invalid_argument);
  settings = small();
  settings.training_images = 20;
  CHECK_THROWS_AS(Training(settings), std::invalid_argument);
}

TEST_CASE("the parts of a batch together are the batch, in order") {
  const digits::Images images = noise();
  for (std::size_t parts = 1; parts <= 21; ++parts) {
    std::vector<int> labels;
    Eigen::Index column = 0;
    for (std::size_t i = 0; i < parts; ++i) {
      const digits::Images part = images.part(i, parts);
      CHECK(part.pixels == images.pixels.middleCols(column, part.pixels.cols()));
      column += part.pixels.cols();
      labels.insert(labels.end(), part.labels.begin(), part.labels.end());
    }
    CHECK(labels == images.labels);
  }
}
