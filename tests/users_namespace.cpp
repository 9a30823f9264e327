// The user's namespace has a function of every name that a function of headroom's has, each a better match for anything: none
// of them is called by headroom. (An internal call has to say `detail::`, or it finds them through the types of its arguments.)
#include <headroom/headroom.hpp>
#include <headroom/observe/exponent_histogram.hpp>
#include <headroom/observe/simulate.hpp>
#include <headroom/training/async_grad_scaler.hpp>
#include <headroom/training/reducer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/users_functions.hpp"

// Kernels take formats as arguments, so that a format is to be in a namespace without functions like theirs.
namespace formats {

struct Format : headroom::ieee_format<std::uint16_t, 6, 9> {};

}  // namespace formats

namespace users {

using headroom::GradientReport;

// ---- elements: of a format of the user's, and a type with that format ----

using Number = headroom::storage_float<formats::Format>;
struct Real {
  std::uint16_t bits;
};

// ---- tensors ----

template <class T>
struct Tensor {
  std::vector<T> values = std::vector<T>(4);
};
template <class T>
struct View {
  T* begin;
  std::size_t n;
};

// ---- branches ----

template <class T>
struct Layer {
  Tensor<T> weight;
  std::vector<T> bias = std::vector<T>(2);
  HEADROOM_TREE(Layer, weight, bias)
};
template <class T>
struct Two {
  Tensor<T> first, second;
};
template <class T>
auto children(Two<T>& two) {
  return std::tie(two.first, two.second);
}
template <class T>
struct Three {
  Layer<T> layer;
  auto children() { return std::tie(layer); }
};
template <class T>
struct Ring {
  std::vector<T> elements;
  auto begin() { return elements.begin(); }
  auto end() { return elements.end(); }
  auto begin() const { return elements.begin(); }
  auto end() const { return elements.end(); }
  [[nodiscard]] std::size_t size() const { return elements.size(); }
  void push_back(T element) { elements.push_back(std::move(element)); }
};
/// Of a dtype that is known at run time only.
struct Dynamic {
  std::vector<float> floats = {1.0F};
};
enum class Key { one, two };
struct Less {
  bool operator()(Key a, Key b) const { return static_cast<int>(a) < static_cast<int>(b); }
};
struct Hash {
  std::size_t operator()(Key key) const { return static_cast<std::size_t>(key); }
};
template <class T>
struct Model {
  Layer<T> layer;
  Two<T> two;
  Three<T> three;
  Ring<Tensor<T>> ring = {std::vector<Tensor<T>>(2)};
  std::map<Key, Tensor<T>, Less> map = {{Key::one, {}}};
  std::unordered_map<Key, Layer<T>, Hash> hashed = {{Key::two, {}}};
  std::variant<Tensor<T>, Layer<T>> either;
  std::optional<Layer<T>> maybe = Layer<T>();
  std::array<Tensor<T>, 2> array;
  std::tuple<Tensor<T>, std::vector<T>> tuple{Tensor<T>(), std::vector<T>(1)};
  std::pair<Tensor<T>, Ring<Layer<T>>> pair = {{}, {std::vector<Layer<T>>(1)}};
  T number{};
  HEADROOM_TREE(Model, layer, two, three, ring, map, hashed, either, maybe, array, tuple, pair, number)
};

// ---- what else is the user's ----

struct Executor {
  [[nodiscard]] std::size_t concurrency() const { return 3; }
  template <class Task>
  void run(std::size_t n, Task&& task) const {
    for (std::size_t i = n; i-- > 0;) task(i);
  }
};
struct Count {
  std::size_t* elements;
  void operator()(std::size_t, std::size_t, headroom::span<const float> block) const { *elements += block.size(); }
};

struct Growth : headroom::GrowAfterFiniteSteps {
  using GrowAfterFiniteSteps::GrowAfterFiniteSteps;
  struct Config {
    headroom::LossScaleConfig scale;
    template <class Visit>
    static constexpr void fields(Visit&&) {}
  };
  constexpr explicit Growth(const Config& config) noexcept : GrowAfterFiniteSteps(config.scale) {}
  constexpr bool grows(bool finite, const Config& config) noexcept { return GrowAfterFiniteSteps::grows(finite, config.scale); }
  constexpr void back_off(const Config& config) noexcept { GrowAfterFiniteSteps::back_off(config.scale); }
};
struct Backoff : headroom::BackOffAtOnce {
  using BackOffAtOnce::BackOffAtOnce;
};
using Policy = headroom::BasicDynamicLossScale<Growth, Backoff, headroom::IgnoreMagnitudes>;

/// A policy that is a class of the user's.
class OwnPolicy : public headroom::LossScaleVerbs<OwnPolicy> {
 public:
  using Config = headroom::LossScaleConfig;
  OwnPolicy() = default;
  explicit OwnPolicy(const headroom::DynamicLossScale& scale) : scale_(scale) {}
  [[nodiscard]] float loss_scale() const { return scale_.loss_scale(); }
  [[nodiscard]] OwnPolicy adjust(bool finite) const { return OwnPolicy(scale_.adjust(finite)); }
  [[nodiscard]] OwnPolicy adjust(const GradientReport& report) const { return OwnPolicy(scale_.adjust(report)); }
  [[nodiscard]] Config config() const { return scale_.config(); }
  [[nodiscard]] OwnPolicy with_config(const Config& config) const { return OwnPolicy(scale_.with_config(config)); }
  [[nodiscard]] OwnPolicy with_loss_scale(float scale) const { return OwnPolicy(scale_.with_loss_scale(scale)); }
  [[nodiscard]] headroom::StateDict state_dict() const {
    headroom::StateDict state = scale_.state_dict();
    state.set("policy", "users");
    return state;
  }
  [[nodiscard]] static OwnPolicy from_state_dict(headroom::StateDict state) {
    state.set("policy", "dynamic");
    return OwnPolicy(headroom::DynamicLossScale::from_state_dict(state));
  }
  friend bool operator==(const OwnPolicy& a, const OwnPolicy& b) { return a.scale_ == b.scale_; }

