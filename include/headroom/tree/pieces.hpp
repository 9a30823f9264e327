#pragma once

#include <headroom/config.hpp>
#include <headroom/dtype/span.hpp>
#include <headroom/tree/visit.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

// A leaf, or a source and a destination leaf, cut into pieces that a kernel can take: contiguous runs of at most piece_size
// elements. How a leaf is cut depends on its layout alone, so sums over pieces are the same however they are shared out.
//
// A sink gets the pieces: `sink.wants(bytes)` says whether it takes the next piece, of so many bytes, `sink(elements, n)` or
// `sink(source, destination, n)` does the work. `Sink::writes`: whether it changes the elements of a single leaf.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// Elements gathered into a buffer at a time where they do not lie side by side.
inline constexpr std::size_t gather_size = 256;

/// Dimensions common to two tensors of one shape, as a loop nest: largest stride of the second outermost, dimensions merged
/// where both go on without a gap. One tensor is walked as both.
struct LoopNest {
  int depth = 0;
  std::ptrdiff_t shape[Layout::max_rank + 1];
  std::ptrdiff_t first_stride[Layout::max_rank + 1];
  std::ptrdiff_t second_stride[Layout::max_rank + 1];

  LoopNest(const Layout& first, const Layout& second) {
    for (int i = 0; i < second.rank(); ++i) insert(second.shape(i), first.stride(i), second.stride(i));
    merge();
    if (depth == 0) insert(1, 1, 1);
  }
  [[nodiscard]] bool is_contiguous() const noexcept {
    return depth == 1 && (shape[0] == 1 || (first_stride[0] == 1 && second_stride[0] == 1));
  }

 private:
  static std::ptrdiff_t magnitude(std::ptrdiff_t stride) noexcept { return stride < 0 ? -stride : stride; }

  void insert(std::ptrdiff_t size, std::ptrdiff_t first, std::ptrdiff_t second) noexcept {
    int at = depth++;
    for (; at > 0 && magnitude(second_stride[at - 1]) < magnitude(second); --at) copy(at - 1, at);
    shape[at] = size;
    first_stride[at] = first;
    second_stride[at] = second;
  }
  void copy(int from, int to) noexcept {
    shape[to] = shape[from];
    first_stride[to] = first_stride[from];
    second_stride[to] = second_stride[from];
  }
  void merge() noexcept {
    int kept = 0;
    for (int i = 1; i < depth; ++i) {
      const bool goes_on =
          first_stride[kept] == shape[i] * first_stride[i] && second_stride[kept] == shape[i] * second_stride[i];
      const std::ptrdiff_t outer = shape[kept];
      if (!goes_on) ++kept;
      copy(i, kept);
      if (goes_on) shape[kept] *= outer;
    }
    if (depth > 0) depth = kept + 1;
  }
};

template <class Leaf>
[[nodiscard]] Layout layout_of(const Leaf& leaf) {
  if constexpr (is_dtype_v<Leaf>) {
    return {};
  } else if constexpr (has_layout<Leaf>::value) {
    return tensor_traits<Leaf>::layout(leaf);
  } else {
    Layout layout;
    layout.push(static_cast<std::ptrdiff_t>(tensor_traits<Leaf>::size(leaf)), 1);
    return layout;
  }
}

// ---- contiguous ----

template <class Sink, class T>
void contiguous_pieces(Sink& sink, T* elements, std::size_t size) {
  for (std::size_t begin = 0; begin < size; begin += piece_size) {
    const std::size_t n = std::min(piece_size, size - begin);
    if (sink.wants(n * sizeof(T))) sink(elements + begin, n);
  }
}
template <class Sink, class In, class Out>
void contiguous_pieces(Sink& sink, In* source, Out* destination, std::size_t size) {
  for (std::size_t begin = 0; begin < size; begin += piece_size) {
    const std::size_t n = std::min(piece_size, size - begin);
    if (sink.wants(n * (sizeof(In) + sizeof(Out)))) sink(source + begin, destination + begin, n);
  }
}

// ---- strided ----

/// Elements of T without their type's constructors or alignment: what a kernel needs.
template <class T>
struct GatherBuffer {
  alignas(64) unsigned char bytes[gather_size * sizeof(T)];

  T* elements() noexcept { return reinterpret_cast<T*>(bytes); }
  void gather(const T* from, std::ptrdiff_t stride, std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      std::memcpy(bytes + i * sizeof(T), from + static_cast<std::ptrdiff_t>(i) * stride, sizeof(T));
    }
  }
  void scatter(T* to, std::ptrdiff_t stride, std::size_t n) const noexcept {
    for (std::size_t i = 0; i < n; ++i) {
      std::memcpy(static_cast<void*>(to + static_cast<std::ptrdiff_t>(i) * stride), bytes + i * sizeof(T), sizeof(T));
    }
  }
};

