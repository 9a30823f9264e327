// What surrounds the code blocks of the documents: tests/docs/check.py makes a program of the
// includes, what follows `//// NAME`, and the block in place of `#include BLOCK`.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <headroom/headroom.hpp>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

//// statements
// Surrounds a code block of statements, which has no main function and names no other surroundings.

int main() {
#include BLOCK
}

//// declarations
// Surrounds a code block that declares types and functions.

#include BLOCK

static_assert(std::is_same_v<decltype(headroom::cast<headroom::half>(Layer<float>())),
                             Layer<headroom::half>>);

int main() {}

//// armadillo

#if __has_include(<armadillo>)
#define ARMA_DONT_USE_WRAPPER
#include <armadillo>
#else
namespace arma {
struct fmat {
  using elem_type = float;
  std::size_t n_rows, n_cols, n_elem;
  std::vector<float> elements;
  fmat(std::size_t rows, std::size_t columns)
      : n_rows(rows), n_cols(columns), n_elem(rows * columns), elements(n_elem) {}
  float* memptr() { return elements.data(); }
  const float* memptr() const { return elements.data(); }
  float& operator()(std::size_t i) { return elements[i]; }
};
template <class T>
struct is_Mat : std::is_same<T, fmat> {};
}  // namespace arma
#endif

#include BLOCK

/// headroom notices a tensor that is there twice.
int main() {
  std::vector<arma::fmat> tree(2, arma::fmat(2, 3));
  for (arma::fmat& matrix : tree)
    for (std::size_t i = 0; i < 6; ++i) matrix(i) = 8.0F;
  if (headroom::unscale_in_place(tree, 4.0F).max_abs != 2.0 || tree[1](5) != 2.0F) return 1;
  std::vector<std::reference_wrapper<arma::fmat>> twice{tree[0], tree[0]};
  try {
    headroom::scale_in_place(twice, 2.0F);
  } catch (const std::invalid_argument&) {
    return 0;
  }
  std::printf("scaled twice, to %g\n", static_cast<double>(tree[0](0)));
  return 1;
}

//// mlx
// MLX, or as much of it as the block needs.

#if __has_include(<mlx/mlx.h>)
#include <mlx/mlx.h>
#else
#include <memory>

namespace mlx::core {
struct Dtype {
  enum class Val { float16, bfloat16, float32, int32 } value;
  Val val() const { return value; }
};
constexpr Dtype float16{Dtype::Val::float16}, bfloat16{Dtype::Val::bfloat16},
    float32{Dtype::Val::float32};
inline std::size_t size_of(Dtype dtype) { return dtype.value >= Dtype::Val::float32 ? 4 : 2; }
using Shape = std::vector<int>;
namespace allocator {
using Data = std::shared_ptr<std::vector<char>>;
inline Data malloc(std::size_t bytes) { return std::make_shared<std::vector<char>>(bytes); }
}  // namespace allocator
class array {
 public:
  explicit array(allocator::Data data, Shape shape, Dtype dtype)
      : data_(std::move(data)), shape_(std::move(shape)), dtype_(dtype) {}
  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::size_t size() const { return data_->size() / size_of(dtype_); }
  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(data_->data());
  }

 private:
  allocator::Data data_;
  Shape shape_;
  Dtype dtype_;
};
}  // namespace mlx::core
#endif

using headroom::half;
#include BLOCK

int main() {
  namespace mx = mlx::core;
  std::vector<mx::array> grads{mx::array(mx::allocator::malloc(12), {2, 3}, mx::float16)};
  const half eight(8.0F);
  for (int i = 0; i < 6; ++i)
    std::memcpy(const_cast<char*>(grads[0].data<char>()) + 2 * i, &eight, 2);
  const auto [unscaled, report] = headroom::ConstantLossScale(4.0F).unscale(grads);
  return report.max_abs == 2.0 && unscaled[0].dtype().val() == mx::Dtype::Val::float32 &&
                 unscaled[0].data<float>()[5] == 2.0F &&
                 headroom::cast<half>(unscaled)[0].data<half>()[0].bits() == half(2.0F).bits()
             ? 0
             : 1;
}

