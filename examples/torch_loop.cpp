// A libtorch training loop with headroom::GradScaler: float master weights, forward and backward in
// 16 bits. Trains handwritten digits in float, in fp16 without scaling, and in fp16 with scaling.
// Then stops the last training halfway, resumes it from a checkpoint, and compares the final
// weights bit by bit.
//
//   example_torch_loop <digits.csv> <directory for the checkpoint> [epochs]

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <headroom/adapters/torch.hpp>
#include <headroom/headroom.hpp>
#include <headroom/state/text.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "digits/data.hpp"

namespace {

constexpr int training_images = 1400, batches_per_epoch = 2;

/// Sigmoid layers, whose gradients shrink from layer to layer in backward. Activations and
/// gradients have the dtype `dtype`. The master weights are float and are rounded to `dtype` where
/// they are used.
struct NetworkImpl : torch::nn::Module {
  explicit NetworkImpl(torch::ScalarType dtype) : dtype_(dtype) {
    for (int i = 0; i <= 6; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i),
                                       torch::nn::Linear(64, i < 6 ? 64 : digits::classes)));
      torch::nn::init::normal_(layers.back()->weight, 0.0, 1.0 / 8);  // 1 / sqrt(64)
      torch::nn::init::zeros_(layers.back()->bias);
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    x = rounded(x);
    for (std::size_t i = 0; i + 1 < layers.size(); ++i)
      x = rounded(torch::sigmoid(linear(x, layers[i])));
    return linear(x, layers.back());
  }
  std::vector<torch::nn::Linear> layers;

 private:
  /// Rounds to `dtype` and returns float. Backward rounds the gradient in the same way.
  [[nodiscard]] torch::Tensor rounded(const torch::Tensor& x) const {
    return x.to(dtype_).to(torch::kFloat);
  }
  /// One layer as a tensor core computes it: operands and result in 16 bits, sums in float. On a
  /// GPU `torch::linear` does this for fp16 tensors. On the CPU libtorch 1.13 cannot multiply fp16
  /// matrices.
  [[nodiscard]] torch::Tensor linear(const torch::Tensor& x, torch::nn::Linear& layer) const {
    return rounded(torch::linear(x, rounded(layer->weight), rounded(layer->bias)));
  }

  torch::ScalarType dtype_;
};
TORCH_MODULE(Network);

struct Data {
  torch::Tensor images, labels;
};

/// A training that can be saved and resumed.
class Training {
 public:
  Training(torch::ScalarType dtype, bool enabled, int epochs)
      : scaler_(headroom::presets::torch(65536.0, 2.0, 0.5, 100), enabled),
        epochs_(epochs),
        network_(make_network(dtype)) {}

  void run(const Data& data, int until_epoch) {
    const auto batch_size = data.images.size(0) / batches_per_epoch;
    for (; epoch_ < until_epoch; ++epoch_) {
      torch::manual_seed(epoch_);  // so the order depends on the epoch alone
      const auto order = torch::randperm(data.images.size(0));
      set_rate(0.02 * (0.5 + 0.5 * std::cos(3.14159265358979 * epoch_ / epochs_)));
      for (int batch = 0; batch < batches_per_epoch; ++batch) {
        const auto rows = order.narrow(0, batch * batch_size, batch_size);
        const auto logits = network_->forward(data.images.index_select(0, rows)).to(torch::kFloat);
        // The mean over images and classes.
        const auto loss =
            torch::cross_entropy_loss(logits, data.labels.index_select(0, rows)) / digits::classes;

        optimizer_.zero_grad();
        scaler_.scale(loss).backward();
        if (scaler_.step(optimizer_).skipped) ++skipped_;
        scaler_.update();
        loss_ = loss.item<double>();
      }
    }
  }

