// The types of a user whose namespace has a greedy template for every function name of headroom:
// see greedy.sh.
#include <bits/stdc++.h>

#include <nlohmann/json.hpp>

namespace users {
struct Format;
#include "greedy_names.inl"
}  // namespace users

#include <headroom/adapters/dlpack.hpp>
#include <headroom/adapters/nlohmann_json.hpp>
#include <headroom/headroom.hpp>
#include <headroom/observe/exponent_histogram.hpp>
#include <headroom/observe/history.hpp>
#include <headroom/observe/simulate.hpp>
#include <headroom/quantize.hpp>
#include <headroom/state/text.hpp>
#include <headroom/training/async_grad_scaler.hpp>

namespace users {

enum class Key { first, second };

/// A dtype.
struct Half {
  std::uint16_t stored = 0x3C00;
};
/// A format.
struct Format : headroom::ieee_format<std::uint16_t, 5, 10> {};
/// A tensor, with strides.
template <class T>
struct Tensor {
  std::vector<T> elements;
  Tensor() : Tensor(6) {}
  explicit Tensor(std::size_t n) : elements(2 * n, T()) {}
};
template <class T>
struct Layer {
  Tensor<T> weight;
  std::map<std::string, std::vector<T>> heads{{"one", {T(1.0F)}}};
  std::map<Key, Tensor<T>> by_key{{Key::second, Tensor<T>()}};
  HEADROOM_TREE(Layer, weight, heads, by_key)
};
template <class T>
struct PairOf {
  Layer<T> a, b;
};
using Pair = PairOf<float>;

struct Executor {
  [[nodiscard]] static std::size_t concurrency() { return 2; }
  static void run(std::size_t n, const std::function<void(std::size_t)>& task) {
    while (n-- > 0) task(n);
  }
};
struct Policy : headroom::LossScaleVerbs<Policy> {
  float scale_ = 4.0F;
  [[nodiscard]] float loss_scale() const { return scale_; }
  [[nodiscard]] Policy adjust(bool) const { return *this; }
  [[nodiscard]] Policy adjust(const headroom::GradientReport&) const { return *this; }
  [[nodiscard]] headroom::StateDict state_dict() const { return {{"scale", 4.0}}; }
  [[nodiscard]] static Policy from_state_dict(const headroom::StateDict&) { return {}; }
  friend bool operator==(const Policy&, const Policy&) { return true; }
};
struct Optimizer {
  Pair grads;
  int steps = 0;
  Pair& gradients() { return grads; }
  int step() { return ++steps; }
};
struct Deferred {
  static constexpr bool takes_gradient_factor = true;
  Pair grads;
  Pair& gradients() { return grads; }
  void step(headroom::GradientFactor) {}
};

}  // namespace users

template <>
struct headroom::dtype_traits<users::Half> {
  using format = headroom::binary16;
};
template <class T>
struct headroom::tensor_traits<users::Tensor<T>> {
  using value_type = T;
  static T* data(users::Tensor<T>& tensor) { return tensor.elements.data(); }
  static const T* data(const users::Tensor<T>& tensor) { return tensor.elements.data(); }
  static std::size_t size(const users::Tensor<T>& tensor) { return tensor.elements.size() / 2; }
  static Layout layout(const users::Tensor<T>& tensor) {
    Layout layout;
    layout.push(static_cast<std::ptrdiff_t>(tensor.elements.size() / 2), 2);
    return layout;
  }
  template <class To>
  using rebind = users::Tensor<To>;
  template <class To>
  static rebind<To> like(const users::Tensor<T>& tensor) {
    return rebind<To>(tensor.elements.size() / 2);
  }
};
template <class T>
struct headroom::tree_traits<users::PairOf<T>> {
  static auto children(users::PairOf<T>& self) { return std::tie(self.a, self.b); }
  template <class To>
  using rebind = users::PairOf<To>;
};