//// accumulation
// Two micro-batches whose gradients are 1 and 2 without the scale. The norm of the sum is 30 before
// it is clipped.

using Gradients16 = std::vector<headroom::half>;

static Gradients16 backward(const Gradients16& weights16, float micro_batch, float loss_scale) {
  return Gradients16(weights16.size(), headroom::half(micro_batch * loss_scale));
}
static void optimizer_step(std::vector<float>& weights, const std::vector<float>& gradients) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= gradients[i];
}

int main() {
  headroom::LossScaleConfig config;
  config.initial_scale = 1024.0F;
  headroom::DynamicLossScale loss_scale(config);
  std::vector<float> weights(100), main_grads(100, 7.0F);
  const Gradients16 weights16(100);
  const std::vector<float> micro_batches{1.0F, 2.0F};
#include BLOCK
  return main_grads == std::vector<float>(100, 1.0F) && weights[99] == -1.0F &&
                 loss_scale.counter() == 1
             ? 0
             : 1;
}

//// c10d
// A process group of one rank without gradients: with a reducer it steps when the other ranks do.
#define USE_C10D_GLOO 1
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <headroom/adapters/c10d.hpp>

struct Sgd {
  std::vector<std::vector<float>> grads;
  auto& gradients() { return grads; }
  void step() {}
};

int main() {
  const auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface("lo"));
  const auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::HashStore>(), 0, 1, options);
  const int replicas = 1;
  headroom::GradScaler<> scaler;
  Sgd optimizer;
#include BLOCK
  return scaler.step(optimizer).skipped ? 1 : 0;
}

//// configuration
// A policy by name, with one setting.
#include <headroom/state/text.hpp>

int main() {
  const std::string text = "policy = \"amax\"\ntarget_skip_rate = 0.001\n";
#include BLOCK
  headroom::AmaxConfig config;
  config.target_skip_rate = 0.001;
  return loss_scale == headroom::AnyLossScale(headroom::AmaxLossScale(config)) ? 0 : 1;
}

//// dequantize_blocks
// A matrix of 130 x 129 ones, with another scale in each of the four blocks.
#include <headroom/quantize.hpp>

int main() {
  const std::size_t rows = 130, columns = 129, n_scales = 4;
  const std::vector<unsigned char> ones(rows * columns, headroom::float8_e4m3(1.0F).bits());
  const std::vector<float> of_blocks{1.0F, 2.0F, 4.0F, 8.0F};
  const auto *weight_bytes = ones.data(),
             *scale_bytes = reinterpret_cast<const unsigned char*>(of_blocks.data());
#include BLOCK
  int wrong = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    wrong += float(weights[i]) != of_blocks[i / columns / 128 * 2 + i % columns / 128] ? 1 : 0;
  return wrong == 0 ? 0 : 1;
}

//// duplicates
// The optimizer of rank 1 if rank 0 holds all of its gradients, too.

using Tensor = std::vector<float>;
#include BLOCK
void Adam::step() {}

int main() {
  Adam adam;
  adam.grads = adam.shared_grads = {{3.0F, 4.0F}};
  adam.rank = 1;
  headroom::GradScaler<> scaler(1.0);
  double counted = -1.0;
  scaler.set_reducer([&](const headroom::GradientSums& here) {
    counted = here.sum_of_squares;
    return here;
  });
  scaler.unscale_and_clip_(adam, 1.0);
  return counted == 0.0 ? 0 : 1;
}

//// engine_tensor
// With the members of dlib's tensors that the block uses.

