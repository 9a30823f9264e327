#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <headroom/headroom.hpp>
#include <headroom/state/text.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "../checkpoint.hpp"
#include "data.hpp"
#include "network.hpp"
#include "random.hpp"
#include "training.hpp"

namespace digits {

/// A training in fp16 that can stop after any step. sections() has everything that later steps
/// depend on. A session that restores them continues with the same bits. One step:
///
///     const Images batch = session.next_batch();
///     const auto grads16 = session.scaled_gradients(batch);
///     const auto [grads, report] = session.loss_scale().unscale(grads16);
///     session.update(grads, report);
class Session {
 public:
  /// Throws std::invalid_argument if a batch has no images or is larger than the training set, or
  /// if no test images are left.
  Session(const Images& images, const Settings& settings,
          const headroom::DynamicLossScale& loss_scale)
      : images_(images),
        settings_(settings),
        random_(settings.seed),
        loss_scale_(loss_scale),
        order_(images.size()) {
    if (settings.batch == 0 || settings.batch > settings.training_images ||
        settings.training_images >= images.size()) {
      throw std::invalid_argument("there are too few images for such batches");
    }
    std::iota(order_.begin(), order_.end(), 0);
    random_.shuffle(order_);
    test_ = images.subset(order_, settings.training_images, images.size());
    order_.resize(settings.training_images);
    std::vector<Eigen::Index> widths(static_cast<std::size_t>(settings.hidden_layers) + 2,
                                     settings.hidden_width);
    widths.front() = pixels;
    widths.back() = classes;
    model_ = random_model(widths, random_);
    adam_ = Adam(model_);
  }

  [[nodiscard]] int step() const { return step_; }
  [[nodiscard]] int skipped() const { return skipped_; }
  [[nodiscard]] bool is_done() const { return step_ >= settings_.steps(); }
  [[nodiscard]] const headroom::DynamicLossScale& loss_scale() const { return loss_scale_; }
  [[nodiscard]] const Model<float>& model() const { return model_; }
  /// Test images classified correctly, in percent.
  [[nodiscard]] double test_accuracy() const { return accuracy<Eigen::half>(model_, test_); }

  /// Call once a step. Shuffles the images at the beginning of each epoch.
  [[nodiscard]] Images next_batch() {
    const std::size_t batches = settings_.training_images / settings_.batch;
    const std::size_t begin = static_cast<std::size_t>(step_) % batches * settings_.batch;
    if (begin == 0) random_.shuffle(order_);
    return images_.subset(order_, begin, begin + settings_.batch);
  }
  /// Gradients of the mean loss over these images, times the loss scale.
  [[nodiscard]] Model<Eigen::half> scaled_gradients(const Images& batch) const {
    const auto params = headroom::cast<Eigen::half>(model_);
    const auto activations = forward(params, batch.pixels);
    const Loss loss =
        cross_entropy(widen(activations.back()), batch.labels, loss_scale_.scale(1.0F));
    return backward(params, activations, rounded<Eigen::half>(loss.logit_gradient));
  }
  /// Ends the step. `grads` are unscaled. They are not used if the report is not finite.
  void update(const Model<float>& grads, const headroom::GradientReport& report) {
    if (report.finite) {
      adam_.step(model_, grads, settings_.rate(step_));
    } else {
      ++skipped_;
    }
    loss_scale_ = loss_scale_.adjust(report);
    ++step_;
  }

  /// For a checkpoint. Weights and order are in the byte order of this machine.
  [[nodiscard]] checkpoint::Sections sections() const {
    const Adam::State& adam = adam_.state();
    const headroom::StateDict progress = {
        {"step", step_}, {"skipped", skipped_}, {"adam_steps", adam.steps}};
    return {{"settings", settings_text()},
            {"progress", to_text(progress)},
            {"weights", bytes_of(model_)},
            {"adam.mean", bytes_of(adam.mean)},
            {"adam.square", bytes_of(adam.square)},
            {"loss_scale", to_text(loss_scale_.state_dict())},
            {"order", std::string(reinterpret_cast<const char*>(order_.data()),
                                  sizeof(int) * order_.size())},
            {"random", random_.state()}};
  }
  /// Throws std::runtime_error or std::invalid_argument if the sections are not of a session with
  /// these settings.
  void restore(const checkpoint::Sections& sections) {
    const std::string& settings = section(sections, "settings");
    if (settings != settings_text()) {
      throw std::runtime_error("the checkpoint is of another training, with these settings:\n" +
                               settings);
    }
    const headroom::StateDict progress = headroom::from_text(section(sections, "progress"));
    const auto number = [&](const char* key) {
      return static_cast<int>(progress.at(key).integer());
    };
    step_ = number("step");
    skipped_ = number("skipped");
    Adam::State adam = adam_.state();
    adam.steps = number("adam_steps");
    read(sections, "weights", model_);
    read(sections, "adam.mean", adam.mean);
    read(sections, "adam.square", adam.square);
    adam_.set_state(adam);
    loss_scale_ = headroom::DynamicLossScale::from_state_dict(
        headroom::from_text(section(sections, "loss_scale")));
    copy(sections, "order", order_.data(), sizeof(int) * order_.size());
    random_.set_state(section(sections, "random"));
  }

 private:
  [[nodiscard]] std::string settings_text() const {
    return to_text(headroom::StateDict{{"training_images", settings_.training_images},
                                       {"batch", settings_.batch},
                                       {"epochs", settings_.epochs},
                                       {"peak_rate", settings_.peak_rate},
                                       {"hidden_layers", settings_.hidden_layers},
                                       {"hidden_width", settings_.hidden_width},
                                       {"seed", settings_.seed}});
  }
  [[nodiscard]] static std::string bytes_of(const Model<float>& model) {
    std::string bytes;
    headroom::for_each_leaf(model, [&](const auto& leaf) {
      bytes.append(reinterpret_cast<const char*>(leaf.data()),
                   sizeof(float) * static_cast<std::size_t>(leaf.size()));
    });
    return bytes;
  }
  [[nodiscard]] static const std::string& section(const checkpoint::Sections& sections,
                                                  const char* name) {
    const auto found = sections.find(name);
    if (found == sections.end())
      throw std::runtime_error("the checkpoint has no section " + std::string(name));
    return found->second;
  }
  static void copy(const checkpoint::Sections& sections, const char* name, void* destination,
                   std::size_t size) {
    const std::string& bytes = section(sections, name);
    if (bytes.size() != size)
      throw std::runtime_error("the checkpoint is of another model: " + std::string(name));
    std::memcpy(destination, bytes.data(), size);
  }
  static void read(const checkpoint::Sections& sections, const char* name, Model<float>& model) {
    std::vector<float> values(headroom::element_count(model));
    copy(sections, name, values.data(), sizeof(float) * values.size());
    const float* next = values.data();
    headroom::for_each_leaf(model, [&](auto& leaf) {
      std::memcpy(leaf.data(), next, sizeof(float) * static_cast<std::size_t>(leaf.size()));
      next += leaf.size();
    });
  }

  const Images& images_;
  Settings settings_;
  Random random_;
  headroom::DynamicLossScale loss_scale_;
  Images test_;
  std::vector<int> order_;  // order of the training images in this epoch
  Model<float> model_;
  Adam adam_{model_};
  int step_ = 0, skipped_ = 0;
};

}  // namespace digits
