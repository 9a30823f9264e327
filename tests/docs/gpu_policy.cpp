#include "docs/gpu.hpp"

#include BLOCK

int main() {
  const cudaStream_t stream{};
  auto* const gradient = zeros<float>(1);
  *gradient = 1e38F * 10.0F;
  const headroom::gpu::Gradients grads({{gradient, 1}});
  headroom::gpu::Scaler<Halving> scaler;
  scaler.measure(grads, stream);
  scaler.update(stream);
  return *scaler.loss_scale() == 32768.0F && scaler.read(stream).skipped ? 0 : 1;
}
