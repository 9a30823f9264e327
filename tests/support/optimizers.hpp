#pragma once

#include <cstddef>
#include <thread>
#include <vector>

#include "support/bits.hpp"

namespace support {

using Weights = std::vector<float>;

/// Gradient descent. Its members gradients() and step() are all that a scaler needs. `step` returns
/// the number of steps.
struct Sgd {
  Weights weights;
  Weights grads;
  int steps = 0;
  std::thread::id thread{};  ///< the thread of the last step

  Weights& gradients() { return grads; }
  int step(float rate = 1.0F) {
    thread = std::this_thread::get_id();
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= rate * grads[i];
    return ++steps;
  }
};

/// An optimizer whose gradients are any tree, which it leaves alone.
template <class Tree>
struct Owner {
  Tree grads;
  int steps = 0;
  Tree& gradients() { return grads; }
  int step() { return ++steps; }
};
template <class Tree>
Owner(Tree) -> Owner<Tree>;

/// An optimizer that gets its gradients as an argument.
struct Stateless {
  Weights weights;
  int steps = 0;
  void step(Weights& grads) {
    ++steps;
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= grads[i];
  }
};

inline float infinity() {
  float value = 0.0F;
  set_bits(value, headroom::binary32::infinity_bits);
  return value;
}

}  // namespace support
