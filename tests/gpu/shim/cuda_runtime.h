#pragma once

// The part of CUDA that headroom/gpu.hpp and examples/cuda use, on the CPU, for tests without a
// GPU. Threads are fibers, so barriers and shuffles work. Blocks run one after another, and so do
// the warps of a block, each to the next barrier of the block; both in a random order, so a missing
// barrier shows, if not in each launch. A fiber that has ended its thread goes on with the next, so
// only threads that wait cost a fiber.

#define HEADROOM_CUDA_SHIM 1
#define __CUDACC__ 1
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "../../support/sanitizer.hpp"

struct dim3 {
  unsigned x, y;
  dim3(unsigned n, unsigned m = 1) : x(n), y(m) {}
};
inline dim3 blockIdx{0, 0}, threadIdx{0}, blockDim{0}, gridDim{0};  // gridDim.x is 0 on the host

namespace shim {

/// Lets threads go on once all that are alive have arrived.
struct Barrier {
  unsigned alive = 0, arrived = 0, generation = 0;
};
/// A stack, and where its functions go on. swapcontext calls the system, twice, which takes most of
/// a test's time; jumps do not, but the sanitizers do not know jumps to other stacks, and
/// _FORTIFY_SOURCE, which Ubuntu's g++ defines, ends the program at one.
struct Place {
  ucontext_t context;
  jmp_buf jump;
  bool has_jump = false;
};
inline void go_to(Place& there, Place& here) {
#if !defined(HEADROOM_TEST_SANITIZER) && __USE_FORTIFY_LEVEL < 1
  here.has_jump = true;
  if (_setjmp(here.jump) != 0) return;
  if (there.has_jump) _longjmp(there.jump, 1);
#endif
  swapcontext(&here.context, &there.context);
}
struct Fiber : Place {
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(stack_size);
  unsigned thread = 0, generation = 0;
  const Barrier* barrier = nullptr;  // where the thread waits, or has waited last

  bool can_go_on() const {
    return barrier->generation != generation || barrier->arrived >= barrier->alive;
  }
  static constexpr std::size_t stack_size = 65536;
};
struct Warp {
  Barrier barrier;
  unsigned size = 0, begun = 0;      // threads
  Fiber* fibers[32] = {};            // of threads that wait
  std::uint64_t values[2][32] = {};  // of a shuffle and of the next one
  unsigned parity[32] = {};
};

inline std::deque<Fiber> fibers;
inline std::vector<Fiber*> free_fibers;
inline Fiber* current = nullptr;
inline std::vector<Warp> warps_of_block;
inline std::vector<unsigned> order;  // of the warps
inline std::size_t turn = 0;         // in `order`
inline Barrier block_barrier;
inline Place scheduler;
inline std::function<void()> kernel_call;
inline unsigned launches = 0, switches = 0;  // to fibers
inline std::mt19937 random(1);

inline Warp& warp_in_turn() { return warps_of_block[order[turn]]; }
inline void wait(Barrier& barrier) {
  current->barrier = &barrier;
  current->generation = barrier.generation;
  ++barrier.arrived;
  while (!current->can_go_on()) {
    Fiber*& place = warps_of_block[threadIdx.x / 32].fibers[threadIdx.x % 32];
    place = current;
    go_to(scheduler, *current);
    place = nullptr;
  }
  if (barrier.generation != current->generation) return;
  barrier.arrived = 0;
  ++barrier.generation;
}
/// Goes on to the next warp if this one has ended.
inline bool begin_thread() {
  if (warp_in_turn().barrier.alive == 0 && turn + 1 < order.size()) ++turn;
  Warp& warp = warp_in_turn();
  if (warp.begun == warp.size) return false;
  threadIdx.x = current->thread = order[turn] * 32 + warp.begun++;
  return true;
}
inline void run_threads() {
  for (;;) {
    while (begin_thread()) {
      kernel_call();
      --block_barrier.alive;
      --warps_of_block[threadIdx.x / 32].barrier.alive;
    }
    free_fibers.push_back(current);
    go_to(scheduler, *current);
  }
}
inline Fiber* new_fiber() {
  Fiber& fiber = fibers.emplace_back();
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = Fiber::stack_size;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, &run_threads, 0);
  return &fiber;
}
inline void go_on(Fiber* fiber) {
  current = fiber;
  ++switches;
  threadIdx.x = fiber->thread;
  go_to(*fiber, scheduler);
}
inline void start_fiber() {
  if (free_fibers.empty()) free_fibers.push_back(new_fiber());
  Fiber* const fiber = free_fibers.back();
  free_fibers.pop_back();
  go_on(fiber);
}
/// Until all threads of the warp have ended or wait for other warps.
inline void run_warp() {
  unsigned before;
  do {
    before = switches;
    while (warp_in_turn().begun < warp_in_turn().size) start_fiber();
    for (unsigned lane = 0; lane < 32; ++lane) {
      Fiber* const fiber = warp_in_turn().fibers[lane];
      if (fiber != nullptr && fiber->can_go_on()) go_on(fiber);
    }
  } while (switches != before);
}
inline void run_block(unsigned threads) {
  warps_of_block.assign((threads + 31) / 32, Warp());
  order.resize(warps_of_block.size());
  std::iota(order.begin(), order.end(), 0U);
  block_barrier = {threads};
  for (unsigned t = 0; t < threads; ++t) ++warps_of_block[t / 32].barrier.alive;
  for (Warp& warp : warps_of_block) warp.size = warp.barrier.alive;
  while (block_barrier.alive > 0) {
    std::shuffle(order.begin(), order.end(), random);
    const unsigned before = switches;
    for (turn = 0; turn < order.size(); ++turn) run_warp();
    if (switches == before)
      std::fputs("the threads of a block wait for each other\n", stderr), std::abort();
  }
}
inline void run(dim3 blocks, unsigned threads, const std::function<void()>& call) {
  kernel_call = call;
  std::vector<unsigned> blocks_in_order(std::size_t{blocks.x} * blocks.y);
  std::iota(blocks_in_order.begin(), blocks_in_order.end(), 0U);
  std::shuffle(blocks_in_order.begin(), blocks_in_order.end(), random);
  blockDim.x = threads;
  gridDim = blocks;
  for (const unsigned block : blocks_in_order) {
    blockIdx = {block % blocks.x, block / blocks.x};
    run_block(threads);
  }
  gridDim.x = 0;
}
/// Gives the values of the threads of the warp; 0 of those that have ended.
template <class T>
const auto& values_of_warp(T value) {
  const unsigned lane = threadIdx.x % 32;
  Warp& warp = warps_of_block[threadIdx.x / 32];
  std::uint64_t(&values)[32] = warp.values[warp.parity[lane]++ % 2];
  if (warp.barrier.arrived == 0) std::fill(values, values + 32, 0U);
  std::memcpy(&values[lane], &value, sizeof value);
  wait(warp.barrier);
  return values;
}
/// Gives the value of another thread of the warp; its own if there is none.
template <class T>
T exchange(T value, unsigned from) {
  const auto& values = values_of_warp(value);
  if (from < 32) std::memcpy(&value, &values[from], sizeof value);
  return value;
}

}  // namespace shim