namespace dlib {
class tensor {
 public:
  virtual ~tensor() = default;
  virtual const float* host() const = 0;
  virtual float* host() = 0;
  virtual std::size_t size() const = 0;
};
class resizable_tensor : public tensor {
 public:
  explicit resizable_tensor(std::size_t n) : elements_(n, 8.0F) {}
  const float* host() const override { return elements_.data(); }
  float* host() override { return elements_.data(); }
  std::size_t size() const override { return elements_.size(); }

 private:
  std::vector<float> elements_;
};
}  // namespace dlib

#include BLOCK

int main() {
  std::vector<dlib::resizable_tensor> tree(2, dlib::resizable_tensor(6));
  return headroom::unscale_in_place(tree, 4.0F).max_abs == 2.0 && tree[1].host()[5] == 2.0F ? 0 : 1;
}

//// engines
// Two iterations of an engine whose backward adds to the gradients. The first overflows.

struct Model {
  std::vector<float> weights, grads;
};
static void backward(Model& model, float seed) {
  for (float& gradient : model.grads) gradient += 2.0F * seed;
}
static void step(Model& model) {
  for (std::size_t i = 0; i < model.grads.size(); ++i) model.weights[i] -= model.grads[i];
}
static void clear(std::vector<float>& grads) { std::fill(grads.begin(), grads.end(), 0.0F); }

int main() {
  headroom::LossScaleConfig config;
  config.initial_scale = 0x1p126F;
  headroom::DynamicLossScale loss_scale(config);
  Model model{{0.0F}, {0x1p127F}};
  for (int iteration = 0; iteration < 2; ++iteration) {
#include BLOCK
  }
  return model.weights[0] == -2.0F && loss_scale.loss_scale() == 0x1p125F ? 0 : 1;
}

//// evaluate
// Minimises sum (w - 1)^4 with fp16 gradients, which overflow at the first scales: a step of SAM,
// then one of an optimizer that calls the closure, with line search.

static void add(std::vector<float>& weights, const std::vector<float>& by, double factor) {
  for (std::size_t i = 0; i < by.size(); ++i) weights[i] += static_cast<float>(factor * by[i]);
}

struct Optimizer {
  std::vector<float> weights{3.0F, -1.0F}, grads{0.0F, 0.0F};
  std::vector<float> after_sam;
  int evaluations = 0, rejected = 0;
  std::vector<float>& gradients() { return grads; }
  void step() {
    add(weights, grads, -0.01);
    after_sam = weights;
  }
  template <class Closure>
  void step(const Closure& closure) {
    const float before = closure();
    const auto from = weights, direction = grads;
    for (double rate = 1.0;; rate /= 2.0) {
      weights = from;
      add(weights, direction, -rate);
      if (closure() < before) return;
      ++rejected;
    }
  }
};
static float backward(Optimizer& optimizer, float scale) {
  ++optimizer.evaluations;
  float loss = 0.0F;
  for (std::size_t i = 0; i < 2; ++i) {
    const float distance = optimizer.weights[i] - 1.0F;
    loss += std::pow(distance, 4.0F);
    optimizer.grads[i] =
        static_cast<float>(headroom::half(4.0F * std::pow(distance, 3.0F) * scale));
  }
  return loss;
}

int main() {
  Optimizer optimizer;
  headroom::GradScaler<> scaler;
#include BLOCK
  // Where SAM looks, each weight is 2 + 0.05 / sqrt(2) from 1. The gradient there, about 33.7, is
  // finite in fp16 at 1024.
  const bool climbed = std::abs(optimizer.after_sam[0] - (3.0F - 0.01F * 33.71875F)) < 1e-6F;
  const bool is_lower =
      std::abs(optimizer.weights[0] - 1.0F) < std::abs(optimizer.after_sam[0] - 1.0F);
  return climbed && is_lower && optimizer.rejected > 0 && optimizer.evaluations > 7 ? 0 : 1;
}

//// fused_step
// Two leaves, clipped to a norm of 1; then an overflow.