 private:
  headroom::DynamicLossScale scale_;
};

struct Optimizer {
  Model<float> grads;
  int steps = 0;
  Model<float>& gradients() { return grads; }
  Tensor<float>& duplicate_gradients() { return grads.layer.weight; }
  int step() { return ++steps; }
  int step(Model<float>&) { return ++steps; }
};
struct Reducer {
  headroom::GradientSums operator()(const headroom::GradientSums& here, std::uint64_t) const { return here; }
};

}  // namespace users

template <>
struct headroom::dtype_traits<users::Real> {
  using format = formats::Format;
};
template <class T>
struct headroom::tensor_traits<users::Tensor<T>> {
  using value_type = T;
  static T* data(users::Tensor<T>& tensor) { return tensor.values.data(); }
  static const T* data(const users::Tensor<T>& tensor) { return tensor.values.data(); }
  static std::size_t size(const users::Tensor<T>& tensor) { return tensor.values.size(); }
  static Layout layout(const users::Tensor<T>& tensor) {
    Layout layout;
    layout.push(2, 1);
    layout.push(static_cast<std::ptrdiff_t>(tensor.values.size() / 2), 2);
    return layout;
  }
  template <class Other>
  static bool same_structure(const users::Tensor<T>&, const Other&) {
    return true;
  }
  static const char* obstacle(const users::Tensor<T>&) { return nullptr; }
  template <class To>
  using rebind = users::Tensor<To>;
  template <class To>
  static rebind<To> like(const users::Tensor<T>& tensor) {
    return {std::vector<To>(tensor.values.size())};
  }
};
template <class T>
struct headroom::tensor_traits<users::View<T>> {
  using value_type = T;
  static T* data(const users::View<T>& view) { return view.begin; }
  static std::size_t size(const users::View<T>& view) { return view.n; }
};
template <class T>
struct headroom::tree_traits<users::Two<T>> {
  template <class Self>
  static auto children(Self& self) {
    return std::tie(self.first, self.second);
  }
};
template <class T>
struct headroom::tree_traits<users::Ring<T>> {
  static constexpr branch_kind kind = branch_kind::sequence;
  template <class To>
  using rebuilt = users::Ring<To>;
};
template <>
struct headroom::tree_traits<users::Dynamic> {
  static constexpr branch_kind kind = branch_kind::dynamic;
  template <class F>
  static void with_view(const users::Dynamic& node, F&& f) {
    f(users::View<float>{const_cast<float*>(node.floats.data()), node.floats.size()});
  }
  template <class To>
  static users::Dynamic like(const users::Dynamic& node) {
    return {std::vector<float>(node.floats.size())};
  }
  static users::Dynamic scaled(const users::Dynamic& node, float factor) {
    users::Dynamic result = node;
    for (float& value : result.floats) value *= factor;
    return result;
  }
};

