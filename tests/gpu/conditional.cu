// The recipe of docs/notes/gpu.md, in which a conditional node skips an optimizer that knows no
// flag. run.sh and nvcc.sh write the recipe into if_taken.hpp, with
//   sed -n '/test: gpu_conditional/,/^```$/p' docs/notes/gpu.md | sed '1,2d;$d'
#include <headroom/gpu.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <vector>

#include "if_taken.hpp"

using headroom::gpu::detail::check;

constexpr unsigned n = 1024;
__global__ void sgd(float* weights, const float* gradients) {
  weights[threadIdx.x] -= gradients[threadIdx.x];
}

int main() {
  int failures = 0;
  try {
    const std::vector<float> zeros(n);
    const auto weights = headroom::gpu::detail::copied(n, zeros.data()),
               gradients = headroom::gpu::detail::copied(n, zeros.data());
    const headroom::gpu::Gradients list({{gradients.get(), n}});
    headroom::gpu::Scaler<> scaler;
    cudaStream_t stream{}, inner{};
    check("cudaStreamCreate", cudaStreamCreate(&stream));
    check("cudaStreamCreate", cudaStreamCreate(&inner));
    cudaGraph_t graph{};
    cudaGraphExec_t step{};
    check("cudaStreamBeginCapture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    scaler.unscale(list, stream);
    scaler.update(stream);
    if_taken(scaler.step(), stream, inner,
             [&](cudaStream_t s) { sgd<<<1, n, 0, s>>>(weights.get(), gradients.get()); });
    check("if_taken", cudaGetLastError());
    check("cudaStreamEndCapture", cudaStreamEndCapture(stream, &graph));
    check("cudaGraphInstantiate", cudaGraphInstantiateWithFlags(&step, graph, 0));
    float right = 0.0F;
    for (const bool overflows : {false, true, false}) {
      const float scale = scaler.read(stream).policy.loss_scale();
      std::vector<float> values(n, overflows ? INFINITY : scale);
      check("cudaMemcpy",
            cudaMemcpy(gradients.get(), values.data(), n * sizeof(float), cudaMemcpyHostToDevice));
      check("cudaGraphLaunch", cudaGraphLaunch(step, stream));
      check("cudaStreamSynchronize", cudaStreamSynchronize(stream));
      check("cudaMemcpy",
            cudaMemcpy(values.data(), weights.get(), n * sizeof(float), cudaMemcpyDeviceToHost));
      right -= overflows ? 0.0F : 1.0F;
      for (const float value : values) failures += value == right ? 0 : 1;
      std::printf("conditional: %s, weights %g, expected %g\n", overflows ? "Inf" : "finite",
                  static_cast<double>(values[0]), static_cast<double>(right));
    }
  } catch (const std::exception& error) {
    ++failures;
    std::puts(error.what());
  }
  return failures == 0 ? 0 : 1;
}