inline void __syncthreads() { shim::wait(shim::block_barrier); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return shim::exchange(value, (threadIdx.x % 32) ^ static_cast<unsigned>(mask));
}
template <class T>
T __shfl_down_sync(unsigned, T value, int step) {
  return shim::exchange(value, threadIdx.x % 32 + static_cast<unsigned>(step));
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return shim::exchange(value, static_cast<unsigned>(lane));
}
inline int __any_sync(unsigned, int is_true) {
  const auto& values = shim::values_of_warp(is_true);
  return std::any_of(values, values + 32, [](std::uint64_t value) { return value != 0; }) ? 1 : 0;
}
template <class T>
T atomicMax(T* place, T value) {
  return std::exchange(*place, std::max(*place, value));
}
template <class T>
T atomicMin(T* place, T value) {
  return std::exchange(*place, std::min(*place, value));
}
template <class T>
T atomicAdd(T* place, T value) {
  return std::exchange(*place, *place + value);
}
inline float __uint_as_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline std::uint32_t __float_as_uint(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// ---- the runtime ----

using cudaStream_t = struct shim_stream*;
using cudaEvent_t = struct shim_event*;
using cudaGraph_t = struct shim_graph*;
using cudaGraphExec_t = cudaGraph_t;
enum cudaError_t {
  cudaSuccess,
  cudaErrorMemoryAllocation,
  cudaErrorNotReady,
  cudaErrorInvalidValue,
  cudaErrorStreamCaptureUnsupported
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice };
enum cudaDeviceAttr { cudaDevAttrPageableMemoryAccess };
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
};
struct cudaFuncAttributes {};
inline constexpr unsigned cudaEventDisableTiming = 2;

struct shim_graph {
  std::vector<std::function<void()>> calls;
};

