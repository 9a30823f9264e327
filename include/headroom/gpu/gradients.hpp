#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/kernel/sums.hpp>
#include <headroom/tree/any_tensor.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

struct __half;         // NOLINT: the name is CUDA's
struct __nv_bfloat16;  // NOLINT

HEADROOM_DETAIL_BEGIN_NAMESPACE
template <>
struct dtype_traits<::__half> : detail::has_format<binary16> {};
template <>
struct dtype_traits<::__nv_bfloat16> : detail::has_format<brain16> {};

namespace gpu {
namespace hd = headroom::detail;

/// The dtype of T, which is float, double, __half, __nv_bfloat16, or a type that has the
/// dtype_traits of one of these.
template <class T>
[[nodiscard]] constexpr dtype_code dtype_of() {
  constexpr auto is = [](auto format) {
    return std::is_same_v<hd::format_of<T>, decltype(format)>;
  };
  constexpr bool is_fp16 = is(binary16()), is_bf16 = is(brain16()), is_fp32 = is(binary32());
  static_assert(is_fp16 || is_bf16 || is_fp32 || is(binary64()),
                "headroom: gradients on a GPU are float, double, fp16 or bf16");
  return is_fp16   ? dtype_code::fp16
         : is_bf16 ? dtype_code::bf16
         : is_fp32 ? dtype_code::fp32
                   : dtype_code::fp64;
}

/// A contiguous tensor in the memory of the device.
struct Gradient {
  void* data;        ///< the first element
  std::size_t size;  ///< number of elements
  dtype_code dtype;  ///< fp16, bf16, fp32 or fp64
  /// As many floats, for `unscale` and `accumulate`; null: the gradient itself
  float* destination = nullptr;

  /// T is a type that dtype_of takes.
  template <class T>
  Gradient(T* first, std::size_t n, float* to = nullptr)
      : data(first), size(n), dtype(dtype_of<T>()), destination(to) {}
  Gradient(void* first, std::size_t n, dtype_code code, float* to = nullptr)
      : data(first), size(n), dtype(code), destination(to) {}
};

namespace detail {
inline void check(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // or the caller's next check would find it
  hd::throw_error<std::runtime_error>({call, ": ", cudaGetErrorString(error)});
}
template <auto destroy>
using Destroy = std::integral_constant<decltype(destroy), destroy>;  // callable as `destroy`
template <class T>
using Memory = std::unique_ptr<T, Destroy<&cudaFree>>;
/// Memory of the device with a copy of `n` values; null if there are none.
template <class T>
Memory<T> copied(std::size_t n, const T* values) {
  void* memory = nullptr;
  if (n == 0) return nullptr;
  check("cudaMalloc", cudaMalloc(&memory, n * sizeof(T)));
  Memory<T> result(static_cast<T*>(memory));
  check("cudaMemcpy", cudaMemcpy(memory, values, n * sizeof(T), cudaMemcpyHostToDevice));
  // It may not have arrived, and other streams do not wait
  check("cudaStreamSynchronize", cudaStreamSynchronize(nullptr));
  return result;
}

/// The device that was current when an object was made.
struct Home {
  int device = 0;

  Home() { check("cudaGetDevice", cudaGetDevice(&device)); }
  void check_current(const char* verb, const char* object = "this object") const {
    if (const int current = Home().device; current != device)
      hd::throw_logic_error({verb, ": ", object, " is of device ", std::to_string(device),
                             ", but device ", std::to_string(current),
                             " is current; call cudaSetDevice"});
  }
};

using hd::group_size;
using hd::groups_per_sum;
using hd::squares_per_sum;

// Threads of a block, the fastest that were tried: docs/notes/gpu.md.
inline constexpr unsigned threads = 256, few_threads = 128, most_threads = 512;
inline constexpr unsigned few_groups = 128;  // A list of fewer groups has more threads for each,
inline constexpr unsigned sharing = 16;      // and so many blocks that unscale one.

struct TypedPiece {
  const unsigned char* source;
  unsigned char* destination;
  std::size_t size;
  dtype_code from, to;

  /// Up to `most` elements from `begin` on.
  [[nodiscard]] HEADROOM_DETAIL_HD TypedPiece cut(std::size_t begin, std::size_t most) const {
    const std::size_t n = size - begin < most ? size - begin : most;
    return {source + begin * bytes_of(from), destination + begin * bytes_of(to), n, from, to};
  }
  HEADROOM_DETAIL_HD static std::size_t bytes_of(dtype_code dtype) {
    return (static_cast<std::uint32_t>(dtype) & 0xFFU) / 8;
  }
};
/// What one block of threads works on: up to `group_size` elements of a dtype, which have one sum
/// of squares. `count` pieces of up to `squares_per_sum` elements: those of `piece`, or, if its
/// size is 0, of several tensors, from `first` on in a list.
struct BlockWork {
  TypedPiece piece;
  unsigned first, count;
};

struct List {
  const BlockWork* groups = nullptr;
  const TypedPiece* pieces = nullptr;
  double* sums = nullptr;  // of squares, by group
  unsigned n_groups = 0;
  bool carries_scale = true;  // as `measure` reads it
};
/// The memory of a list. Throws std::invalid_argument naming memory that kernels cannot use.
struct Ranges {
  struct Range {
    std::uintptr_t begin, end;
    std::string name;
    // Those that overlap are equivalent
    bool operator<(const Range& other) const { return end <= other.begin; }
  };
  Home home;
  std::set<Range> all;