#include BLOCK

int main() {
  using headroom::half;
  Optimizer optimizer{{{1.0F}, {1.0F, 1.0F}}, {{half(3072.0F)}, {half(0.0F), half(4096.0F)}}};
  headroom::GradScaler<> scaler(1024.0);
  const double norm = scaler.unscale_and_clip_(optimizer, 1.0).norm;
  bool right = norm == 5.0 && !scaler.step(optimizer).skipped;
  scaler.update();
  right = right && std::abs(optimizer.weights[0][0] - 0.94F) < 1e-6F &&
          optimizer.weights[1][0] == 1.0F && std::abs(optimizer.weights[1][1] - 0.92F) < 1e-6F;
  optimizer.scaled[0][0] = half(std::numeric_limits<float>::infinity());
  right = right && scaler.step(optimizer).skipped;
  return right ? 0 : 1;
}

//// grad_scaler
// Three batches whose gradients are 0.5, an Inf, and 3, which is clipped to 1.

static const std::vector<float> batches{0.5F, std::numeric_limits<float>::infinity(), 3.0F};
static std::vector<float> backward(const std::vector<float>& weights, float batch, float loss) {
  return std::vector<float>(weights.size(), batch * loss);
}

#include BLOCK

int main() {
  Sgd optimizer{{0.0F}, {}};
  train(optimizer);
  return optimizer.weights[0] == 0.0F - 0.1F * 0.5F - 0.1F ? 0 : 1;
}

//// gradient_penalty
// A training with libtorch whose loss has the norm of its gradient as a penalty, beside the same
// without a loss scale.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/sgd.h>
#include <headroom/adapters/torch.hpp>

static std::vector<at::Tensor> weights_at_start() {
  return {at::full({3}, 0.5F).requires_grad_(), at::ones({1}).requires_grad_()};
}
static at::Tensor norm(const std::vector<at::Tensor>& grads) {
  return (grads[0].pow(2).sum() + grads[1].pow(2).sum()).sqrt();
}
static at::Tensor loss_of(const std::vector<at::Tensor>& weights) {
  return (weights[0] * at::arange(3) + weights[1]).tanh().pow(2).sum();
}

int main() {
  auto parameters = weights_at_start(), expected = weights_at_start();
  const at::Tensor loss = loss_of(expected);
  const auto grads = torch::autograd::grad({loss}, expected, {}, true, true);
  (loss + 0.5 * norm(grads)).backward();

  torch::optim::SGD optimizer(parameters, 1.0);
  headroom::GradScaler<> scaler(65536.0);
  {
    const at::Tensor loss = loss_of(parameters);
#include BLOCK
  }
  bool is_same = true;
  for (std::size_t i = 0; i < 2; ++i)
    is_same =
        is_same && at::allclose(parameters[i], weights_at_start()[i] - expected[i].grad(), 1e-4);
  return is_same ? 0 : 1;
}

//// history
// Gradients that are computed in fp16 and widened. From step 200 on those of the decoder overflow
// at every scale.
#include <headroom/observe/history.hpp>
#include <map>

using Gradients = std::map<std::string, std::vector<float>>;

static Gradients backward(int step, float loss) {
  const std::vector<headroom::half> encoder(3, headroom::half(loss * 1e-4F));
  const std::vector<headroom::half> decoder(3, headroom::half(loss * (step >= 200 ? 1e6F : 1e-3F)));
  return {{"encoder", headroom::cast<float>(encoder)}, {"decoder", headroom::cast<float>(decoder)}};
}
struct Optimizer {
  Gradients grads;
  Gradients& gradients() { return grads; }
  void step() {}
};

int main() {
  headroom::GradScaler<> scaler;
  Optimizer optimizer;
#include BLOCK
}

//// layers
// Two layers with gradients; that of the second overflows in the second of two iterations.

struct Parameter {
  std::vector<float> weights, grads;
};