namespace shim {
inline std::size_t allocations = 0;  // of the device and of pinned memory, minus those freed
inline cudaError_t next_error = cudaSuccess;  // of a call that can fail, for tests
inline unsigned calls_before_error = 0;       // which succeed
inline cudaError_t last_error = cudaSuccess;
inline bool is_late = false;             // an event has not happened yet
inline cudaGraph_t capturing = nullptr;  // takes what is launched; other calls fail meanwhile
inline int device = 0;                   // the current one
inline int can_access = 0;  // memory of the host that is not registered, and of other devices
inline const void* strange =
    nullptr;  // the one pointer that is not memory of the current device, but as follows
inline cudaPointerAttributes strange_memory{};
inline std::set<const void*> loaded;  // kernels
inline unsigned late_loads = 0;       // launches of kernels that were not loaded before
inline cudaError_t launch_result() {
  const bool succeeds = next_error == cudaSuccess || calls_before_error-- > 0;
  return succeeds ? cudaSuccess
                  : last_error = std::exchange(next_error,
                                               cudaSuccess);  // success replaces no earlier error
}
inline cudaError_t result() {
  return capturing != nullptr ? last_error = cudaErrorStreamCaptureUnsupported : launch_result();
}
inline void enqueue(const std::function<void()>& call) {
  capturing != nullptr ? capturing->calls.push_back(call) : call();
}
}  // namespace shim

inline cudaError_t cudaGetLastError() { return std::exchange(shim::last_error, cudaSuccess); }
inline cudaError_t cudaPeekAtLastError() { return shim::last_error; }
inline const char* cudaGetErrorString(cudaError_t error) {
  constexpr const char* texts[] = {"no error", "out of memory", "device not ready",
                                   "invalid argument",
                                   "operation not permitted when stream is capturing"};
  return texts[error];
}
inline cudaError_t cudaGetDevice(int* device) { return *device = shim::device, cudaSuccess; }
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                            const void* pointer) {
  *attributes = pointer == shim::strange
                    ? shim::strange_memory
                    : cudaPointerAttributes{cudaMemoryTypeDevice, shim::device};
  return shim::result();
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  return *value = shim::can_access, shim::result();
}
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  return *can = shim::can_access, shim::result();
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, Kernel* kernel) {
  shim::loaded.insert(reinterpret_cast<const void*>(kernel));
  return shim::result();
}
inline cudaError_t cudaMalloc(void** place, std::size_t bytes) {
  if (const cudaError_t error = shim::result(); error != cudaSuccess) return error;
  *place = std::malloc(bytes);
  if (*place == nullptr) return shim::last_error = cudaErrorMemoryAllocation;
  std::memset(*place, 0xA5, bytes);  // no kernel may count on zeros
  ++shim::allocations;
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** place, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(place), bytes);
}
inline cudaError_t cudaMallocHost(void** place, std::size_t bytes) {
  return cudaMalloc(place, bytes);
}
inline cudaError_t cudaFree(void* memory) {
  shim::allocations -= memory != nullptr ? 1U : 0U;
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) std::memcpy(to, from, bytes);
  return shim::result();
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  shim::enqueue([=] { std::memset(to, value, bytes); });
  return shim::launch_result();
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(&shim::is_late);
  return shim::result();
}
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return shim::result(); }
inline cudaError_t cudaEventQuery(cudaEvent_t) {
  if (shim::is_late) return shim::last_error = cudaErrorNotReady;
  return shim::result();
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) {
  shim::is_late = false;
  return shim::result();
}

namespace shim {
template <class... Parameters, std::size_t... i>
std::tuple<Parameters...> values_at(void** arguments, std::index_sequence<i...>) {
  return {*static_cast<Parameters*>(arguments[i])...};
}
}  // namespace shim
template <class... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                             void** arguments, std::size_t, cudaStream_t) {
  if (const cudaError_t error = shim::launch_result(); error != cudaSuccess) return error;
  if (blocks.x == 0) return shim::last_error = cudaErrorInvalidValue;
  ++shim::launches;
  shim::late_loads += shim::loaded.insert(reinterpret_cast<const void*>(kernel)).second ? 1U : 0U;
  const auto values =
      shim::values_at<Parameters...>(arguments, std::index_sequence_for<Parameters...>());
  shim::enqueue([=] { shim::run(blocks, threads.x, [&] { std::apply(kernel, values); }); });
  return cudaSuccess;
}

inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return *stream = nullptr, shim::result();
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return shim::result(); }
inline cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  const cudaError_t error = shim::result();
  if (error == cudaSuccess) shim::capturing = new shim_graph;
  return error;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = std::exchange(shim::capturing, nullptr);
  return shim::result();
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                 unsigned long long) {
  *exec = new shim_graph(*graph);
  return shim::result();
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t) {
  for (const auto& call : exec->calls) call();
  return shim::result();
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return cudaGraphDestroy(exec); }