template <class Sink, class T>
void strided_run(Sink& sink, T* elements, std::ptrdiff_t stride, std::ptrdiff_t, std::size_t n) {
  if (stride == 1 || n == 1) return detail::contiguous_pieces(sink, elements, n);
  GatherBuffer<std::remove_const_t<T>> buffer;
  for (std::size_t begin = 0; begin < n; begin += gather_size) {
    const std::size_t count = std::min(gather_size, n - begin);
    if (!sink.wants(count * sizeof(T))) continue;
    T* from = elements + static_cast<std::ptrdiff_t>(begin) * stride;
    buffer.gather(from, stride, count);
    sink(buffer.elements(), count);
    if constexpr (!std::is_const_v<T> && Sink::writes) buffer.scatter(from, stride, count);
  }
}

/// Source and destination with their own strides.
template <class Sink, class In, class Out>
void strided_run(Sink& sink, In* source, std::ptrdiff_t in_stride, Out* destination, std::ptrdiff_t out_stride, std::size_t n) {
  if (n == 1 || (in_stride == 1 && out_stride == 1)) return detail::contiguous_pieces(sink, source, destination, n);
  GatherBuffer<std::remove_const_t<In>> from_buffer;
  GatherBuffer<Out> to_buffer;
  for (std::size_t begin = 0; begin < n; begin += gather_size) {
    const std::size_t count = std::min(gather_size, n - begin);
    if (!sink.wants(count * (sizeof(In) + sizeof(Out)))) continue;
    from_buffer.gather(source + static_cast<std::ptrdiff_t>(begin) * in_stride, in_stride, count);
    sink(from_buffer.elements(), to_buffer.elements(), count);
    to_buffer.scatter(destination + static_cast<std::ptrdiff_t>(begin) * out_stride, out_stride, count);
  }
}

/// Calls run(first offset, second offset, elements) for each innermost loop of the nest.
template <class Run>
void for_each_run(const LoopNest& nest, Run&& run) {
  const int inner = nest.depth - 1;
  for (int i = 0; i < nest.depth; ++i) {
    if (nest.shape[i] == 0) return;
  }
  std::ptrdiff_t index[Layout::max_rank + 1] = {};
  std::ptrdiff_t first = 0, second = 0;
  for (;;) {
    run(first, second, static_cast<std::size_t>(nest.shape[inner]));
    int i = inner - 1;
    for (; i >= 0; --i) {  // the next index, as on a mileage counter
      first += nest.first_stride[i];
      second += nest.second_stride[i];
      if (++index[i] < nest.shape[i]) break;
      first -= nest.shape[i] * nest.first_stride[i];
      second -= nest.shape[i] * nest.second_stride[i];
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

// ---- leaves ----

template <class Sink, class Leaf>
void pieces_of_leaf(Sink& sink, Leaf& leaf) {
  auto* elements = detail::data_of(leaf);
  if constexpr (has_layout<std::remove_const_t<Leaf>>::value) {
    const Layout layout = detail::layout_of(leaf);
    const LoopNest nest(layout, layout);
    if (!nest.is_contiguous()) {
      for_each_run(nest, [&](std::ptrdiff_t offset, std::ptrdiff_t, std::size_t n) {
        detail::strided_run(sink, elements + offset, nest.first_stride[nest.depth - 1], 0, n);
      });
      return;
    }
  }
  detail::contiguous_pieces(sink, elements, detail::size_of(leaf));
}

/// The two have been checked: same shape, or as many elements where one is flat and the other without gaps.
template <class Sink, class Source, class Destination>
void pieces_of_leaf(Sink& sink, Source& source, Destination& destination) {
  auto* from = detail::data_of(source);
  auto* to = detail::data_of(destination);
  if constexpr (has_layout<std::remove_const_t<Source>>::value || has_layout<Destination>::value) {
    const Layout from_layout = detail::layout_of(source);
    const Layout to_layout = detail::layout_of(destination);
    if (from_layout.same_shape(to_layout)) {
      const LoopNest nest(from_layout, to_layout);
      const int inner = nest.depth - 1;
      if (!nest.is_contiguous()) {
        for_each_run(nest, [&](std::ptrdiff_t from_offset, std::ptrdiff_t to_offset, std::size_t n) {
          detail::strided_run(sink, from + from_offset, nest.first_stride[inner], to + to_offset, nest.second_stride[inner], n);
        });
        return;
      }
    }
  }
  detail::contiguous_pieces(sink, from, to, detail::size_of(destination));
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