namespace {

using users::Executor;
using users::Model;
using users::Number;
using users::Real;

/// Its elements are `value`.
template <class T>
Model<T> model_of(float value) {
  Model<float> floats;
  headroom::for_each_leaf(floats, [value](auto& leaf) {
    if constexpr (std::is_same_v<std::decay_t<decltype(leaf)>, float>) {
      leaf = value;
    } else {
      for (std::size_t i = 0; i < headroom::detail::size_of(leaf); ++i) headroom::detail::data_of(leaf)[i] = value;
    }
  });
  return headroom::cast<T>(floats);
}
double largest(const Model<float>& model) { return headroom::measure(model).max_abs; }

template <class T>
void check_verbs(const Executor& executor) {
  Model<T> model = model_of<T>(4.0F);
  Model<float> floats = model_of<float>(0.0F);
  CHECK(headroom::leaf_count(model) == 22);
  CHECK(headroom::element_count(model) == headroom::element_count(floats));
  CHECK(largest(headroom::cast<float>(executor, headroom::scale(executor, model, 2.0))) == 8.0);
  CHECK(largest(headroom::cast<float>(executor, headroom::scale(executor, model_of<T>(1.0F), 2.0))) == 2.0);
  headroom::scale_in_place(executor, model, 2.0);
  auto [grads, report] = headroom::unscale<float>(executor, model, 4.0F);
  CHECK(report.max_abs == 2.0);
  CHECK(largest(grads) == 2.0);
  CHECK(headroom::unscale(executor, model, 4.0F).report.max_abs == 2.0);
  CHECK(headroom::unscale_into(executor, model, floats, 2.0F).max_abs == 4.0);
  CHECK(headroom::accumulate_into(executor, model, floats, 2.0F).max_abs == 4.0);
  CHECK(largest(floats) == 8.0);
  CHECK(headroom::unscale_in_place(executor, model, 2.0F).max_abs == 4.0);
  headroom::cast_into(executor, model, floats);
  headroom::cast_into(executor, model, floats, headroom::saturate);
  CHECK(largest(headroom::cast<float>(executor, model, headroom::saturate)) == 4.0);
  CHECK(headroom::unscale_and_clip_in_place(executor, floats, 2.0F, 0.5).max_abs == 2.0);
  CHECK(headroom::clip_by_global_norm(executor, floats, 0.25).norm < 0.51);
  CHECK(headroom::global_norm(executor, floats) < 0.26);
  CHECK(headroom::all_finite(executor, model));
  CHECK_FALSE(headroom::find_nonfinite(executor, model));
  std::size_t elements = 0;
  headroom::for_each_block(executor, model, users::Count{&elements});
  CHECK(elements == headroom::element_count(model));
  (void)headroom::exponent_histogram(model);
}

template <class Policy>
void check_policy(const Policy& policy) {
  Model<Number> model = model_of<Number>(1.0F);
  model = policy.scale(std::move(model));
  CHECK(policy.template unscale<float>(Executor(), model).report.max_abs == 1.0);
  CHECK(policy.unscale_in_place(model).max_abs == 1.0);
  policy.scale_in_place(Executor(), model);
  Model<float> floats = model_of<float>(0.0F);
  CHECK(policy.unscale_into(model, floats).max_abs == 1.0);
  CHECK(policy.unscale_and_clip_in_place(model, 1.0).max_abs == 1.0);
  const headroom::AnyLossScale any(policy);
  CHECK(any.adjust(false).loss_scale() == policy.adjust(false).loss_scale());
  CHECK(any.with_loss_scale(8.0F).loss_scale() == 8.0F);
  CHECK(any.with_config(any.config()) == any);
  CHECK(headroom::AnyLossScale(any.template get<Policy>()) == any);
  (void)headroom::simulate(policy, {true, false});
  (void)headroom::simulate<headroom::half>(policy, {1.0, 2.0});
  users::Reducer reducer;
  CHECK(headroom::all_reduce(headroom::GradientReport{true, 1.0}, reducer, policy).max_abs == 1.0);
}

/// An iteration of a scaler, or of one whose steps are done by another thread.
template <class Policy>
void check_scaler(const Policy& policy) {
  {
    headroom::GradScaler<Policy> scaler(policy);
    scaler.set_reducer(users::Reducer());
    scaler.set_executor(headroom::parallel(2));
    scaler.set_growth_interval(100);
    scaler.set_on_floor([](const Policy&) {});
    users::Optimizer optimizer{model_of<float>(scaler.scale(1.0F))};
    (void)scaler.scale(model_of<float>(1.0F));
    CHECK(scaler.unscale_(optimizer).max_abs == 1.0);
    CHECK_FALSE(scaler.step(optimizer).skipped);
    scaler.update();
    scaler.load_state_dict(scaler.state_dict());
    optimizer.grads = model_of<float>(scaler.scale(1.0F));
    optimizer.grads.number = std::numeric_limits<float>::infinity();
    (void)scaler.unscale_and_clip_(optimizer, 1.0);
    const auto result = scaler.step(optimizer);
    CHECK(result.skipped);
    CHECK(result.nonfinite->path == "number");
    scaler.update();
  }
  headroom::AsyncGradScaler<Policy> scaler(policy);
  users::Optimizer optimizer;
  (void)scaler.scale(model_of<float>(1.0F));
  CHECK_FALSE(scaler.submit_gradients(optimizer, model_of<float>(1.0F)).get().skipped);
  scaler.update();
  (void)scaler.scale(1.0F);
  CHECK_FALSE(scaler.submit(optimizer).get().skipped);
  scaler.update();
}

}  // namespace

