#include <headroom/state/text.hpp>
#include "docs/gpu.hpp"

int main() {
  const cudaStream_t stream{};
  auto* const loss = zeros<__half>(1);
  const headroom::gpu::Gradients grads({{loss, 1}});
  headroom::gpu::Scaler<> scaler;
  for (int step = 0; step < 10; ++step) {
    *loss = __float2half(step == 3 ? 1e30F : 1.0F);
    scaler.measure(grads, stream);
    scaler.update(stream);
  }
#include BLOCK
  const auto resumed_as = resumed.read(stream);
  scaler.measure(grads, stream);
  scaler.update(stream);
  resumed.measure(grads, stream);
  resumed.update(stream);
  return resumed_as.steps == 10 && resumed_as.skips == 1 && resumed_as.policy == before.policy &&
                 resumed.read(stream).policy == scaler.read(stream).policy &&
                 resumed.step()->count == 10
             ? 0
             : 1;
}
