// Logistic regression with xtensor arrays: float master weights, forward and backward in fp16.

#include <cmath>
#include <cstdio>
#include <headroom/adapters/xtensor.hpp>
#include <headroom/headroom.hpp>

using Half = xtl::half_float;

/// Weights of any dtype, or their gradients.
template <class T>
struct Model {
  xt::xtensor<T, 1> weight = xt::zeros<T>({2});
  xt::xtensor<T, 1> bias = xt::zeros<T>({1});
  HEADROOM_TREE(Model, weight, bias)
};

/// The weight of this loss among several. It is so small that fp16 rounds the gradients to zero.
constexpr float loss_weight = 1e-8F;

struct Data {
  xt::xtensor<float, 2> points;  // n x 2
  xt::xtensor<float, 1> labels;  // 0 or 1
};

/// Points on a spiral. The label says on which side of a line a point lies.
Data make_data(std::size_t n) {
  Data data{xt::zeros<float>({n, std::size_t{2}}), xt::zeros<float>({n})};
  for (std::size_t i = 0; i < n; ++i) {
    const auto t = static_cast<float>(i);
    data.points(i, 0) = 0.1F * std::cos(2.4F * t) * std::sqrt(t);
    data.points(i, 1) = 0.1F * std::sin(2.4F * t) * std::sqrt(t);
    data.labels(i) = data.points(i, 0) > 0.5F * data.points(i, 1) ? 1.0F : 0.0F;
  }
  return data;
}

xt::xtensor<float, 1> probabilities(const Model<Half>& model, const Data& data) {
  const auto weight = headroom::cast<float>(model.weight);
  const auto bias = headroom::cast<float>(model.bias);
  const xt::xtensor<float, 1> logits = xt::sum(data.points * weight, {1}) + bias(0);
  return 1.0F / (1.0F + xt::exp(-logits));
}

/// The gradients of loss_scale * loss_weight * (mean cross-entropy), rounded to fp16.
Model<Half> backward(const Model<Half>& model, const Data& data, float loss_scale) {
  const float factor = loss_scale * loss_weight / static_cast<float>(data.labels.size());
  const xt::xtensor<float, 1> errors = (probabilities(model, data) - data.labels) * factor;
  Model<float> gradients;
  gradients.weight = xt::sum(xt::view(errors, xt::all(), xt::newaxis()) * data.points, {0});
  gradients.bias = xt::sum(errors, {0}, xt::keep_dims);
  return headroom::cast<Half>(gradients);
}

double accuracy(const Model<float>& model, const Data& data) {
  const auto found = probabilities(headroom::cast<Half>(model), data);
  std::size_t right = 0;
  for (std::size_t i = 0; i < data.labels.size(); ++i)
    right += (found(i) > 0.5F) == (data.labels(i) > 0.5F) ? 1U : 0U;
  return 100.0 * static_cast<double>(right) / static_cast<double>(data.labels.size());
}

template <class Policy>
double train(Policy loss_scale, const Data& data) {
  Model<float> model;
  for (int step = 0; step < 300; ++step) {
    const auto grads16 = backward(headroom::cast<Half>(model), data, loss_scale.scale(1.0F));
    const auto [grads, report] = loss_scale.unscale(grads16);
    if (report.finite) {
      model.weight -= 10.0F / loss_weight * grads.weight;
      model.bias -= 10.0F / loss_weight * grads.bias;
    }
    loss_scale = loss_scale.adjust(report);
  }
  return accuracy(model, data);
}

int main() {
  const Data data = make_data(200);
  const double with_scale = train(headroom::DynamicLossScale(), data);
  const double without = train(headroom::NoOpLossScale(), data);
  std::printf("accuracy in fp16: %.1f %% with a dynamic loss scale, %.1f %% without\n", with_scale,
              without);
  return with_scale > 95.0 && with_scale > without ? 0 : 1;
}
