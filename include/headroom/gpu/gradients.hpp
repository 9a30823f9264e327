#pragma once

#include <headroom/detail/error.hpp>
#include <headroom/dtype/dtype_traits.hpp>
#include <headroom/gpu/runtime.hpp>
#include <headroom/kernel/sums.hpp>
#include <headroom/tree/any_tensor.hpp>

#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

struct __half;          // NOLINT: the name is CUDA's
struct __nv_bfloat16;   // NOLINT
struct __hip_bfloat16;  // NOLINT

HEADROOM_DETAIL_BEGIN_NAMESPACE
template <>
struct dtype_traits<::__half> : detail::has_format<binary16> {};
template <>
struct dtype_traits<::__nv_bfloat16> : detail::has_format<brain16> {};
template <>
struct dtype_traits<::__hip_bfloat16> : detail::has_format<brain16> {};

namespace gpu {
namespace hd = headroom::detail;

/// The dtype of T, which is float, double, __half, __nv_bfloat16 or HIP's, or a type that has the
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
// Lists of fewer groups have more threads in a block of `measure`, and so many blocks of `unscale`
// for a group.
inline constexpr unsigned few_groups = 128, sharing = 16;

struct TypedPiece {
  const unsigned char* source;
  unsigned char* destination;
  unsigned size, tensor;  // the index of its tensor
  dtype_code from, to;

  /// Up to `most` elements from `begin` on.
  [[nodiscard]] HEADROOM_DETAIL_HD TypedPiece cut(unsigned begin, unsigned most) const {
    const unsigned n = size - begin < most ? size - begin : most;
    return moved({source, destination, n, tensor, from, to}, begin);
  }
  /// `n` elements further.
  [[nodiscard]] HEADROOM_DETAIL_HD static TypedPiece moved(TypedPiece piece, std::size_t n) {
    piece.source += n * bytes_of(piece.from), piece.destination += n * bytes_of(piece.to);
    return piece;
  }
  HEADROOM_DETAIL_HD static std::size_t bytes_of(dtype_code dtype) {
    return (static_cast<std::uint32_t>(dtype) & 0xFFU) / 8;
  }
};
/// Pieces of at most `each` elements of a tensor, for `add`.
template <class F>
void for_each_piece(const Gradient& g, void* destination, dtype_code to, unsigned tensor,
                    unsigned each, const F& add) {
  for (std::size_t at = 0; at < g.size; at += each) {
    const std::size_t n = g.size - at < each ? g.size - at : each;
    add(TypedPiece::moved(
        {static_cast<const unsigned char*>(g.data), static_cast<unsigned char*>(destination),
         static_cast<unsigned>(n), tensor, g.dtype, to},
        at));
  }
}
/// The work of one block of threads, which has one sum of squares: up to 128 blocks of
/// `squares_per_sum` elements of one dtype. These are `count` pieces from `first` on, or, if that
/// piece is longer than a block, its blocks.
struct BlockWork {
  unsigned first, count;
  unsigned number;  // of its sum
};
inline constexpr unsigned most_blocks = group_size / squares_per_sum;

struct List {
  const BlockWork* groups = nullptr;
  const TypedPiece* pieces = nullptr;
  double* sums = nullptr;  // of squares, by group
  unsigned n_groups = 0;
  unsigned n_before = 0;      // tensors of the step's lists before this one
  bool carries_scale = true;  // as `measure` reads it
};
/// The groups of ops/run.hpp, of pieces that have one key.
class Groups {
 public:
  void add(const std::pair<dtype_code, dtype_code>& key, std::size_t size, unsigned first) {
    const auto blocks_of = [](std::size_t n) {
      return static_cast<unsigned>((n + squares_per_sum - 1) / squares_per_sum);
    };
    if (key != std::exchange(key_, key) || size > group_size) room_ = 0;
    if (size > group_size) {
      for (std::size_t at = 0; at < size; at += group_size)
        push_back({first++, blocks_of(size - at < group_size ? size - at : group_size), 0});
    } else if (const unsigned blocks = blocks_of(size); blocks > room_) {
      push_back({first, blocks, 0});
      room_ = most_blocks - blocks;
    } else if (blocks != 0) {
      groups_.back().count += blocks;
      room_ -= blocks;
    }
  }
  /// Full ones first, so that no block begins late with much to do.
  void append_to(std::vector<BlockWork>& all) const {
    for (const bool is_full : {true, false})
      for (const BlockWork& group : groups_)
        if ((group.count == most_blocks) == is_full) all.push_back(group);
  }
  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(groups_.size()); }

 private:
  void push_back(BlockWork group) {
    group.number = static_cast<unsigned>(groups_.size());
    groups_.push_back(group);
  }
  std::vector<BlockWork> groups_;
  std::pair<dtype_code, dtype_code> key_{};
  unsigned room_ = 0;  // blocks left in the last group
};
/// The memory of a list. Throws std::invalid_argument naming memory that kernels cannot use.
struct Ranges {
  struct Range {
    std::uintptr_t begin, end;
    std::size_t index;
    const char* member;
    // Those that overlap are equivalent
    bool operator<(const Range& other) const { return end <= other.begin; }
  };
  const char* list;
  Home home{};
  std::set<Range> all{};