#include BLOCK

void Optimizer::step() {
  for (Parameter* p : parameters) p->weights[0] -= p->grads[0];
}

int main() {
  Parameter body{{0.0F}, {0.0F}}, head{{0.0F}, {0.0F}};
  Optimizer optimizer{{&body, &head}};
  headroom::GradScaler<> scaler;
  for (const float gradient : {2.0F, std::numeric_limits<float>::infinity()}) {
    body.grads = {scaler.scale(1.0F)};
    head.grads = {scaler.scale(gradient)};
    const auto result = scaler.step(optimizer);
    scaler.update();
    if (result.skipped && result.nonfinite->path != "[1]") return 1;
  }
  return body.weights[0] == -1.0F && head.weights[0] == -2.0F && scaler.get_scale() == 16384.0F ? 0
                                                                                                : 1;
}

//// mpi_loop
// One rank whose gradients are those of a loss w * batch.
#include <exception>
#include <headroom/adapters/mpi.hpp>

using Batch = float;
struct Sgd {
  std::vector<float> weights{1.0F}, grads{0.0F};
  auto& gradients() { return grads; }
  void step() { weights[0] -= grads[0]; }
};
static void sum_over_ranks(const std::vector<float>&) {}
static void backward(Sgd& model, Batch batch, float loss) { model.grads[0] = batch * loss; }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    Sgd optimizer;
    int ranks = 0, rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Sgd& model = optimizer;
    const std::vector<Batch> batches_of_this_rank{0.25F, 0.5F};
#include BLOCK
    if (model.weights[0] != 0.25F || scaler.policy().counter() != 2) return 1;
  }
  MPI_Finalize();
  return 0;
}

//// mpi_policy
// One step of one rank.
#include <headroom/adapters/mpi.hpp>

struct Sgd {
  static void step(std::vector<float>& weights, const std::vector<float>& grads) {
    weights[0] -= grads[0];
  }
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    headroom::MpiReducer reducer(MPI_COMM_WORLD);
    headroom::DynamicLossScale loss_scale;
    std::vector<float> weights{1.0F};
    const std::vector<headroom::half> grads16{headroom::half(loss_scale.scale(0.25F))};
    Sgd optimizer;
#include BLOCK
    if (weights[0] != 0.75F || loss_scale.counter() != 1) return 1;
  }
  MPI_Finalize();
  return 0;
}

//// other_engine
// An engine of two ranks. The other rank has found 12 and 144.
#include <cstdint>

struct Engine {
  static double all_reduce_max(double value) { return std::max(value, 12.0); }
  static double all_reduce_sum(double value) { return value + 144.0; }
  static double all_reduce_min(double value) { return std::min(value, 1.0); }
  static std::uint64_t all_reduce_max(std::uint64_t digest) { return digest; }
  static std::uint64_t all_reduce_min(std::uint64_t digest) { return digest; }
};
struct Sgd {
  std::vector<float> grads{3.0F, 4.0F};
  auto& gradients() { return grads; }
  void step() {}
};

int main() {
  headroom::GradScaler<> scaler(1.0);
  const Engine comm;
  Sgd optimizer;
#include BLOCK
  const headroom::GradientNorm found = scaler.unscale_and_clip_(optimizer, 1.0);
  return found.finite && found.norm == 13.0 && found.max_abs == 12.0 ? 0 : 1;
}

//// own_policy
// A policy of a user's own in a GradScaler.

#include BLOCK

int main() {
  std::vector<float> grads{std::numeric_limits<float>::infinity()};
  if (scaler.get_scale() != 6561.0F || !scaler.step_gradients(grads, [](auto&) {}).skipped)
    return 1;
  scaler.update();
  headroom::GradScaler loaded{Thirds()};
  loaded.load_state_dict(scaler.state_dict());
  if (loaded.get_scale() != 2187.0F) return 1;
  const auto [unscaled, report] =
      Thirds(2.0F).unscale(std::vector<headroom::half>{headroom::half(3.0F)});
  return scaler.get_scale() == 2187.0F && report.finite && unscaled[0] == 1.5F ? 0 : 1;
}

