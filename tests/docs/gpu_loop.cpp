#include "docs/gpu.hpp"

struct Layer {
  unsigned size;
  __half* grads;
  float* weights;
};
static void backward(const Layer& body, const Layer& head, const float* loss_scale,
                     cudaStream_t stream) {
  for (const Layer* layer : {&body, &head})
    backward(loss_scale, layer->weights, layer->grads, layer->size, stream);
}

#include BLOCK

int main() {
  Layer body{8, zeros<__half>(8), zeros<float>(8)}, head{3, zeros<__half>(3), zeros<float>(3)};
  train(body, head, nullptr);
  return is_learnt(body.weights, body.size) && is_learnt(head.weights, head.size) ? 0 : 1;
}
