// The kernels of gpu.hpp against headroom's verbs on the CPU, and their speed on a GPU.
// run.sh compiles it with nvcc. The tests compile it with the headers in shim/, and run `check
// small`.
//   check small | bits | policies | training | fp8 | speed

#include <headroom/gpu.hpp>
#include <headroom/policy/amax.hpp>
#include <headroom/policy/constant.hpp>
#include <headroom/policy/presets.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device.hpp"
#if defined(HEADROOM_CHECK_NCCL)
#include <headroom/gpu/nccl.hpp>
#endif
#if !defined(HEADROOM_CUDA_SHIM)
#include "../../examples/cuda/adamw.cuh"
#include "fp8.hpp"
#endif

namespace gpu = headroom::gpu;

// Reference.cpp
headroom::GradientNorm on_cpu(char verb, const std::vector<gpu::Gradient>& list, float loss_scale);

namespace {

namespace hd = headroom::detail;
using gpu::detail::check;
using headroom::dtype_code;
using Bytes = std::vector<unsigned char>;

int failures = 0;
std::mt19937_64 random_bits(11);

std::size_t below(std::size_t n) { return random_bits() % n; }
void expect(bool holds, const std::string& what) {
  failures += holds ? 0 : 1;
  if (!holds) std::printf("FAILED: %s\n", what.c_str());
}
bool same(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }
template <class T>
gpu::detail::Memory<T> on_device(const std::vector<T>& values) {
  return gpu::detail::copied(values.size(), values.data());
}
template <class T>
std::vector<T> on_host(const T* values, std::size_t n) {
  std::vector<T> result(n);
  check("cudaMemcpy", cudaMemcpy(result.data(), values, n * sizeof(T), cudaMemcpyDeviceToHost));
  return result;
}

// ---- bits ----

enum class Values { all_patterns, any, finite, moderate, tiny, huge, varied };
int exponent_of_tensor = 0;  // of varied ones
struct Shape {
  dtype_code dtype;
  std::size_t size;
  bool has_destination;
  Values values;
};

template <class F>
void with_format(dtype_code dtype, F f) {
  if (dtype == dtype_code::fp16) return f(headroom::binary16());
  if (dtype == dtype_code::bf16) return f(headroom::brain16());
  if (dtype == dtype_code::fp32) return f(headroom::binary32());
  f(headroom::binary64());
}
template <class Format>
typename Format::bits_type element(Values values, std::size_t i) {
  using Bits = typename Format::bits_type;
  const std::uint64_t any = random_bits();
  const auto bits = static_cast<Bits>(any);
  const bool is_finite = static_cast<Bits>(bits & Format::abs_mask) <= Format::largest_finite_bits;
  if (values == Values::all_patterns) return static_cast<Bits>(i);
  if (values == Values::any || (values == Values::finite && is_finite && sizeof(Bits) < 8))
    return bits;
  const int far = std::is_same_v<Format, headroom::binary16> ? 14 : 70;
  const int exponent = values == Values::tiny     ? -far - static_cast<int>(any >> 40U) % (far - 13)
                       : values == Values::huge   ? far
                       : values == Values::varied ? exponent_of_tensor
                                                  : static_cast<int>(any >> 40U) % 20 - 18;
  const float value = std::ldexp(static_cast<float>(any % 16777216) / 16777216.0F - 0.5F, exponent);
  // A double's last bits
  const Bits rest = sizeof(Bits) < 8 ? Bits{0} : static_cast<Bits>(any >> 36U);
  return static_cast<Bits>(
      hd::convert_bits<headroom::binary32, Format>(hd::bit_cast<std::uint32_t>(value)) | rest);
}

/// Gradients and destinations in one block of memory, on the host and on the device. Many are not
/// aligned.
struct Twins {
  Bytes host;
  gpu::detail::Memory<unsigned char> device;
  std::vector<gpu::Gradient> here, there;