//// quantize_loop
// Three steps of a model of two tensors, the last with an Inf. The loss scale, which starts at 4,
// doubles after each finite step and halves after the Inf.
#include <headroom/quantize.hpp>

template <class T>
struct ModelOf {
  std::vector<T> body, head;
  HEADROOM_TREE(ModelOf, body, head);
};
using Model = ModelOf<float>;
using Batch = float;

Model backward(const Model& weights, Batch batch, float loss_scale) {
  return {{batch * weights.body[0] * loss_scale}, {batch * loss_scale}};
}
int steps = 0;
void step(Model& model, const Model& grads) {
  model.body[0] -= grads.body[0];
  ++steps;
}

int main() {
  Model model{{2.0F}, {0.0F}};
  const std::vector<Batch> batches{0.25F, 0.25F, std::numeric_limits<float>::infinity()};
  headroom::LossScaleConfig config;
  config.initial_scale = 4.0F;
  config.growth_interval = 1;
  headroom::DynamicLossScale loss_scale(config);
#include BLOCK
  // At loss scale 8, the largest gradients are those of the first step: 4 in the body, 2 in the
  // head.
  const bool scales_follow =
      grad_scales.scales()[0] == 57344.0F / 4 && grad_scales.scales()[1] == 57344.0F / 2;
  return steps == 2 && loss_scale.loss_scale() == 8.0F && scales_follow ? 0 : 1;
}

//// quantize_mx
// A block of large and one of small numbers, all exact in e4m3 with their own scales.
#include <headroom/quantize.hpp>

int main() {
  std::vector<float> x(40, 1024.0F);
  for (std::size_t i = 32; i < x.size(); ++i) x[i] = 0x1p-100F;
  const std::vector<float> before = x;
#include BLOCK
  return x == before && scales.size() == 2 && float(scales[1]) < 0x1p-100F ? 0 : 1;
}

//// saved
// A policy with settings of its own, and the text of its saved state.
#include <headroom/state/text.hpp>
#include <sstream>

int main() {
  headroom::LossScaleConfig config;
  config.initial_scale = 1024.0F;
  config.growth_interval = 500;
  headroom::DynamicLossScale loss_scale(config);
  loss_scale = loss_scale.adjust(true);
  const headroom::DynamicLossScale before = loss_scale;
#include BLOCK
  return loss_scale == before && text.str() == to_text(before.state_dict()) ? 0 : 1;
}

//// skipped_step
// A step that overflows in layers[2].weight[17].
#include <array>

struct Layer {
  std::vector<float> weight = std::vector<float>(20);
  HEADROOM_TREE(Layer, weight)
};
struct Model {
  std::array<Layer, 3> layers;
  HEADROOM_TREE(Model, layers)
};
struct Optimizer {
  Model grads;
  Model& gradients() { return grads; }
  void step() {}
};

int main() {
  Optimizer optimizer;
  optimizer.grads.layers[2].weight[17] = std::numeric_limits<float>::infinity();
  headroom::GradScaler<> scaler;
#include BLOCK
  return result.nonfinite && result.nonfinite->path == "layers[2].weight" &&
                 result.nonfinite->index == 17
             ? 0
             : 1;
}

//// spikes
// A spike, an overflow and an ordinary norm, after norms of about 1. Only the last one leads to a
// step.
#include <headroom/observe/spike_guard.hpp>

struct Optimizer {
  std::vector<float> weights, scaled;
  std::vector<float>& gradients() { return scaled; }
  void step() { weights[0] -= scaled[0]; }
};