TEST_CASE("verbs on trees in a namespace that has functions of headroom's names") { check_verbs<Number>(Executor()); }

TEST_CASE("views, large leaves, nodes of dynamic dtype") {
  std::vector<Real> memory(std::size_t{1} << 20);
  const std::vector<users::View<Real>> views = {{memory.data() + 5, memory.size() - 5}, {memory.data(), 5}};
  headroom::scale_in_place(Executor(), views, 2.0);
  CHECK(headroom::measure(Executor(), views).max_abs == 0.0);
  CHECK(headroom::unscale_in_place(Executor(), views, 2.0F).finite);
  memory[7].bits = formats::Format::infinity_bits;
  CHECK(headroom::find_nonfinite(Executor(), views)->path == "[0]");
  CHECK(headroom::scale(Executor(), users::Dynamic(), 2.0).floats[0] == 2.0F);
  CHECK(headroom::measure(users::Dynamic()).max_abs == 1.0);
  CHECK(headroom::unscale<float>(users::Dynamic(), 2.0F).grads.floats.size() == 1);
  users::Dynamic node;
  headroom::scale_in_place(node, 4.0);
  CHECK(node.floats[0] == 4.0F);
}

TEST_CASE("kernels on elements of the user's") {
  std::vector<Real> reals(40);
  std::vector<Number> numbers(40, Number(2.0F));
  headroom::cast_into(numbers, reals);
  headroom::scale_in_place(reals, 2.0);
  headroom::scale_in_place(reals, 2.0);
  CHECK(headroom::unscale_into(reals, numbers, 2.0F).max_abs == 4.0);
  CHECK(headroom::unscale_in_place(reals, 2.0F).max_abs == 4.0);
  headroom::cast_into(numbers, reals);
  CHECK(headroom::all_finite(reals));
  CHECK(headroom::measure(reals).max_abs == 4.0);
  CHECK(headroom::scale(reals[0], 2.0) == 8.0F);
}

TEST_CASE("policies of the user's, and of pieces of the user's") {
  check_policy(users::Policy());
  check_policy(users::OwnPolicy());
}

TEST_CASE("scalers with optimizer, reducer and policy of the user's") {
  check_scaler(users::Policy());
  check_scaler(users::OwnPolicy());
}