  explicit Twins(const std::vector<Shape>& shapes) {
    std::vector<std::size_t> offsets;
    const auto place = [&](dtype_code dtype, std::size_t size, Values values) {
      const std::size_t each = gpu::detail::TypedPiece::bytes_of(dtype),
                        offset = host.size() + below(2) * below(8) * each;
      offsets.push_back(offset);
      exponent_of_tensor = static_cast<int>(below(20)) - 12;
      host.resize((offset + size * each + 319) / 256 * 256, 0x5A);
      with_format(dtype, [&](auto format) {
        for (std::size_t i = 0; i < size; ++i) {
          const auto bits = element<decltype(format)>(values, i);
          std::memcpy(&host[offset + i * each], &bits, each);
        }
      });
    };
    for (const Shape& s : shapes) {
      place(s.dtype, s.size, s.values);
      place(dtype_code::fp32, s.has_destination ? s.size : 0, Values::moderate);
    }
    device = on_device(host);
    for (std::size_t i = 0; i < shapes.size(); ++i)
      for (auto [list, base] : {std::pair(&here, host.data()), std::pair(&there, device.get())})
        list->emplace_back(base + offsets[2 * i], shapes[i].size, shapes[i].dtype,
                           shapes[i].has_destination
                               ? reinterpret_cast<float*>(base + offsets[2 * i + 1])
                               : nullptr);
  }
  /// Bytes of the whole memory that differ. Two NaNs do not.
  std::size_t differences() {
    const Bytes got = on_host(device.get(), host.size());
    for (const gpu::Gradient& g : here) {
      auto* const results =
          static_cast<unsigned char*>(g.destination != nullptr ? g.destination : g.data);
      with_format(g.destination != nullptr ? dtype_code::fp32 : g.dtype, [&](auto format) {
        using Format = decltype(format);
        for (std::size_t i = 0; i < g.size; ++i) {
          typename Format::bits_type a, b;
          std::memcpy(&a, results + i * sizeof a, sizeof a);
          std::memcpy(&b, &got[static_cast<std::size_t>(results - host.data()) + i * sizeof b],
                      sizeof b);
          const bool are_nan = (a & Format::abs_mask) > Format::infinity_bits &&
                               (b & Format::abs_mask) > Format::infinity_bits;
          if (are_nan) std::memcpy(results + i * sizeof b, &b, sizeof b);
        }
      });
    }
    std::size_t n = 0;
    for (std::size_t i = 0; i < got.size(); ++i) n += got[i] != host[i] ? 1 : 0;
    return n;
  }
};

/// Measures and clips; then unscales, or accumulates twice if all have destinations.
void compare(const std::string& name, const std::vector<Shape>& shapes, float scale) {
  Twins twins(shapes);
  const gpu::Gradients gradients(twins.there);
  gpu::Scaler<headroom::ConstantLossScale> scaler{headroom::ConstantLossScale(scale)};
  const auto check_report = [&](const char* verb, const headroom::GradientNorm& want) {
    const headroom::GradientNorm got = scaler.read(nullptr).report;
    const gpu::Step step = on_host(scaler.step(), 1)[0];
    expect(got.finite == want.finite && same(got.max_abs, want.max_abs) &&
               step.taken == want.finite && step.found_inf == (want.finite ? 0.0F : 1.0F),
           name + ": report of " + verb);
    return std::pair(got, step);
  };
  const headroom::GradientNorm norm = on_cpu('m', twins.here, scale);
  const double max_norm = norm.finite ? norm.norm / 3 : 1.0, clip = hd::clip_factor(norm, max_norm);
  scaler.measure(gradients, nullptr);
  scaler.update(nullptr, max_norm);
  const auto [measured, step] = check_report("measure", norm);
  expect(same(measured.norm, norm.norm), name + ": norm");
  expect(same(step.clip, clip) && same(step.factor, clip / static_cast<double>(scale)),
         name + ": clip factor");

  const bool adds =
      std::all_of(shapes.begin(), shapes.end(), [](const Shape& s) { return s.has_destination; });
  headroom::GradientNorm report;
  for (int batch = 0; batch < (adds ? 2 : 1); ++batch) {
    report = on_cpu(adds ? 'a' : 'u', twins.here, scale);
    if (adds) scaler.accumulate(gradients, nullptr);
    if (!adds) scaler.unscale<headroom::allow_fp16_gradients>(gradients, nullptr);
  }
  const headroom::GradientNorm results = on_cpu('r', twins.here, 1.0F);
  scaler.measure(gradients, nullptr);  // what was stored
  scaler.update(nullptr);
  const bool is_finite = report.finite && results.finite;
  report = is_finite ? headroom::GradientNorm{{true, std::max(report.max_abs, results.max_abs)},
                                              results.norm}
                     : hd::overflow();
  const auto [stored, unused] = check_report(adds ? "accumulate" : "unscale", report);
  expect(same(stored.norm, report.norm), name + ": norm of the results");
  const std::size_t n = twins.differences();
  expect(n == 0, name + ": " + std::to_string(n) + " bytes differ");
}
void bits(bool is_small) {
  constexpr dtype_code dtypes[] = {dtype_code::fp16, dtype_code::bf16, dtype_code::fp32,
                                   dtype_code::fp64};
  std::vector<Shape> patterns, many, varied;
  for (const bool has_destination : {true, false})
    for (int i = 0; i < 2; ++i)
      patterns.push_back({dtypes[i], 65536, has_destination, Values::all_patterns});
  for (std::size_t i = 0; i < (is_small ? 600 : 70000); ++i)
    many.push_back({dtypes[2 + i % 2], 1 + i % 5, false, Values::moderate});
  for (std::size_t i = 0; i < 500; ++i)
    varied.push_back({dtypes[1 + i / 250], 1 + below(600), false, Values::varied});
  compare("varied", varied, 1.0F);
  // Quotients whose remainder is not exact
  for (const bool has_destination : {true, false})
    compare("tiny, divided",
            {{dtype_code::fp32, 3000, has_destination, Values::tiny},
             {dtype_code::bf16, 3000, has_destination, Values::tiny}},
            1.37F);
  // Of few norms the last bit depends on the order of the sums
  for (int run = 0; run < 200; ++run) {
    varied.resize(10 + below(10), {dtype_code::fp32, 0, false, Values::varied});
    for (Shape& s : varied) s = {dtype_code::fp32, 1 + below(64), false, Values::varied};
    compare("varied, few " + std::to_string(run), varied, 1.0F);
  }
  compare("all patterns, divided", patterns, 1000.1F);
  if (!is_small) compare("all patterns, multiplied", patterns, 1024.0F);
  compare("many groups", many, 1024.0F);  // one a tensor: more than are added at once
  const int n_lists = is_small ? 12 : 120;
  for (int run = 0; run < n_lists; ++run) {
    std::vector<Shape> shapes(1 + below(is_small ? 8 : 200));
    const std::size_t most[] = {3, 700, is_small ? 4000U : 20000U, is_small ? 50000U : 300000U};
    for (Shape& s : shapes) {
      const auto finite = static_cast<Values>(2 + below(4));
      s = {dtypes[below(4)], below(most[below(1 + below(4))]), run % 3 == 2 || below(2) == 0,
           finite};
      if (run % 4 == 1) s.dtype = dtypes[1 + below(3)], s.values = Values::tiny;
      if (run % 4 == 3) s.values = Values::any;
    }
    if (run == 0) shapes.push_back({dtype_code::fp16, 140000, true, Values::finite});
    const float fraction = static_cast<float>(below(8388608)) / 8388608.0F;
    const int exponent = static_cast<int>(below(run % 3 == 1 ? 240 : 60));
    const float scale =
        run % 5 == 0 ? 1024.0F : std::ldexp(1.0F + fraction, exponent - (run % 3 == 1 ? 120 : 30));
    compare("list " + std::to_string(run) + ", scale " + std::to_string(scale), shapes, scale);
  }
  std::printf("bits: %d lists, %d failures\n", n_lists + (is_small ? 205 : 206), failures);
}

// ---- policies ----

__global__ void hash_kernel(const Cases* cases, std::uint64_t* hash) { *hash = hash_of(*cases); }

template <class Policy>
void follow(const char* name, Policy policy, int steps) {
  gpu::Scaler<Policy> scaler(policy);
  std::vector<float> values(4);
  const auto memory = on_device(values);
  const gpu::Gradients gradients({{memory.get(), values.size()}});
  int wrong = 0, overflows = 0;
  for (int i = 0; i < steps; ++i) {
    const int phase = i * 6 / steps % 3;  // few overflows, some, many
    const bool has_inf = below(phase == 0   ? 100
                               : phase == 1 ? 7
                                            : 2) == 0,
               elsewhere = below(20) == 0;
    const float one = 1.0F, loss_scale = policy.loss_scale();
    const float size = std::ldexp(policy.loss_scale(), static_cast<int>(below(12)) - 28);
    for (float& x : values)
      x = has_inf ? INFINITY : size * (1.0F + static_cast<float>(below(1000)) / 1000.0F);
    check("cudaMemcpy", cudaMemcpy(memory.get(), values.data(), sizeof(float) * values.size(),
                                   cudaMemcpyHostToDevice));
    if (elsewhere)
      check("cudaMemcpy",
            cudaMemcpy(scaler.inf_elsewhere(), &one, sizeof one, cudaMemcpyHostToDevice));
    const headroom::GradientNorm found = on_cpu('m', {{values.data(), values.size()}}, loss_scale);
    const headroom::GradientReport report = elsewhere ? hd::overflow() : found;
    policy = policy.adjust(report);
    scaler.measure(gradients, nullptr);
    scaler.update(nullptr);
    const gpu::Snapshot<Policy> got = scaler.read(nullptr);
    const gpu::Step step = on_host(scaler.step(), 1)[0];
    overflows += report.finite ? 0 : 1;
    const bool is_right = got.policy.loss_scale() == policy.loss_scale() &&
                          got.skipped != report.finite && got.steps == i + 1 &&
                          got.skips == overflows && same(got.report.max_abs, report.max_abs) &&
                          got.loss_scale == loss_scale && step.loss_scale == loss_scale &&
                          step.taken == report.finite && step.count == i + 1 - overflows &&
                          on_host(scaler.loss_scale(), 1)[0] == policy.loss_scale();
    wrong += is_right ? 0 : 1;
  }
  expect(wrong == 0, std::string(name) + ": " + std::to_string(wrong) + " of " +
                         std::to_string(steps) + " steps differ");
}
void policies(int steps) {
  const auto cases = on_device(std::vector<Cases>(1));
  const auto hash = on_device(std::vector<std::uint64_t>(1));
  gpu::detail::launch("hash_kernel", hash_kernel, 1, 1, nullptr, cases.get(), hash.get());
  expect(on_host(hash.get(), 1)[0] == hash_of(Cases()),
         "policies, rules and conversions of dtypes");
  follow("DynamicLossScale", headroom::DynamicLossScale({65536.0F, 5}), steps);
  follow("AmaxLossScale", headroom::AmaxLossScale(), steps);
  follow("fairseq", headroom::presets::fairseq(), steps);
  follow("a user's own", HalvingScale(), steps);
  std::printf("policies: %d steps of each, %d failures\n", steps, failures);
}

// ---- a training ----

/// What `launches` does, as a graph.
template <class F>
cudaGraphExec_t captured(cudaStream_t stream, F launches) {
  cudaGraph_t graph{};
  cudaGraphExec_t result{};
  check("cudaStreamBeginCapture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launches();
  check("cudaStreamEndCapture", cudaStreamEndCapture(stream, &graph));
  check("cudaGraphInstantiateWithFlags", cudaGraphInstantiateWithFlags(&result, graph, 0));
  check("cudaGraphDestroy", cudaGraphDestroy(graph));
  return result;
}
// Of which the loss is the mean: without a loss scale, fp16 gradients are 0
constexpr float outputs = 4e8F;

__global__ void backward_kernel(unsigned n, const float* weights, const float* scale,
                                unsigned count, const gpu::Step* step, __half* gradients) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float error = weights[i] - 1.0F - static_cast<float>(i % 7) / 7.0F;
  gradients[i] = __float2half(i == 13 && step->taken && step->count % count == count - 1
                                  ? 1e30F
                                  : error / outputs * *scale);
}
__global__ void sgd_kernel(unsigned n, float* weights, const __half* gradients,
                           const float* unscaled, const gpu::Step* step) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || !step->taken) return;
  const float gradient = unscaled != nullptr
                             ? unscaled[i] * static_cast<float>(step->clip)
                             : __half2float(gradients[i]) * static_cast<float>(step->factor);
  weights[i] -= 0.1F * outputs * gradient;
}