int main() {
  headroom::GradScaler<> scaler(1024.0);
  headroom::SpikeGuard guard;
  for (int i = 0; i < 100; ++i) guard = guard.adjust(1.0 + i % 4 / 16.0);
  Optimizer optimizer{{0.0F}, {0.0F}};
  for (const float gradient : {100.0F, std::numeric_limits<float>::infinity(), 0.75F}) {
    optimizer.scaled = {gradient * scaler.get_scale()};
#include BLOCK
  }
  return optimizer.weights[0] == -0.75F && scaler.get_scale() == 512.0F &&
                 guard.values().size() == 102
             ? 0
             : 1;
}

//// structs
// Structs: a class template, one that inherits another, and one with `rebind`.

#include BLOCK

using headroom::half;

template <class T>
struct Pair {
  Layer<T> first;
  HEADROOM_TREE(Pair, first)
};
struct Floats {
  std::vector<float> w;
  HEADROOM_TREE(Floats, w)
};
struct Halves {
  std::vector<half> w;
  HEADROOM_TREE(Halves, w)
};
template <>
struct headroom::tree_traits<Floats> {
  template <class To>
  using rebind = std::conditional_t<std::is_same_v<To, half>, Halves, Floats>;
};
static_assert(std::is_same_v<decltype(headroom::cast<half>(Pair<float>())), Pair<half>>);
static_assert(std::is_same_v<decltype(headroom::cast<half>(Floats())), Halves>);

int main() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Model model{{{nan}, {1.0F}}, {{2.0F}, {nan, 3.0F}}};
  headroom::scale_in_place(model, 0.0F);
  if (headroom::all_finite(model)) return 1;  // the comment says that NaN stays
  clear(model);
  if (headroom::measure(model).max_abs != 0.0 || !headroom::all_finite(model)) return 1;

  Adapted adapted{{{{1.0F}, {2.0F}}, {{3.0F}, {4.0F}}}, {5.0F}};
  headroom::scale_in_place(adapted, 2.0F);
  if (adapted.body.w[0] != 2.0F || adapted.adapter[0] != 10.0F ||
      headroom::leaf_count(adapted) != 5)
    return 1;

  const Halves scaled{{half(4.0F)}};  // it has no rebind
  Floats unscaled{{0.0F}};
  return headroom::unscale_into(scaled, unscaled, 2.0F).finite && unscaled.w[0] == 2.0F ? 0 : 1;
}

//// torch_loop
// A training loop of libtorch's around what a code block says of GradScaler.
#include <torch/torch.h>
#include <headroom/adapters/torch.hpp>
#include <utility>

torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::mse_loss(output, target);
}

int main() {
  torch::nn::Linear model(3, 1);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  const std::vector<std::pair<torch::Tensor, torch::Tensor>> batches{
      {torch::ones({2, 3}), torch::ones({2, 1})}};
  int skipped = 0;
#include BLOCK
  return skipped;
}

//// twice
// A model of two layers, of which one ignores the gradient that comes in.

struct Model {
  std::vector<float> body, head;
  HEADROOM_TREE(Model, body, head)
};
static Model backward(const Model&, float batch, float scale) {
  return {{batch * scale, 0.0F}, {6.0F * batch, 8.0F * batch}};
}

int main() {
  const Model model;
  const float batch = 0.5F;
#include BLOCK
}

//// two_optimizers
// Two optimizers, whose gradients have a norm of 5 together; then one of them overflows.
#include <tuple>

struct Optimizer {
  std::vector<float> weights{0.0F}, grads{0.0F};
  std::vector<float>& gradients() { return grads; }
  void step() { weights[0] -= grads[0]; }
};

int main() {
  Optimizer encoder, decoder;
  headroom::GradScaler<> scaler;
  for (const float gradient : {3.0F, std::numeric_limits<float>::infinity()}) {
    encoder.grads = {scaler.scale(gradient)};
    decoder.grads = {scaler.scale(4.0F)};
#include BLOCK
  }
  return encoder.weights[0] == -0.6F && decoder.weights[0] == -0.8F &&
                 scaler.get_scale() == 16384.0F
             ? 0
             : 1;
}