  [[nodiscard]] std::string name(const Range& range) const {
    return hd::concat({list, "[", std::to_string(range.index), "]", range.member});
  }
  void check_dtype(std::size_t i, dtype_code dtype) const {
    const int index = hd::dtype_index(dtype);
    if (index < 0 || index > hd::dtype_index(dtype_code::fp64))
      hd::throw_invalid_argument(
          {name({0, 0, i, ".dtype"}), " is none of fp16, bf16, fp32 and fp64"});
  }
  void add(std::size_t i, const char* member, const void* first, std::size_t size,
           dtype_code dtype) {
    const auto begin = reinterpret_cast<std::uintptr_t>(first);
    const std::size_t bytes = TypedPiece::bytes_of(dtype);
    if (size == 0) return;
    const Range range{begin, begin + size * bytes, i, member};
    if (begin == 0 || begin % bytes != 0)
      hd::throw_invalid_argument(
          {name(range), begin == 0 ? " is null" : " is not aligned to the size of its elements"});
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
          {name(range), " is memory that device ", std::to_string(home.device),
           " cannot access: of the host and not registered, or of another device"});
    if (const auto [other, is_new] = all.insert(range); !is_new)
      hd::throw_invalid_argument({name(*other), " and ", name(range),
                                  " overlap; list each tensor once, with its own destination"});
  }
};
/// What a step of a Scaler has done to a list.
struct Use {
  std::weak_ptr<const long long> ended_steps;  // of the Scaler, while it lives
  long long step = 0;
  unsigned n_before = 0;  // tensors of the step's lists before this one
  bool is_unscaled = false, is_measured = false;

  /// Whether its step has not ended.
  [[nodiscard]] bool is_open() const {
    const std::shared_ptr<const long long> ended = ended_steps.lock();
    return ended != nullptr && *ended == step;
  }
};
}  // namespace detail

/// Gradients whose sizes and dtypes stay the same. Lives until `update` of a step that uses it.
class Gradients {
 public:
  /// Waits for the device. Throws std::invalid_argument, which names the index, if a dtype is none
  /// of the four, if an address is null, misaligned or of memory that the device cannot reach at
  /// all, or if any two tensors or destinations overlap.
  explicit Gradients(const std::vector<Gradient>& gradients = {}) : all_(gradients) {
    check(gradients);
    std::vector<detail::TypedPiece> pieces;
    detail::Groups groups[3];  // those of `measure`, before and after `unscale`, and of `unscale`
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const Gradient& g = all_[i];
      const dtype_code to = result_dtype(g);
      const auto first = static_cast<unsigned>(pieces.size());
      firsts_.push_back(first);
      if (g.size != 0 && is_in_place(g) && !in_place_) in_place_ = i;
      if (g.size != 0 && is_in_place(g) && g.dtype == dtype_code::fp16 && !fp16_in_place_)
        fp16_in_place_ = i;
      groups[0].add({g.dtype, g.dtype}, g.size, first);
      groups[1].add({to, to}, g.size, first);
      groups[2].add({g.dtype, to}, g.size, first);
      detail::for_each_piece(
          g, result(g), to, static_cast<unsigned>(i),
          g.size > detail::group_size ? detail::group_size : detail::squares_per_sum,
          [&](const detail::TypedPiece& piece) { pieces.push_back(piece); });
    }
    firsts_.push_back(static_cast<unsigned>(pieces.size()));
    pieces_ = detail::copied(pieces.size(), pieces.data());
    std::vector<detail::BlockWork> work;
    for (int i = 0; i < 3; ++i) groups[i].append_to(work), n_groups_[i] = groups[i].size();
    groups_ = detail::copied(work.size(), work.data());
    const std::vector<double> sums(hd::larger_of(n_groups_[0], n_groups_[1]));
    sums_ = detail::copied(sums.size(), sums.data());
  }
  /// Gives the gradients other addresses, from now on in the stream's order. Only launches, one
  /// kernel for 160 gradients. Call it between launches of a graph, not while one is captured.
  /// Throws std::invalid_argument if the number, a size or a dtype differs, if a destination is new
  /// or missing, and as the constructor does; std::logic_error if a step that has not ended has
  /// measured the list, or has unscaled it to other addresses.
  void assign(const std::vector<Gradient>& gradients, cudaStream_t stream);

 private:
  template <class Policy>
  friend class Scaler;

  static bool is_in_place(const Gradient& g) {
    return g.destination == nullptr || (g.destination == g.data && g.dtype == dtype_code::fp32);
  }
  static void* result(const Gradient& g) { return is_in_place(g) ? g.data : g.destination; }
  static dtype_code result_dtype(const Gradient& g) {
    return is_in_place(g) ? g.dtype : dtype_code::fp32;
  }
  static void check(const std::vector<Gradient>& gradients) {
    detail::Ranges ranges{"gradients"};
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const Gradient& g = gradients[i];
      ranges.check_dtype(i, g.dtype);
      ranges.add(i, ".data", g.data, g.size, g.dtype);
      if (!is_in_place(g)) ranges.add(i, ".destination", g.destination, g.size, dtype_code::fp32);
    }
  }
  /// Number 0: as gradients; 1: as results; 2: for `unscale`.
  [[nodiscard]] detail::List list(int number) const {
    const auto* first = groups_.get();
    for (int i = 0; i < number; ++i) first += n_groups_[i];
    return {first, pieces_.get(), sums_.get(), n_groups_[number], 0, number == 0};
  }

  detail::Home home_;
  mutable detail::Use use_;  // the last one
  std::vector<Gradient> all_;
  std::vector<unsigned> firsts_;  // the first piece of each, and the number of all
  detail::Memory<detail::TypedPiece> pieces_;
  detail::Memory<detail::BlockWork> groups_;
  unsigned n_groups_[3] = {};
  detail::Memory<double> sums_;
  std::optional<std::size_t> in_place_, fp16_in_place_;  // the first ones
};
}  // namespace gpu
HEADROOM_DETAIL_END_NAMESPACE