namespace {

int failures = 0;
void expect(bool holds, int line) {
  if (!holds) std::printf("greedy.cpp:%d: a wrong result\n", line), ++failures;
}
#define EXPECT(...) expect((__VA_ARGS__), __LINE__)

void verbs() {
  const users::Executor executor;
  users::Pair pair, other;
  headroom::scale_in_place(pair, 8.0, executor);
  EXPECT(pair.a.heads["one"][0] == 8.0F);
  EXPECT(headroom::unscale(pair, 2.0F, executor).report.max_abs == 4.0);
  EXPECT(headroom::unscale<headroom::same_dtype>(pair, 2.0F).report.max_abs == 4.0);
  EXPECT(headroom::unscale_into(pair, other, 4.0F, executor).max_abs == 2.0);
  EXPECT(headroom::accumulate_into(pair, other, 4.0F, executor).max_abs == 2.0);
  EXPECT(other.b.heads["one"][0] == 4.0F);
  EXPECT(headroom::unscale_and_clip_in_place(pair, 2.0F, 1.0, executor).max_abs == 4.0);
  EXPECT(headroom::clip_by_global_norm(pair, 0.5, executor).finite);
  EXPECT(headroom::global_norm(headroom::scale(pair, 2.0, executor)) < 1.1);
  (void)headroom::unscale_in_place(pair, 2.0F, executor);
  headroom::cast_into(pair, other, headroom::saturate, executor);
  pair.b.by_key[users::Key::second].elements[2] = HUGE_VALF;
  const auto found = headroom::find_nonfinite(pair, executor);
  EXPECT(found && found->path == "<1>.by_key[1]" && found->index == 1);
  EXPECT(!headroom::all_finite(pair, executor) && !headroom::measure(pair, executor).finite);
  std::size_t blocks = 0;
  headroom::for_each_block(
      other, [&](std::size_t, std::size_t, headroom::span<const float>) { ++blocks; }, executor);
  EXPECT(blocks == 6 && headroom::leaf_count(other) == 6);
  headroom::for_each_leaf_with_path(other, [](const std::string&, const auto&) {});
  (void)headroom::exponent_histogram(other);
}

void dtypes() {
  std::vector<users::Tensor<users::Half>> halves(2);
  EXPECT(headroom::unscale(halves, 2.0F).grads[1].elements[0] == 0.5F);
  EXPECT(headroom::measure(headroom::cast<double>(halves)).max_abs == 1.0);
  EXPECT(headroom::measure(headroom::cast<headroom::float8_e4m3>(halves, headroom::saturate))
             .max_abs == 1.0);
  std::vector<float> wide(64, 3.0F);
  std::vector<users::Half> narrow(64);
  headroom::cast_into(wide, narrow);
  EXPECT(headroom::measure(narrow).max_abs == 3.0 && narrow[0].stored == 0x4200);
  EXPECT(headroom::unscale_in_place<headroom::allow_fp16_gradients>(narrow, 3.0F).max_abs == 1.0);
  const auto own = headroom::cast<headroom::storage_float<users::Format>>(wide);
  EXPECT(headroom::measure(own).norm == 24.0 && headroom::unscale(own, 2.0F).grads[63] == 1.5F);
}

template <class AnyPolicy>
void scalers(const AnyPolicy& policy) {
  headroom::GradScaler<AnyPolicy> scaler(policy);
  users::Optimizer optimizer, temporary;
  users::Deferred deferred;
  const users::Executor executor;
  scaler.set_executor(executor);
  (void)scaler.scale(optimizer.grads);
  (void)scaler.unscale_(optimizer);
  EXPECT(scaler.step(optimizer).value == 1);
  (void)scaler.unscale_and_clip_(deferred, 1.0);
  scaler.step(deferred);
  scaler.step(std::move(temporary));
  scaler.step_gradients(std::as_const(optimizer.grads), [](auto&) {});
  scaler.update();
  scaler.load_state_dict(headroom::from_text(headroom::to_text(scaler.state_dict())));
  headroom::AsyncGradScaler<AnyPolicy> async(policy);
  (void)async.submit(optimizer);
  async.update();
  async.synchronize();
  EXPECT(optimizer.steps == 2);
}

void policies() {
  users::Pair pair;
  const users::Policy own;
  EXPECT(own.unscale(pair).report.max_abs == 0.25 &&
         own.unscale_and_clip_in_place(pair, 1.0).max_abs == 0.25);
  scalers(own);
  scalers(headroom::DynamicLossScale());
  scalers(own.loss_scale() > 1.0F ? headroom::make_loss_scale("apex") : headroom::AnyLossScale());
  (void)headroom::simulate(own, std::vector<double>{1.0});
  headroom::History history;
  history.record(headroom::StepResult<int>());
  const headroom::DynamicLossScale dynamic = headroom::presets::torch(8.0);
  const auto state = nlohmann::json(dynamic.state_dict()).get<headroom::StateDict>();
  EXPECT(headroom::DynamicLossScale::from_state_dict(state) == dynamic);
}

void fp8() {
  users::Pair pair;
  auto narrow = headroom::cast<headroom::float8_e4m3>(pair);
  std::vector<float> scales(headroom::leaf_count(pair), 2.0F), max_abs(scales.size());
  (void)headroom::quantize_into(pair, narrow, scales, max_abs, users::Executor());
  headroom::dequantize_into(narrow, pair, scales, users::Executor());
  EXPECT(max_abs[1] == 1.0F && pair.a.heads["one"][0] == 4.0F);
}

}  // namespace

int main() {
  verbs();
  dtypes();
  policies();
  fp8();
  return failures;
}