//// uneven
// Two ranks, each in a thread. The gradients are those of a loss 2 * w * batch. The second rank has
// fewer batches.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

namespace {

using Batch = float;
constexpr int ranks = 2;

// Adds what the ranks pass.
class Comm {
 public:
  double sum(double here) {
    std::unique_lock<std::mutex> lock(mutex_);
    (met_ == 0 ? sum_ : other_) = here;
    const int meeting = meetings_;
    if (++met_ == ranks) {
      all_ = sum_ + other_;
      met_ = 0;
      ++meetings_;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, std::chrono::seconds(20),
                                  [&] { return meetings_ != meeting; })) {
      throw std::runtime_error("the other rank does not come");
    }
    return all_;
  }

 private:
  double sum_ = 0.0, other_ = 0.0, all_ = 0.0;
  int met_ = 0, meetings_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
} comm;

struct Sgd {
  std::vector<float> weights{0.0F}, grads{0.0F};
  auto& gradients() { return grads; }
  void step() { weights[0] -= grads[0]; }
};
void backward(Sgd& model, Batch batch, float loss) { model.grads[0] = 2.0F * batch * loss; }
void sum_over_ranks(std::vector<float>& grads) {
  grads[0] = static_cast<float>(comm.sum(static_cast<double>(grads[0])));
}

float weight_of_rank(const std::vector<Batch>& batches_of_this_rank) {
  const std::size_t most_batches = 5;
  Sgd optimizer;
  Sgd& model = optimizer;
  headroom::GradScaler<> scaler(1024.0);
  scaler.set_reducer([](headroom::GradientSums sums) {
    sums.sum_of_squares = comm.sum(sums.sum_of_squares);
    return sums;
  });
#include BLOCK
  return model.weights[0];
}

}  // namespace

int main() {
  float other = 0.0F;
  std::thread thread([&] { other = weight_of_rank({1.0F, 1.0F, 1.0F}); });
  const float one = weight_of_rank({1.0F, 1.0F, 1.0F, 1.0F, 1.0F});
  thread.join();
  return one == -8.0F && other == -8.0F ? 0 : 1;
}

//// ways
// One step, whose gradients are the weights themselves.

using Weights = std::vector<float>;

static std::vector<headroom::half> backward(const Weights& weights, float loss) {
  return headroom::cast<headroom::half>(headroom::scale(weights, loss));
}
static void update(Weights& weights, const Weights& grads) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.5F * grads[i];
}

int main() {
  Weights weights{1.0F, 0.25F};
  headroom::DynamicLossScale loss_scale;
#include BLOCK
  return weights == Weights{0.5F, 0.125F} && loss_scale.counter() == 1 ? 0 : 1;
}

//// widened
// One step with a gradient of 2^-25, which is zero in fp16 without a scale.

struct Optimizer {
  static void step(std::vector<float>& weights, const std::vector<float>& grads) {
    weights[0] -= grads[0];
  }
};

int main() {
  headroom::GradScaler<> scaler;
  std::vector<float> weights{0.0F};
  const std::vector<headroom::half> grads16{headroom::half(scaler.scale(0x1p-25F))};
  Optimizer optimizer;
#include BLOCK
  return weights[0] == -0x1p-25F && scaler.policy().counter() == 1 ? 0 : 1;
}

//// openmp
#include BLOCK

int main() {
  headroom::GradScaler<> scaler(4.0);
  use(scaler);
  struct {
    std::vector<float> grads = std::vector<float>(1 << 20, 8.0F);
    auto& gradients() { return grads; }
    void step() {}
  } optimizer;
  (void)scaler.scale(1.0F);
  return scaler.step(optimizer).report.max_abs == 2.0 ? 0 : 1;
}
