#pragma once

#include <headroom/gpu.hpp>

#include <cmath>
#include <cstddef>
#include <type_traits>

#include "runtime.cuh"

// The network of examples/digits in plain kernels: one thread an element. `Scalar` is the dtype of
// weights, activations and gradients: __half or float. Sums are floats, rounded once. Matrices lie
// row by row; the last column of a layer is its bias.

namespace digits {

inline constexpr unsigned pixels = 64, classes = 10;

__host__ __device__ inline float to_float(float value) { return value; }
__host__ __device__ inline float to_float(__half value) { return __half2float(value); }
template <class Scalar>
__host__ __device__ Scalar rounded(float value) {
  if constexpr (std::is_same_v<Scalar, __half>) {
    return __float2half(value);
  } else {
    return value;
  }
}
__device__ inline unsigned thread_index() { return blockIdx.x * threads_per_block + threadIdx.x; }

/// n images of a step's batch of `size`, from `offset` on. `order` lists the images of all steps.
struct Images {
  const float* pixels;
  const unsigned char* labels;
  const unsigned* order;
  const unsigned* step;  // on the device: which images come next
  unsigned size, offset, n;

  [[nodiscard]] __device__ unsigned number(unsigned i) const {
    return order[*step * size + offset + i];
  }
};

template <class Scalar>
__global__ void gather(Images images, Scalar* inputs) {
  const unsigned index = thread_index(), i = index / pixels;
  if (i >= images.n) return;
  inputs[index] = rounded<Scalar>(images.pixels[images.number(i) * pixels + index % pixels]);
}

/// outputs = weights * inputs + bias for each of n images, and the sigmoid of it in hidden layers.
template <class Scalar>
__global__ void forward(const Scalar* weights, const Scalar* inputs, unsigned n_inputs,
                        unsigned n_outputs, unsigned n, bool is_hidden, Scalar* outputs) {
  const unsigned index = thread_index(), image = index / n_outputs;
  if (image >= n) return;
  const Scalar* const row = weights + index % n_outputs * (n_inputs + 1);
  float sum = to_float(row[n_inputs]);
  for (unsigned i = 0; i < n_inputs; ++i)
    sum += to_float(row[i]) * to_float(inputs[image * n_inputs + i]);
  const Scalar stored = rounded<Scalar>(sum);
  outputs[index] = is_hidden ? rounded<Scalar>(1.0F / (1.0F + expf(-to_float(stored)))) : stored;
}

/// The gradients of the logits, times the loss scale: before the first rounding to fp16. The loss
/// is the mean of the cross-entropy over images and classes, times `weight`.
template <class Scalar>
__global__ void loss_gradient(const Scalar* logits, Images images, float weight,
                              const float* loss_scale, Scalar* gradients) {
  const unsigned i = thread_index();
  if (i >= images.n) return;
  const Scalar* const row = logits + i * classes;
  float largest = to_float(row[0]), sum = 0.0F;
  for (unsigned c = 1; c < classes; ++c) largest = fmaxf(largest, to_float(row[c]));
  for (unsigned c = 0; c < classes; ++c) sum += expf(to_float(row[c]) - largest);
  const unsigned label = images.labels[images.number(i)];
  const float factor = weight * *loss_scale / static_cast<float>(images.size * classes);
  for (unsigned c = 0; c < classes; ++c) {
    const float error = expf(to_float(row[c]) - largest) / sum - (c == label ? 1.0F : 0.0F);
    gradients[i * classes + c] = rounded<Scalar>(error * factor);
  }
}

/// The gradient of a layer's weights and bias: a sum over n images.
template <class Scalar>
__global__ void weight_gradient(const Scalar* gradients, const Scalar* inputs, unsigned n_inputs,
                                unsigned n_outputs, unsigned n, Scalar* result) {
  const unsigned index = thread_index(), output = index / (n_inputs + 1),
                 input = index % (n_inputs + 1);
  if (output >= n_outputs) return;
  float sum = 0.0F;
  for (unsigned image = 0; image < n; ++image) {
    const float by = input < n_inputs ? to_float(inputs[image * n_inputs + input]) : 1.0F;
    sum += to_float(gradients[image * n_outputs + output]) * by;
  }
  result[index] = rounded<Scalar>(sum);
}

/// The gradient of what went into a layer, before its sigmoid.
template <class Scalar>
__global__ void input_gradient(const Scalar* weights, const Scalar* gradients, const Scalar* inputs,
                               unsigned n_inputs, unsigned n_outputs, unsigned n, Scalar* result) {
  const unsigned index = thread_index(), image = index / n_inputs;
  if (image >= n) return;
  float sum = 0.0F;
  for (unsigned output = 0; output < n_outputs; ++output)
    sum += to_float(weights[output * (n_inputs + 1) + index % n_inputs]) *
           to_float(gradients[image * n_outputs + output]);
  const float input = to_float(inputs[index]), slope = input * (1.0F - input);
  result[index] = rounded<Scalar>(to_float(rounded<Scalar>(sum)) * slope);
}

/// Before the optimizer: its rate, which falls to 0 along half a cosine, and the next step's
/// images.
template <class = void>
__global__ void advance(float peak_rate, unsigned steps, unsigned* step, float* rate) {
  if (thread_index() != 0) return;
  const double part = static_cast<double>(*step) / steps;
  *rate = static_cast<float>(static_cast<double>(peak_rate) *
                             (0.5 + 0.5 * cos(3.14159265358979 * part)));
  *step += 1;
}

}  // namespace digits