  void add(const std::string& owner, const char* member, const void* first, std::size_t size,
           dtype_code dtype) {
    const auto begin = reinterpret_cast<std::uintptr_t>(first);
    const std::size_t bytes = TypedPiece::bytes_of(dtype);
    if (size == 0) return;
    const std::string name = hd::concat({owner, member});
    if (begin == 0 || begin % bytes != 0)
      hd::throw_invalid_argument(
          {name, begin == 0 ? " is null" : " is not aligned to the size of its elements"});
    cudaPointerAttributes memory{};
    int is_reached = 1;
    check("cudaPointerGetAttributes", cudaPointerGetAttributes(&memory, first));
    if (memory.type == cudaMemoryTypeUnregistered)
      check("cudaDeviceGetAttribute",
            cudaDeviceGetAttribute(&is_reached, cudaDevAttrPageableMemoryAccess, home.device));
    if (memory.type == cudaMemoryTypeDevice && memory.device != home.device)
      check("cudaDeviceCanAccessPeer",
            cudaDeviceCanAccessPeer(&is_reached, home.device, memory.device));
    if (is_reached == 0)
      hd::throw_invalid_argument(
          {name, " is memory that device ", std::to_string(home.device),
           " cannot access: of the host and not registered, or of another device"});
    const auto [other, is_new] = all.insert({begin, begin + size * bytes, name});
    if (!is_new)
      hd::throw_invalid_argument({other->name, " and ", name,
                                  " overlap; list each tensor once, with its own destination"});
  }
};
/// The name of a gradient or tensor, whose dtype must be one of the four.
inline std::string checked_name(const char* list, std::size_t i, dtype_code dtype) {
  std::string name = hd::concat({list, "[", std::to_string(i), "]"});
  const int index = hd::dtype_index(dtype);
  if (index < 0 || index > hd::dtype_index(dtype_code::fp64))
    hd::throw_invalid_argument({name, ".dtype is none of fp16, bf16, fp32 and fp64"});
  return name;
}
/// What a step of a Scaler has done to a list.
struct Use {
  std::weak_ptr<const long long> ended_steps;  // of the Scaler, while it lives
  long long step = 0;
  bool is_unscaled = false, is_measured = false;
};
}  // namespace detail

/// Gradients whose addresses and sizes stay the same. Lives until `update` of a step that uses it.
class Gradients {
 public:
  /// Waits for the device. Throws std::invalid_argument, which names the index, if a dtype is none
  /// of the four, if an address is null, misaligned or of memory that the device cannot reach at
  /// all, or if any two tensors or destinations overlap.
  explicit Gradients(const std::vector<Gradient>& gradients = {}) {
    std::vector<detail::BlockWork> groups;
    std::vector<detail::TypedPiece> pieces;
    detail::Ranges ranges;
    std::size_t room = 0;  // in the last group, if it has whole tensors
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Gradient& g = gradients[i];
      const std::string name = detail::checked_name("gradients", i, g.dtype);
      const bool is_in_place =
          g.destination == nullptr || (g.destination == g.data && g.dtype == dtype_code::fp32);
      ranges.add(name, ".data", g.data, g.size, g.dtype);
      if (!is_in_place) ranges.add(name, ".destination", g.destination, g.size, dtype_code::fp32);
      if (is_in_place && !in_place_) in_place_ = i;
      if (is_in_place && g.dtype == dtype_code::fp16 && !fp16_in_place_) fp16_in_place_ = i;
      void* const to = is_in_place ? g.data : g.destination;
      const detail::TypedPiece whole{static_cast<const unsigned char*>(g.data),
                                     static_cast<unsigned char*>(to), g.size, g.dtype,
                                     is_in_place ? g.dtype : dtype_code::fp32};
      // The groups of ops/run.hpp: neighbours of one dtype, or a piece of a longer tensor.
      const bool is_long = g.size > detail::group_size;
      if (i > 0 && g.dtype != gradients[i - 1].dtype) room = 0;
      if (!is_long && g.size > room) {
        groups.push_back({whole.cut(0, 0), static_cast<unsigned>(pieces.size()), 0});
        room = detail::group_size;
      }
      room = is_long ? 0 : room - g.size;
      for (std::size_t at = 0; at < g.size; at += detail::squares_per_sum) {
        if (is_long && at % detail::group_size == 0)
          groups.push_back({whole.cut(at, detail::group_size), 0, 0});
        if (!is_long) pieces.push_back(whole.cut(at, detail::squares_per_sum));
        ++groups.back().count;
      }
    }
    groups_ = detail::copied(groups.size(), groups.data());
    pieces_ = detail::copied(pieces.size(), pieces.data());
    sums_ = detail::copied(groups.size(), std::vector<double>(groups.size()).data());
    list_ = {groups_.get(), pieces_.get(), sums_.get(), static_cast<unsigned>(groups.size())};
  }

 private:
  template <class Policy>
  friend class Scaler;

  detail::Home home_;
  mutable detail::Use use_;  // the last one
  detail::Memory<detail::BlockWork> groups_;
  detail::Memory<detail::TypedPiece> pieces_;
  detail::Memory<double> sums_;
  detail::List list_;
  std::optional<std::size_t> in_place_, fp16_in_place_;  // the first ones
};
}  // namespace gpu
HEADROOM_DETAIL_END_NAMESPACE
