#pragma once

#include <headroom/config.hpp>
#include <headroom/ops/plan.hpp>

#include <cstddef>
#include <cstring>
#include <type_traits>

// A pass over a leaf with strides: its elements are gathered into a buffer, worked on there, and scattered.

namespace headroom {
inline namespace HEADROOM_BUILD {
namespace detail {

/// What is done in a pass.
struct Pass {
  std::size_t op;  ///< its place among the Ops of the plan
  double factor = 1.0;
  bool adds = false;          ///< the op reads its destination as well
  bool may_stop = false;      ///< at the first chunk that is not finite
  std::size_t streaming = 0;  ///< how far behind `op` the one is that stores past the caches; 0: not wanted
};

/// Copies elements of 1, 2, 4 or 8 bytes; strides are in elements.
inline void copy_elements(std::size_t bytes, unsigned char* to, std::ptrdiff_t to_stride, const unsigned char* from,
                          std::ptrdiff_t from_stride, std::size_t n) noexcept {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, n * bytes);
    return;
  }
  to_stride *= static_cast<std::ptrdiff_t>(bytes);
  from_stride *= static_cast<std::ptrdiff_t>(bytes);
  const auto copy = [&](auto size) {
    for (std::size_t i = 0; i < n; ++i, to += to_stride, from += from_stride) std::memcpy(to, from, size);
  };
  using std::integral_constant;
  switch (bytes) {
    case 1:
      return copy(integral_constant<std::size_t, 1>());
    case 2:
      return copy(integral_constant<std::size_t, 2>());
    case 4:
      return copy(integral_constant<std::size_t, 4>());
    default:
      return copy(integral_constant<std::size_t, 8>());
  }
}

/// Goes through the elements of a leaf with strides, in the order of its loop nest, a stretch of the innermost loop at a time.
class StridedCursor {
 public:
  StridedCursor(const Dimension* dimensions, int depth, std::size_t begin) noexcept
      : dimensions_(dimensions), inner_(depth - 1) {
    auto rest = static_cast<std::ptrdiff_t>(begin);
    for (int i = inner_; i >= 0; --i) {
      index_[i] = rest % dimensions[i].size;
      rest /= dimensions[i].size;
      source += index_[i] * dimensions[i].source_stride;
      destination += index_[i] * dimensions[i].destination_stride;
    }
  }
  /// Elements up to the end of the innermost loop.
  [[nodiscard]] std::size_t stretch() const noexcept { return static_cast<std::size_t>(inner().size - index_[inner_]); }
  [[nodiscard]] const Dimension& inner() const noexcept { return dimensions_[inner_]; }
  void advance(std::size_t n) noexcept {
    int i = inner_;
    move(i, static_cast<std::ptrdiff_t>(n));
    while (i > 0 && index_[i] == dimensions_[i].size) {  // as on a mileage counter
      move(i, -index_[i]);
      move(--i, 1);
    }
  }

  std::ptrdiff_t source = 0, destination = 0;  // offsets of the element

 private:
  void move(int i, std::ptrdiff_t n) noexcept {
    index_[i] += n;
    source += n * dimensions_[i].source_stride;
    destination += n * dimensions_[i].destination_stride;
  }

  const Dimension* dimensions_;
  int inner_;
  std::ptrdiff_t index_[Layout::max_rank];
};

/// A leaf with strides in a pass: its elements are gathered into a buffer, worked on there, and scattered.
struct StridedRun {
  const Plan& plan;
  const Plan::Run& run;
  const Piece& piece;
  const Pass& pass;

  void operator()(std::size_t begin, std::size_t end, Kernel kernel, Found& found) const noexcept {
    alignas(64) unsigned char source[buffer_size * 8], other[buffer_size * 8];
    unsigned char* const destination = piece.source == piece.destination ? source : other;
    StridedCursor from(plan.dimensions(run), run.depth, begin), to = from;
    while (begin < end) {
      const std::size_t n = end - begin < buffer_size ? end - begin : buffer_size;
      copy(n, from, source, destination, true);
      const Piece gathered{source, destination, n};
      kernel(&gathered, &gathered + 1, pass.factor, found);
      if (piece.destination != nullptr) copy(n, to, source, destination, false);
      begin += n;
    }
  }
  /// `n` elements of the source, one beside the other.
  void gather(std::size_t begin, std::size_t n, unsigned char* to) const noexcept {
    StridedCursor from(plan.dimensions(run), run.depth, begin);
    copy(n, from, to, nullptr, true);
  }

 private:
  static constexpr std::size_t buffer_size = 256;  // elements

  void copy(std::size_t n, StridedCursor& cursor, unsigned char* source, unsigned char* destination,
            bool gathers) const noexcept {
    const std::size_t in = run.kind->source_bytes, out = run.kind->destination_bytes;
    const auto* const all_in = static_cast<const unsigned char*>(piece.source);
    auto* const all_out = static_cast<unsigned char*>(piece.destination);
    for (std::size_t done = 0, count = 0; done < n; done += count, cursor.advance(count)) {
      count = n - done < cursor.stretch() ? n - done : cursor.stretch();
      const Dimension& inner = cursor.inner();
      // A pass that only reads has no destination to point into.
      auto* const there = all_out == nullptr ? nullptr : all_out + cursor.destination * static_cast<std::ptrdiff_t>(out);
      if (gathers) {
        const auto* const here = all_in + cursor.source * static_cast<std::ptrdiff_t>(in);
        copy_elements(in, source + done * in, 1, here, inner.source_stride, count);
        if (pass.adds) copy_elements(out, destination + done * out, 1, there, inner.destination_stride, count);
      } else {
        copy_elements(out, there, inner.destination_stride, destination + done * out, 1, count);
      }
    }
  }
};

/// A pass over elements [begin, end) of a leaf.
inline void run_part(const Plan& plan, const Plan::Run& run, const Piece& piece, const Pass& pass, Kernel kernel,
                     std::size_t begin, std::size_t end, Found& found) noexcept {
  if (run.depth != 0) return StridedRun{plan, run, piece, pass}(begin, end, kernel, found);
  const std::size_t in = run.kind->source_bytes, out = run.kind->destination_bytes;
  auto* const destination = static_cast<unsigned char*>(piece.destination);
  const Piece part{static_cast<const unsigned char*>(piece.source) + begin * in,
                   destination == nullptr ? nullptr : destination + begin * out, end - begin};
  kernel(&part, &part + 1, pass.factor, found);
}

}  // namespace detail
}  // namespace HEADROOM_BUILD
}  // namespace headroom
