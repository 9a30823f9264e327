#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

// What train.cu needs of CUDA's runtime.

namespace digits {

inline constexpr unsigned threads_per_block = 64;

/// Throws std::runtime_error if a call of CUDA failed.
inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
/// kernel<<<blocks, threads_per_block, 0, stream>>>(arguments...) with at least n threads, in plain
/// C++.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), std::size_t n, cudaStream_t stream,
            std::common_type_t<Parameters>... arguments) {
  const auto blocks = static_cast<unsigned>((n + threads_per_block - 1) / threads_per_block);
  void* addresses[] = {&arguments...};
  check(cudaLaunchKernel(kernel, dim3(blocks), dim3(threads_per_block), addresses, 0, stream));
}

/// Memory of the device.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(const std::vector<T>& values) {
    check(cudaMalloc(&data_, values.size() * sizeof(T)));
    check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  explicit Buffer(std::size_t size) : Buffer(std::vector<T>(size)) {}
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept { return std::swap(data_, other.data_), *this; }
  ~Buffer() { (void)cudaFree(data_); }
  operator T*() const { return data_; }

 private:
  T* data_ = nullptr;
};

class Stream {
 public:
  Stream() { check(cudaStreamCreate(&stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_{};
};

/// Keeps the host, which only launches, from running far ahead of the device.
class Pace {
 public:
  Pace() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  Pace(const Pace&) = delete;
  Pace& operator=(const Pace&) = delete;
  ~Pace() { (void)cudaEventDestroy(event_); }
  /// Waits until the device has done what was launched before the last call of mark.
  void wait() const { check(cudaEventSynchronize(event_)); }
  void mark(cudaStream_t stream) const { check(cudaEventRecord(event_, stream)); }

 private:
  cudaEvent_t event_{};
};

/// What `record` launches, recorded once.
class Graph {
 public:
  template <class F>
  Graph(cudaStream_t stream, const F& record) {
    cudaGraph_t graph{};
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    record();
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiateWithFlags(&graph_, graph, 0));
    (void)cudaGraphDestroy(graph);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { (void)cudaGraphExecDestroy(graph_); }
  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(graph_, stream)); }

 private:
  cudaGraphExec_t graph_{};
};

}  // namespace digits