  void save(const std::string& directory) const {
    torch::save(network_, directory + "/network.pt");
    torch::save(optimizer_, directory + "/optimizer.pt");
    headroom::StateDict state = scaler_.state_dict();
    state.add("epoch", epoch_);  // other values may be added to the state
    std::ofstream(directory + "/scaler.txt") << headroom::to_text(state);
  }
  void load(const std::string& directory) {
    torch::load(network_, directory + "/network.pt");
    torch::load(optimizer_, directory + "/optimizer.pt");
    std::stringstream text;
    text << std::ifstream(directory + "/scaler.txt").rdbuf();
    headroom::StateDict state = headroom::from_text(text.str());
    epoch_ = static_cast<int>(state.at("epoch").integer());
    (void)state.erase("epoch");
    scaler_.load_state_dict(state);
  }

  [[nodiscard]] double accuracy(const Data& data) {
    const torch::NoGradGuard no_grad;
    const torch::Tensor outputs = network_->forward(data.images).to(torch::kFloat);
    // NaN counts as wrong
    const torch::Tensor right = outputs.argmax(1).eq(data.labels) & outputs.isfinite().all(1);
    return 100.0 * right.to(torch::kDouble).mean().item<double>();
  }
  [[nodiscard]] bool same_bits(const Training& other) const {
    const auto ours = network_->parameters(), theirs = other.network_->parameters();
    bool same = scaler_.get_scale() == other.scaler_.get_scale();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      same = same && std::memcmp(ours[i].data_ptr(), theirs[i].data_ptr(), ours[i].nbytes()) == 0;
    }
    return same;
  }
  void print(const char* name, const Data& test) {
    std::printf("%-28s %10.1f %% %12.4f %8d %11g\n", name, accuracy(test), loss_, skipped_,
                static_cast<double>(scaler_.get_scale()));
  }

 private:
  static Network make_network(torch::ScalarType dtype) {
    torch::manual_seed(8);
    return Network(dtype);
  }
  void set_rate(double rate) {
    for (auto& group : optimizer_.param_groups())
      static_cast<torch::optim::AdamOptions&>(group.options()).lr(rate);
  }

  headroom::GradScaler<> scaler_;
  int epochs_, epoch_ = 0, skipped_ = 0;
  double loss_ = 0.0;
  Network network_;
  // Adam's default epsilon of 1e-8 would be as large as the gradients.
  torch::optim::Adam optimizer_{network_->parameters(), torch::optim::AdamOptions().eps(1e-12)};
};

int run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s <digits.csv> <directory for the checkpoint> [epochs]\n",
                 argv[0]);
    return 2;
  }
  const int epochs = argc > 3 ? std::max(2, std::atoi(argv[3])) : 400;
  digits::Images images = digits::read_images(argv[1]);
  const auto count = static_cast<std::int64_t>(images.size());
  const auto pixels = torch::from_blob(images.pixels.data(), {count, digits::pixels}).clone();
  const auto labels = torch::from_blob(images.labels.data(), {count}, torch::kInt).to(torch::kLong);
  torch::manual_seed(8);
  // Because the last digits of the file were written by other people than the first
  const auto order = torch::randperm(count);
  const auto subset = [&](std::int64_t begin, std::int64_t end) {
    const auto rows = order.slice(0, begin, end);
    return Data{pixels.index_select(0, rows), labels.index_select(0, rows)};
  };
  const Data train = subset(0, training_images), test = subset(training_images, count);

  std::printf("                             test accuracy   final loss  skipped  last scale\n");
  Training in_float(torch::kFloat, false, epochs);
  in_float.run(train, epochs);
  in_float.print("float", test);

  Training unscaled(torch::kHalf, false, epochs);
  unscaled.run(train, epochs);
  unscaled.print("fp16, no scaling", test);

  Training whole(torch::kHalf, true, epochs);
  whole.run(train, epochs);
  whole.print("fp16, GradScaler", test);

  Training first_half(torch::kHalf, true, epochs);
  first_half.run(train, epochs / 2);
  first_half.save(argv[2]);
  Training second_half(torch::kHalf, true, epochs);
  second_half.load(argv[2]);
  second_half.run(train, epochs);
  second_half.print("fp16, GradScaler, resumed", test);

  const bool same = whole.same_bits(second_half);
  std::printf("\nThe resumed training has ended with %s.\n", same ? "the same bits" : "OTHER BITS");
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