enum class How { stream, graph, graph_with_nccl };
/// The weights and the last snapshot. Gradients are measured and clipped as they are, or unscaled
/// into floats first.
template <class Policy>
auto train(unsigned n, int steps, bool unscales, [[maybe_unused]] How how) {
  const unsigned half = n / 2, blocks = (n + 255) / 256, period = static_cast<unsigned>(steps) / 4;
  const double max_norm = 0.5 * std::sqrt(static_cast<double>(n)) / static_cast<double>(outputs);
  const auto weights = on_device(std::vector<float>(n)), floats = on_device(std::vector<float>(n));
  const auto gradients = on_device(std::vector<__half>(n));
  const gpu::Gradients first({{gradients.get(), half, floats.get()}});
  const gpu::Gradients rest({{gradients.get() + half, n - half, floats.get() + half}});
  gpu::Scaler<Policy> scaler;
  cudaStream_t stream = nullptr;
  const auto iteration = [&] {
    gpu::detail::launch("backward_kernel", backward_kernel, blocks, 256, stream, n, weights.get(),
                        scaler.loss_scale(), period, scaler.step(), gradients.get());
    for (const gpu::Gradients* list : {&first, &rest}) {
      if (unscales) scaler.unscale(*list, stream);
      scaler.measure(*list, stream);
    }
#if defined(HEADROOM_CHECK_NCCL)
    static ncclComm_t communicator{};
    if (communicator == nullptr)
      expect(ncclCommInitAll(&communicator, 1, nullptr) == ncclSuccess, "ncclCommInitAll");
    if (how == How::graph_with_nccl) gpu::all_reduce(scaler, communicator, stream);
#endif
    scaler.update(stream, max_norm);
    gpu::detail::launch("sgd_kernel", sgd_kernel, blocks, 256, stream, n, weights.get(),
                        gradients.get(), unscales ? floats.get() : nullptr, scaler.step());
  };
  check("cudaStreamCreate", cudaStreamCreate(&stream));
  iteration();  // NCCL sets itself up
  const cudaGraphExec_t graph = how == How::stream ? nullptr : captured(stream, iteration);
  for (int i = 1; i < steps; ++i) {
    if (how == How::stream) iteration();
    if (how != How::stream) check("cudaGraphLaunch", cudaGraphLaunch(graph, stream));
    if (i % 100 == 0) (void)scaler.poll(), scaler.fetch(stream);
  }
  if (how != How::stream) check("cudaGraphExecDestroy", cudaGraphExecDestroy(graph));
  const gpu::Snapshot<Policy> last = scaler.read(stream);
  return std::pair(on_host(weights.get(), n), last);
}
template <class Policy>
void training(const char* name, unsigned n, int steps) {
  for (const bool unscales : {false, true}) {
    const std::string what = std::string(name) + (unscales ? ", unscaled" : ", measured");
    const auto [weights, last] = train<Policy>(n, steps, unscales, How::stream);
    double error = 0;
    for (unsigned i = 0; i < n; ++i)
      error = std::max(error, std::fabs(static_cast<double>(weights[i] - 1.0F) -
                                        static_cast<double>(i % 7) / 7.0));
    expect(error < 0.05 && last.skips >= 3,
           what + ": error " + std::to_string(error) + ", skips " + std::to_string(last.skips));
    for (const How how : {How::graph, How::graph_with_nccl}) {
      const auto [its_weights, its_last] = train<Policy>(n, steps, unscales, how);
      expect(its_weights == weights && its_last.policy == last.policy &&
                 its_last.skips == last.skips && same(its_last.report.norm, last.report.norm),
             what + (how == How::graph ? ": a graph" : ": a graph with NCCL") +
                 " and a stream differ");
    }
    std::printf("training, %s: %d steps, %lld skipped, last scale %g, %d failures\n", what.c_str(),
                steps, last.skips, static_cast<double>(last.loss_scale), failures);
  }
}

// ---- speed ----

#if defined(HEADROOM_CUDA_SHIM)
void speed() {}
#else
/// Of one call, the median.
template <class F>
double milliseconds(cudaStream_t stream, F f) {
  cudaEvent_t begin{}, end{};
  check("cudaEventCreate", cudaEventCreate(&begin));
  check("cudaEventCreate", cudaEventCreate(&end));
  std::vector<float> times(9);
  for (float& time : times) {
    check("cudaEventRecord", cudaEventRecord(begin, stream));
    for (int i = 0; i < 10; ++i) f();
    check("cudaEventRecord", cudaEventRecord(end, stream));
    check("cudaEventSynchronize", cudaEventSynchronize(end));
    check("cudaEventElapsedTime", cudaEventElapsedTime(&time, begin, end));
  }
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[4]) / 10;
}
// From 2^-31 to 2 in every dtype, of both signs
__global__ void fill_kernel(unsigned* values, std::size_t n) {
  for (std::size_t i = blockIdx.x * 256U + threadIdx.x; i < n; i += gridDim.x * 256U)
    values[i] = (static_cast<unsigned>(i) * 2654435761U & 0xBFFFBFFFU) | 0x30003000U;
}
/// Counts a read of the gradients, and a read and a write of the weights and both moments.
void speed_of_adamw(double copied) {
  constexpr std::size_t all = std::size_t{1} << 26U;
  void* memory = nullptr;
  check("cudaMalloc", cudaMalloc(&memory, 5 * all * sizeof(float)));
  auto* const gradients = static_cast<unsigned char*>(memory);
  auto* const weights = static_cast<float*>(memory) + all;
  gpu::detail::launch("fill_kernel", fill_kernel, 4096, 256, nullptr,
                      static_cast<unsigned*>(memory), 2 * all);
  check("cudaMemsetAsync", cudaMemsetAsync(weights + all, 0, 2 * all * sizeof(float), nullptr));
  const auto lr = on_device(std::vector<float>{1e-3F});
  const gpu::Gradients measured({{gradients, 1024, dtype_code::fp32}});
  gpu::Scaler<> scaler;
  scaler.measure(measured, nullptr);
  scaler.update(nullptr);  // a step that is taken
  const auto row = [&](const char* name, dtype_code dtype, bool has_copy) {
    std::printf("speed: AdamW, %-32s", name);
    for (const std::size_t tensors : {1, 1000}) {
      const std::size_t n = all / tensors / 8 * 8, each = gpu::detail::TypedPiece::bytes_of(dtype);
      std::vector<fused::gpu::Parameter> parameters;
      for (std::size_t at = 0; at < tensors * n; at += n) {
        float* const w = weights + at;
        parameters.push_back({{gradients + at * each, n, dtype}, w, w + all, w + 2 * all});
        if (has_copy) parameters.back().copy = {gradients + 16 * all + 2 * at, n, dtype_code::fp16};
      }
      const fused::gpu::AdamW adamw(parameters, lr.get());
      const double rate = static_cast<double>(tensors * n * (each + 24 + (has_copy ? 2 : 0))) /
                          milliseconds(nullptr, [&] { adamw.step(scaler.step(), nullptr); });
      std::printf("  %zu: %4.0f (%.2f)", tensors, rate * 1e-6, rate / copied);
    }
    std::printf("\n");
  };
  row("fp16 gradients", dtype_code::fp16, false);
  row("fp16 gradients, copy of weights", dtype_code::fp16, true);
  row("float gradients", dtype_code::fp32, false);
  check("cudaFree", cudaFree(memory));
}
void speed() {
  constexpr std::size_t bytes = std::size_t{256} << 20U;
  void* memory = nullptr;
  check("cudaMalloc", cudaMalloc(&memory, 3 * bytes));
  auto* const source = static_cast<unsigned char*>(memory);
  auto* const destination = reinterpret_cast<float*>(source + bytes);
  gpu::detail::launch("fill_kernel", fill_kernel, 4096, 256, nullptr,
                      static_cast<unsigned*>(memory), 3 * bytes / 4);
  const double copied =
      2.0 * bytes / milliseconds(nullptr, [&] {
        check("cudaMemcpyAsync",
              cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice, nullptr));
      });
  std::printf(
      "speed: gradients of 256 MiB, in 1 or 1,000 tensors; x multiplies, / divides. GB/s read and "
      "written (of a copy's %.0f)\n",
      copied * 1e-6);
  const auto row = [&](const char* name, dtype_code dtype, bool has_destination, double accesses,
                       auto verb) {
    std::printf("speed: %-22s", name);
    for (const float scale : {1.0F, 1.0000001F})  // so that gradients stay the same
      for (const std::size_t tensors : {1, 1000}) {
        const std::size_t each = gpu::detail::TypedPiece::bytes_of(dtype),
                          n = bytes / each / tensors / 8 * 8;
        std::vector<gpu::Gradient> list;
        for (std::size_t i = 0; i < tensors; ++i)
          list.emplace_back(source + i * n * each, n, dtype,
                            has_destination ? destination + i * n : nullptr);
        const gpu::Gradients gradients(list);
        gpu::Scaler<headroom::ConstantLossScale> scaler{headroom::ConstantLossScale(scale)};
        const double rate = accesses * static_cast<double>(n * tensors * each) /
                            milliseconds(nullptr, [&] { verb(scaler, gradients); });
        std::printf("  %s, %zu: %4.0f (%.2f)", scale == 1.0F ? "x" : "/", tensors, rate * 1e-6,
                    rate / copied);
      }
    std::printf("\n");
  };
  const auto unscale = [](auto& s, const auto& g) {
    s.template unscale<headroom::allow_fp16_gradients>(g, nullptr);
  };
  const auto accumulate = [](auto& s, const auto& g) { s.accumulate(g, nullptr); };
  const auto measure = [](auto& s, const auto& g) { s.measure(g, nullptr), s.update(nullptr); };
  row("unscale fp16 to float", dtype_code::fp16, true, 3, unscale);
  row("unscale fp16 in place", dtype_code::fp16, false, 2, unscale);
  row("unscale bf16 to float", dtype_code::bf16, true, 3, unscale);
  row("unscale bf16 in place", dtype_code::bf16, false, 2, unscale);
  row("unscale float in place", dtype_code::fp32, false, 2, unscale);
  row("accumulate fp16", dtype_code::fp16, true, 5, accumulate);
  row("measure, update: fp16", dtype_code::fp16, false, 1, measure);
  row("measure, update: bf16", dtype_code::bf16, false, 1, measure);
  row("measure, update: float", dtype_code::fp32, false, 1, measure);
  speed_of_adamw(copied);

  std::vector<gpu::Gradient> list;
  for (std::size_t i = 0; i < 300; ++i)
    list.emplace_back(source + i * 4096, 1000, dtype_code::fp16, destination + i * 1024);
  const gpu::Gradients gradients(list);
  gpu::Scaler<> scaler;
  cudaStream_t stream{};
  check("cudaStreamCreate", cudaStreamCreate(&stream));
  for (const bool measures : {true, false})
    for (const int steps : {1, 20}) {
      const cudaGraphExec_t graph = captured(stream, [&] {
        for (int i = 0; i < steps; ++i) {
          measures ? scaler.measure(gradients, stream) : scaler.unscale(gradients, stream);
          scaler.update(stream, measures ? 1.0 : hd::infinity);
        }
      });
      const double ms = milliseconds(stream, [&] {
        for (int i = 0; i < 20; ++i) check("cudaGraphLaunch", cudaGraphLaunch(graph, stream));
      });
      std::printf(
          "speed: %s and update, 300 tensors of 1,000 fp16: %.2f us a step, %d in a graph\n",
          measures ? "measure" : "unscale", ms * 1e3 / 20 / steps, steps);
    }
}
#endif

}  // namespace

int main(int argc, char** argv) {
  const std::string part = argc > 1 ? argv[1] : "small";
  const bool is_small = part == "small";
  try {
    if (is_small || part == "bits") bits(is_small);
    if (is_small || part == "policies") policies(is_small ? 40 : 2000);
    if (is_small) training<headroom::DynamicLossScale>("dynamic", 300, 60);
    if (part == "training") {
      training<headroom::DynamicLossScale>("dynamic", 100000, 400);
      training<headroom::AmaxLossScale>("amax", 100000, 400);
    }
    if (part == "speed") speed();
#if !defined(HEADROOM_CUDA_SHIM)
    if (part == "fp8") expect(fp8::compare(400) == 0, "fp8");
    if (part == "speed") fp8::speed([](auto f) { return milliseconds(nullptr, f); });
#endif
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
  return failures == 0 ? 0 : 1;
}
